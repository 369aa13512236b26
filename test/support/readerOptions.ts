import type { ReaderOptions } from '../../src/app/threads/messages.js';

/** What a reader thread starts with, where a test says nothing else. */
export function readerOptions(change: Partial<ReaderOptions> = {}): ReaderOptions {
  return {
    ...{ storePath: '/store', chainId: 'flow-localnet', version: '0.1.0', accessNodes: [] },
    ...{ userAgent: 'test/1', maxMessageBytes: 1 },
    api: { host: '127.0.0.1', port: 0, grpcPort: 0, forward: false, forwardRest: undefined },
    settings: { logLevel: 'info', corsOrigins: [], maxConnections: 512, ratePerSecondPerAddress: 0 },
    ...change,
  };
}
