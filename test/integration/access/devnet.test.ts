import { expect, it } from 'vitest';
import { UpstreamError, type AccessNode } from '../../../src/access/index.js';
import type { DevnetHandle, DevnetOptions } from '../../../src/devnet/index.js';
import { eventually, networkOf } from '../../support/index.js';
import { devnetForTest } from '../../support/runningDaemon.js';

const { signal } = new AbortController();

/** The only node of a network that has asked it who it is, and what is behind it. */
async function nodeOf(options: DevnetOptions): Promise<{ made: DevnetHandle; node: AccessNode }> {
  const made = await devnetForTest({ paused: true, ...options });
  const network = await networkOf([{ endpoint: made.address }]);
  return { made, node: network.live()[0]! };
}

/** The first height of its execution data from 101 on. */
async function first(node: AccessNode): Promise<number | undefined> {
  for await (const { height } of node.subscribeExecutionData(101, { signal })) return height;
  return undefined;
}

it('that grants one stream keeps it for execution data, and its blocks are polled', async () => {
  const { node } = await nodeOf({ rootHeight: 100, startHead: 130, maxStreams: 1 });
  const blocks = node.subscribeBlocks(101, { signal })[Symbol.asyncIterator]();
  expect((await blocks.next()).value).toMatchObject({ block: { height: 101 } });
  expect(node.supports('SubscribeBlocksFromStartHeight')).toBe(true);

  await expect(first(node)).rejects.toMatchObject({ kind: 'rate_limited' });
  // Our own stream made way, in good order and with nothing lost of what was taken.
  expect(await blocks.next()).toEqual({ done: true, value: undefined });
  for (const method of ['SubscribeBlocksFromStartHeight', 'SubscribeBlockDigestsFromLatest'] as const)
    expect(node.supports(method)).toBe(false);
  expect(node.supports('SubscribeExecutionDataFromStartBlockHeight')).toBe(true);
  // The node learns a moment later that the other stream has ended.
  const height = await eventually(() =>
    first(node).catch((error: unknown) => {
      if (!(error instanceof UpstreamError) || error.kind !== 'rate_limited') throw error;
      return undefined;
    }),
  );
  expect([height, (await node.getBlockByHeight(102)).block.height]).toEqual([101, 102]);
});

it('that learns the older of two calls, of which it knew neither, is asked by it the next time', async () => {
  const { made, node } = await nodeOf({
    ...{ rootHeight: 100, startHead: 110, executionDataSubscriptions: 'deprecated' },
    faults: [{ method: 'SubscribeExecutionData', fault: 'error', code: 'UNIMPLEMENTED' }],
  });
  const refused = () => expect(first(node)).rejects.toMatchObject({ kind: 'unimplemented' });
  for (let call = 0; call < 4; call += 1) await refused();
  made.node.faults.set([]);
  await refused();
  expect(await first(node)).toBe(101);
});

it('that breaks the connection over execution data and over one call, time after time, breaks no other call by that', async () => {
  const faults = ['SubscribeExecutionData*', 'GetLatestBlockHeader'].map(
    (method) => ({ method, fault: 'cut', how: 'reset' }) as const,
  );
  const { made, node } = await nodeOf({ rootHeight: 100, startHead: 110, faults });
  const blocks = node.subscribeBlocks(110, { signal })[Symbol.asyncIterator]();
  expect((await blocks.next()).value).toMatchObject({ block: { height: 110 } });
  const next = blocks.next();
  for (let time = 0; time < 3; time += 1) {
    await expect(first(node)).rejects.toMatchObject({ kind: 'unavailable' });
    expect((await node.getBlockByHeight(101 + time)).block.height).toBe(101 + time);
  }
  const broken = (): Promise<void> =>
    expect(node.getLatestBlockHeader(false)).rejects.toMatchObject({ kind: 'unavailable' });
  // Once or twice may be chance.
  await broken();
  await broken();
  const behind = { method: 'GetBlockByHeight', fault: 'latency', delayMs: 200 } as const;
  made.node.setFaults([...faults, behind]);
  const block = node.getBlockByHeight(101);
  await broken();
  expect((await block).block.height).toBe(101);
  made.node.head.advance(1);
  expect((await next).value).toMatchObject({ block: { height: 111 } });
  made.node.setFaults([]);
  expect((await node.getLatestBlockHeader(false)).height).toBe(111);
});
