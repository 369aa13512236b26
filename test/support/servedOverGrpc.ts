import { GrpcApiServer, type IndexedRange } from '../../src/api/index.js';
import type { GrpcApiServerDependencies, GrpcApiServerOptions } from '../../src/api/grpc/GrpcApiServer.js';
import { createReaderMetrics } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { atEnd } from './cleanup.js';
import { feedOver } from './feed.js';
import { probeOn } from './grpcProbe.js';
import { IndexedChain, type Heads } from './indexedChain.js';
import { RecordingLogger } from './recordingLogger.js';

type Parts = Partial<GrpcApiServerOptions> & Partial<GrpcApiServerDependencies>;

/** It does not listen yet. A bug in it fails the test, unless the test takes it from `failures`. */
export function grpcServerOver(
  store: GrpcApiServerDependencies['store'],
  range: () => IndexedRange,
  parts: Parts = {},
) {
  const { clock = systemClock } = parts;
  const status = { range };
  const feed = feedOver({ reader: store, status, clock });
  const logger = new RecordingLogger();
  const metrics = createReaderMetrics();
  const failures: unknown[] = [];
  const server = new GrpcApiServer(
    { host: '127.0.0.1', port: 0, chainId: 'flow-localnet', version: '1.2.3', accessNodes: [], ...parts },
    {
      ...{ store, clock, feed, status, logger, metrics, fail: (error) => failures.push(error) },
      ...{ health: { readiness: () => ({ ready: true }) }, ...parts },
    },
  );
  atEnd(async () => {
    await feed.close();
    await server.close();
    if (failures.length > 0) throw failures[0];
  });
  return { server, feed, logger, metrics, failures };
}

/** The same, listening. `probe` makes a client. */
export async function grpcOver(...ground: Parameters<typeof grpcServerOver>) {
  const parts = grpcServerOver(...ground);
  await parts.server.start();
  const { port } = parts.server.address();
  const address = `127.0.0.1:${port}`;
  return { ...parts, port, address, probe: () => probeOn(address) };
}

/** The same over a store in memory that holds a chain, all of it indexed, and sealed unless it is told otherwise. */
export async function servedOverGrpc(
  chain: readonly BlockEntry[],
  { sealed, head, ...parts }: Parts & Partial<Heads> = {},
) {
  const top = (chain[0]?.block.height ?? 0) + chain.length - 1;
  const heads = { sealed: sealed === undefined ? top : sealed, head: head ?? top };
  const index = await IndexedChain.of(chain, heads);
  const given = { accessNodes: ['grpc://node:9000'], ...parts };
  const served = await grpcOver(index.store, () => index.range, given);
  index.onChanged = () => served.feed.notify();
  return { ...served, index };
}
