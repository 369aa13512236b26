import { describe, expect, it, onTestFinished } from 'vitest';
import { AccessNetwork, UpstreamError } from '../../../src/access/index.js';
import { startDevnet } from '../../../src/devnet/index.js';
import type { DevnetHandle, DevnetOptions } from '../../../src/devnet/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../support/seededRandom.js';
import { RecordingLogger } from '../../support/recordingLogger.js';

const { signal } = new AbortController();

async function devnet(options: DevnetOptions): Promise<DevnetHandle> {
  const started = await startDevnet({ paused: true, ...options });
  onTestFinished(() => started.close());
  return started;
}

/** A network of these nodes, once it can be asked. */
async function follow(nodes: readonly DevnetHandle[], sporkRoot?: number): Promise<AccessNetwork> {
  const network = new AccessNetwork(
    {
      ...(sporkRoot !== undefined && { sporkRoot }),
      accessNodes: nodes.map(({ url }) => url),
      sporks: [],
      ratePerSecond: 0,
      maxMessageBytes: 64 * 1024 * 1024,
      timeoutMs: 10_000,
      userAgent: 'test',
    },
    {
      clock: systemClock,
      random: seededRandom(1),
      logger: new RecordingLogger(),
      metrics: createMetrics({ version: 'test', node: 'test' }),
      expectation: () => ({ chainId: 'flow-localnet', network: 'devnet', sporks: [] }),
    },
  );
  const stop = new AbortController();
  const running = network.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await running;
    network.close();
  });
  await network.whenIdentified(stop.signal);
  return network;
}

async function take<T>(count: number, items: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const item of items) {
    taken.push(item);
    if (taken.length === count) break;
  }
  return taken;
}

/** What `ask` answers once the node no longer says that it has no stream to spare. */
async function eventually<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.kind !== 'rate_limited') throw error;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

describe('a simulated access node', () => {
  it('that grants one stream keeps it for execution data, and its blocks are polled', async () => {
    const net = await follow([await devnet({ rootHeight: 100, startHead: 130, maxStreams: 1 })]);
    const node = net.live()[0]!;
    const blocks = node.subscribeBlocks(101, { signal })[Symbol.asyncIterator]();
    expect((await blocks.next()).value).toMatchObject({ block: { height: 101 } });
    expect(node.supports('SubscribeBlocksFromStartHeight')).toBe(true);

    await expect(take(1, node.subscribeExecutionData(101, { signal }))).rejects.toMatchObject({
      kind: 'rate_limited',
    });
    // Our own stream made way, in good order and with nothing lost of what was taken.
    expect(await blocks.next()).toEqual({ done: true, value: undefined });
    for (const method of ['SubscribeBlocksFromStartHeight', 'SubscribeBlockDigestsFromLatest'] as const)
      expect(node.supports(method)).toBe(false);
    expect(node.supports('SubscribeExecutionDataFromStartBlockHeight')).toBe(true);
    // The node learns a moment later that the other stream has ended.
    const first = await eventually(() => take(1, node.subscribeExecutionData(101, { signal })));
    expect(first[0]?.height).toBe(101);
    expect((await node.getBlockByHeight(102)).block.height).toBe(102);
  });

  it('that breaks the connection over execution data and over one call, time after time, breaks no other call by that', async () => {
    const made = await devnet({
      ...{ rootHeight: 100, startHead: 110 },
      faults: [
        { method: 'SubscribeExecutionData*', fault: 'cut', how: 'reset' },
        { method: 'GetLatestBlockHeader', fault: 'cut', how: 'reset' },
        // Under way when the connection of the other breaks.
        { method: 'GetBlockByHeight', fault: 'latency', delayMs: 200 },
      ],
    });
    const net = await follow([made]);
    const node = net.live()[0]!;
    const blocks = node.subscribeBlocks(110, { signal })[Symbol.asyncIterator]();
    expect((await blocks.next()).value).toMatchObject({ block: { height: 110 } });
    const next = blocks.next();
    for (let time = 0; time < 3; time += 1) {
      await expect(take(1, node.subscribeExecutionData(101, { signal }))).rejects.toMatchObject({
        kind: 'unavailable',
      });
      expect((await node.getBlockByHeight(101 + time)).block.height).toBe(101 + time);
    }
    const broken = (): Promise<void> =>
      expect(node.getLatestBlockHeader(false)).rejects.toMatchObject({ kind: 'unavailable' });
    // Once or twice may be chance.
    await broken();
    await broken();
    for (let time = 0; time < 3; time += 1) {
      const block = node.getBlockByHeight(101 + time);
      await broken();
      expect((await block).block.height).toBe(101 + time);
    }
    made.node.head.advance(1);
    expect((await next).value).toMatchObject({ block: { height: 111 } });
    made.node.setFaults([]);
    expect((await node.getLatestBlockHeader(false)).height).toBe(111);
  });
});
