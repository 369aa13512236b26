import { expect, it } from 'vitest';
import { Chain, ChainGenerator, collectionLagMs } from '../../../src/devnet/index.js';
import { DevnetNode, resolveNodeOptions, UnaryCalls } from '../../../src/devnet/index.js';
import type { DevnetMethod, DevnetOptions, FaultRule } from '../../../src/devnet/index.js';
import { matching, VirtualClock } from '../../support/index.js';

function makeNode(options: DevnetOptions = {}): { node: DevnetNode; calls: UnaryCalls; clock: VirtualClock } {
  const clock = new VirtualClock();
  const merged: DevnetOptions = { profile: 'dense', startHead: 100, ...options };
  const node = new DevnetNode(resolveNodeOptions(merged), { chain: new Chain(merged), clock });
  return { node, calls: new UnaryCalls({ node }), clock };
}

const call = { signal: new AbortController().signal, connection: { reset: () => undefined } };

async function ask(calls: UnaryCalls, method: DevnetMethod, request: object = {}): Promise<string> {
  return calls.answer(method, request, call).then(
    () => 'OK',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}

const byHeight = (height: number): object => ({ height: String(height) });

it('the head moves with time, makes up for late timers but not for hours, and stops when paused and at the end; blocks that nobody has read are found by id', async () => {
  const hashed = { hashedIds: true, certificatesEvery: 0, profile: 'empty' } as const;
  const chain = { ...hashed, endHeight: 600, endSealedHeight: 598 };
  const { node, clock } = makeNode({ ...chain, blockIntervalMs: 100, sealedLag: 5 });
  node.head.resume();
  await clock.advance(1000);
  expect([node.head.finalized, node.head.sealed]).toEqual([110, 105]);
  const id = makeNode(chain).node.chain.generator.blockId(110);
  expect(node.locate(Buffer.from(id, 'hex'))).toMatchObject({ height: 110 });
  node.head.pause();
  await clock.advance(1000);
  expect([node.head.finalized, clock.pendingTimers]).toEqual([110, 0]);
  node.head.resume();
  await clock.standStill(3_600_000);
  await clock.advance(100);
  expect(node.head.finalized).toBeLessThan(400);
  await clock.advance(60_000);
  expect([node.head.finalized, node.head.sealed]).toEqual([600, 598]);
});

it('collections of new blocks come each in its own time', async () => {
  const lag = { collectionLagMs: 46, collectionLagSpreadMs: 85 };
  const { node, calls, clock } = makeNode({ ...lag, blockIntervalMs: 0, profile: 'dense' });
  node.head.advance();
  const { collections } = node.chain.block(101);
  expect(new Set(collections.map(({ id }) => collectionLagMs(lag, id))).size).toBe(collections.length);
  const { id, transactionIds } = collections[0]!;
  const both = () =>
    Promise.all([
      ask(calls, 'GetFullCollectionByID', { id: Buffer.from(id, 'hex') }),
      ask(calls, 'GetTransaction', { id: transactionIds.subarray(0, 32) }),
    ]);
  await clock.advance(Math.ceil(collectionLagMs(lag, id)) - 1);
  expect((await both()).join()).toMatch(/please retry.*NOT_FOUND/);
  await clock.advance(1);
  expect(await both()).toEqual(['OK', 'OK']);
});

it('limits holds each method to its rate, all callers together', async () => {
  const { calls, clock } = makeNode({ ratePerSecond: 2 });
  const limited = matching('AccessAPI/GetBlockByHeight rate limit reached, please retry later.');
  const block = () => ask(calls, 'GetBlockByHeight', byHeight(1));
  expect([await block(), await block(), await block()]).toEqual(['OK', 'OK', limited]);
  expect(await ask(calls, 'Ping')).toBe('OK');
  await clock.advance(500);
  expect([await block(), await block()]).toEqual(['OK', limited]);
});

const failing: FaultRule = { method: 'GetBlockByHeight', fault: 'error', code: 'UNAVAILABLE' };

/** A letter for each call: answered or struck. */
async function outcomes(rule: FaultRule, heights: readonly number[]): Promise<string> {
  const { calls } = makeNode({ faults: [rule] });
  let results = '';
  for (const height of heights)
    results += (await ask(calls, 'GetBlockByHeight', byHeight(height))) === 'OK' ? 'a' : 's';
  return results;
}

it('scripted faults strike every n-th time, after some, and only so often', async () => {
  const asked = [1, 2, 3, 4, 5, 6, 7];
  expect(await outcomes({ ...failing, every: 3 }, asked)).toBe('aasaasa');
  expect(await outcomes({ ...failing, skip: 2, times: 2 }, asked)).toBe('aassaaa');
  expect(await outcomes({ ...failing, fromHeight: 2, toHeight: 3 }, asked)).toBe('assaaaa');
});

it('scripted faults strike in their time', async () => {
  const { node, calls, clock } = makeNode({ faults: [{ ...failing, afterMs: 100, untilMs: 200 }] });
  const now = (): Promise<string> => ask(calls, 'GetBlockByHeight', byHeight(1));
  expect(await now()).toBe('OK');
  await clock.advance(100);
  expect(await now()).toMatch(/UNAVAILABLE/);
  expect(node.faults.fired()).toEqual([1]);
  await clock.advance(100);
  expect(await now()).toBe('OK');
});

it('scripted faults strike by chance as the seed says: the same subjects, in whatever order they are asked', async () => {
  const heights = Array.from({ length: 100 }, (_, index) => index + 1);
  const rule: FaultRule = { ...failing, probability: 0.3 };
  const forwards = await outcomes(rule, heights);
  const backwards = await outcomes(rule, [...heights].reverse());
  expect(Array.from(backwards).reverse().join('')).toBe(forwards);
  const struck = forwards.split('s').length - 1;
  expect(struck).toBeGreaterThan(15);
  expect(struck).toBeLessThan(50);
  // A retry is drawn anew: no height fails for ever.
  expect(new Set(await outcomes(rule, new Array<number>(30).fill(7)))).toEqual(new Set('as'));
});

it('options are refused when heights do not fit together', () => {
  for (const [options, why] of [
    [
      { rootHeight: 100, startHead: 99 },
      /head at the start \(99\).*not below the node's root height \(100\)/,
    ],
    [{ endHeight: 10, startHead: 11 }, /the end height \(10\)/],
    [{ rootHeight: 5, nodeRootHeight: 4 }, /node's root height/],
    [{ endHeight: 10, endSealedHeight: 11 }, /last sealed height/],
    [{ rootHeight: 1.5 }, /whole number/],
  ] as const)
    expect(() => resolveNodeOptions(options)).toThrow(why);
  // It would hash for ever, and no signal would end it.
  for (const endless of [{ startHead: 1e15 }, { rootHeight: 1e15, previousSeed: 3 }])
    expect(() => resolveNodeOptions({ ...endless, hashedIds: true })).toThrow(/takes at most 1000000\./);
  const highest = { rootHeight: 1e15, epochViews: 1e15, certificatesEvery: 100, hashedIds: true };
  expect(new ChainGenerator({ ...highest, seed: 1 }).snapshot(1e15)).toBeDefined();
});
