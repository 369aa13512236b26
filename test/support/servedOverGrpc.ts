import { GrpcApiServer } from '../../src/api/index.js';
import type { IndexedRange } from '../../src/api/index.js';
import type { GrpcApiServerDependencies, GrpcApiServerOptions } from '../../src/api/grpc/GrpcApiServer.js';
import { systemClock } from '../../src/runtime/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { atEnd } from './cleanup.js';
import { feedOver } from './feed.js';
import { MemoryIndexStore } from './memoryIndexStore.js';
import { RecordingLogger } from './recordingLogger.js';

/**
 * The gRPC server over a store in memory that holds a chain, all of it indexed and sealed, until the end of the test. A bug in
 * the server fails the test.
 */
export async function servedOverGrpc(
  chain: readonly BlockEntry[],
  parts: Partial<GrpcApiServerOptions> & Partial<GrpcApiServerDependencies> = {},
): Promise<{ readonly address: string; readonly server: GrpcApiServer }> {
  const firstIndexed = chain[0]?.block.height ?? 0;
  const latestIndexed = firstIndexed + chain.length - 1;
  const store = await MemoryIndexStore.startingAt(firstIndexed);
  await store.commit({ blocks: chain, latestIndexedHeight: latestIndexed });
  const range: IndexedRange = {
    ...{ firstIndexed, latestIndexed },
    ...{ head: latestIndexed, sealed: latestIndexed },
  };
  const status = { range: () => range };
  const failures: unknown[] = [];
  const server = new GrpcApiServer(
    {
      ...{ host: '127.0.0.1', port: 0, chainId: 'flow-localnet', version: '1.2.3' },
      accessNodes: ['grpc://node:9000'],
      ...parts,
    },
    {
      ...{ store, clock: systemClock, logger: new RecordingLogger() },
      ...{ status, feed: feedOver({ reader: store, status }) },
      health: { readiness: () => ({ ready: true }) },
      fail: (error) => failures.push(error),
      ...parts,
    },
  );
  await server.start();
  atEnd(async () => {
    await server.close();
    if (failures.length > 0) throw failures[0];
  });
  return { address: `127.0.0.1:${server.address().port}`, server };
}
