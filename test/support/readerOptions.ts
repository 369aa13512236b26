import type { ReaderOptions } from '../../src/app/threads/messages.js';

type Config = ReaderOptions['config'];

/** What a reader thread starts with, where a test says nothing else. */
export function readerOptions(api: Partial<Config['api']> = {}, dataDir = '/data'): ReaderOptions {
  return {
    config: {
      ...{ dataDir, store: undefined, chainId: 'flow-localnet', accessNodes: ['node:9000'] },
      access: { maxMessageBytes: 1024 * 1024 },
      api: {
        ...{ host: '127.0.0.1', port: 0, grpcPort: 0, forward: false, forwardRest: undefined },
        ...{ store: undefined, ...api },
      },
    },
    settings: () => ({ logLevel: 'info', corsOrigins: [], maxConnections: 512, ratePerSecondPerAddress: 0 }),
  };
}
