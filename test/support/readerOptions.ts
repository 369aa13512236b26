import type { ReaderOptions } from '../../src/app/threads/messages.js';
import { loadConfig, type DaemonConfig } from '../../src/config/index.js';

/** What a reader thread works by, where a test says nothing else. */
export function readerOptions(
  api: Partial<DaemonConfig['api']> = {},
  dataDir = '/data',
): () => ReaderOptions {
  const flags = new Map([['network', ['devnet']]]);
  const { config } = loadConfig({ file: undefined, environment: {}, flags }, { isTerminal: false });
  return () => ({ config: { ...config, dataDir, api: { ...config.api, port: 0, grpcPort: 0, ...api } } });
}
