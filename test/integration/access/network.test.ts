import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AccessNetwork } from '../../../src/access/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import { AccessServer, StatusError, testBlock, testId } from '../../support/accessServer.js';
import type { AccessHandlers } from '../../support/accessServer.js';
import { status } from '@grpc/grpc-js';
import { RecordingLogger } from '../../support/recordingLogger.js';

let servers: AccessServer[];
let networks: AccessNetwork[];
let stop: AbortController;
let running: Promise<void>[];

beforeEach(() => {
  servers = [];
  networks = [];
  running = [];
  stop = new AbortController();
});

afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  for (const network of networks) network.close();
  for (const server of servers) server.stop();
});

async function serve(handlers: AccessHandlers): Promise<AccessServer> {
  const server = await new AccessServer(handlers).start();
  servers.push(server);
  return server;
}

/** A node of a chain whose spork began at a height; the newer calls are missing on an old one. */
function nodeOf(chainId: string, root: number, old = false): AccessHandlers {
  return {
    unary: {
      GetNetworkParameters: () => ({ chain_id: chainId }),
      GetBlockByHeight: (request) => {
        const height = Number(request['height']);
        if (height < root) {
          throw new StatusError(
            status.NOT_FOUND,
            `not found: block height ${height} is less than the spork root block height ${root}. Try to use a historic node`,
          );
        }
        return { block: testBlock(height), block_status: 'BLOCK_SEALED' };
      },
      ...(old
        ? {}
        : {
            GetNodeVersionInfo: () => ({
              info: {
                semver: 'v0.44.0',
                spork_id: testId(root, 1),
                spork_root_block_height: String(root),
                node_root_block_height: String(root),
              },
            }),
          }),
    },
  };
}

function networkOf(accessNodes: readonly string[], sporkNode?: string): AccessNetwork {
  const network = new AccessNetwork(
    {
      accessNodes,
      sporks:
        sporkNode === undefined
          ? []
          : [
              {
                name: 'earlier',
                rootHeight: 10,
                endHeightExclusive: 500,
                rootParentId: '00'.repeat(32),
                accessNodes: [sporkNode],
              },
            ],
      ratePerSecond: 0,
      maxMessageBytes: 1024 * 1024,
      timeoutMs: 5_000,
      userAgent: 'test',
    },
    {
      clock: systemClock,
      random: seededRandom(1),
      logger: new RecordingLogger(),
      metrics: createMetrics({ version: 'test', node: 'test' }),
      expectation: () => ({ chainId: 'flow-mainnet', network: 'mainnet', sporks: [] }),
    },
  );
  networks.push(network);
  running.push(network.run(stop.signal));
  return network;
}

/** Comes back to a condition at each turn of the event loop until it holds. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

describe('AccessNetwork over gRPC', () => {
  it('sends heights below the live root to the historic node of their spork, old ones too', async () => {
    const live = await serve(nodeOf('flow-mainnet', 500));
    const historic = await serve(nodeOf('flow-mainnet', 10, true));
    const network = networkOf([live.endpoint], historic.endpoint);
    await network.waits.whenIdentified(stop.signal);
    expect(network.heights.liveRoot()).toBe(500);
    expect(network.heights.lowestHeight()).toBe(10);
    expect(network.heights.sporkAt(600)).toEqual({
      rootHeight: 500,
      sporkId: testId(500, 1).toString('hex'),
    });

    await until(() => network.forHeight(42).length > 0);
    const [node] = network.forHeight(42);
    expect(node?.name).toBe(historic.endpoint);
    expect((await node!.getBlockByHeight(42)).block.height).toBe(42);
  });

  it('starts as soon as a node answers that was down at first', async () => {
    const server = await serve(nodeOf('flow-mainnet', 500));
    server.stop();
    const network = networkOf([server.endpoint]);
    const identified = network.waits.whenIdentified(stop.signal);
    await until(() => network.states().some(({ state }) => state === 'unknown'));
    await server.start();
    await identified;
    expect(network.live().map(({ name }) => name)).toEqual([server.endpoint]);
  });

  it('notices that a node came back as one of another chain', async () => {
    const server = await serve(nodeOf('flow-mainnet', 500));
    const network = networkOf([server.endpoint]);
    await network.waits.whenIdentified(stop.signal);
    const [node] = network.live();
    server.stop();
    await expect(node!.getBlockByHeight(600)).rejects.toMatchObject({ kind: 'unavailable' });
    server.handlers = nodeOf('flow-testnet', 500);
    await server.start();
    await until(() => network.states()[0]?.state === 'foreign');
    expect(network.forHeight(600)).toEqual([]);
  });
});
