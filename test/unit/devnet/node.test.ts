import { describe, expect, it } from 'vitest';
import {
  Chain,
  collectionLagMs,
  consecutiveSporks,
  ChainGenerator,
  type DevnetMethod,
  DevnetNode,
  type DevnetOptions,
  type FaultRule,
  resolveNodeOptions,
  UnaryCalls,
} from '../../../src/devnet/index.js';
import { decodeBlockResponse } from '../../../src/flow/index.js';
import { VirtualClock } from '../../support/virtualClock.js';

function makeNode(options: DevnetOptions = {}): { node: DevnetNode; calls: UnaryCalls; clock: VirtualClock } {
  const clock = new VirtualClock();
  const merged: DevnetOptions = { profile: 'dense', startHead: 100, ...options };
  const node = new DevnetNode(resolveNodeOptions(merged), { chain: new Chain(merged), clock });
  return { node, calls: new UnaryCalls({ node }), clock };
}

async function ask(calls: UnaryCalls, method: DevnetMethod, request: object = {}): Promise<string> {
  const call = { signal: new AbortController().signal, connection: { reset: () => undefined } };
  return calls.answer(method, request, call).then(
    () => 'OK',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
}

const byHeight = (height: number): object => ({ height: String(height) });

describe('the head', () => {
  it('moves with time, makes up for late timers, stops when paused and at the end', async () => {
    const { node, clock } = makeNode({
      blockIntervalMs: 100,
      endHeight: 130,
      endSealedHeight: 128,
      sealedLag: 5,
    });
    node.head.resume();
    await clock.advance(1000);
    expect(node.head.finalized).toBe(110);
    expect(node.head.sealed).toBe(105);
    node.head.pause();
    await clock.advance(1000);
    expect(node.head.finalized).toBe(110);
    expect(clock.pendingTimers).toBe(0);
    node.head.resume();
    await clock.advance(10_000);
    expect(node.head.finalized).toBe(130);
    expect(node.head.sealed).toBe(128);
  });
});

describe('collections of new blocks that come each in its own time', () => {
  it('come within the spread, half of them early, and the same in every run', async () => {
    const lag = { collectionLagMs: 46, collectionLagSpreadMs: 85 };
    const { node, calls, clock } = makeNode({ ...lag, blockIntervalMs: 0, profile: 'dense' });
    for (let block = 0; block < 40; block += 1) node.head.advance();
    const collections = Array.from(
      { length: 40 },
      (_, place) => node.chain.block(101 + place).collections,
    ).flat();
    const lagsMs = collections.map(({ id }) => collectionLagMs(lag, id)).sort((a, b) => a - b);
    expect(lagsMs).toHaveLength(200);
    expect(lagsMs[0]).toBeGreaterThanOrEqual(46);
    expect(lagsMs.at(-1)).toBeLessThanOrEqual(46 + 8 * 85);
    expect(lagsMs[100]).toBeGreaterThan(85);
    expect(lagsMs[100]).toBeLessThan(125);
    expect(lagsMs[180]).toBeGreaterThan(200);
    expect(lagsMs[180]).toBeLessThan(290);
    const [first] = collections;
    const id = Buffer.from(first!.id, 'hex');
    const lagMs = Math.ceil(collectionLagMs(lag, first!.id));
    await clock.advance(lagMs - 1);
    expect(await ask(calls, 'GetFullCollectionByID', { id })).toMatch(/please retry/);
    expect(await ask(calls, 'GetTransaction', { id: first!.transactionIds.subarray(0, 32) })).toMatch(
      /NOT_FOUND/,
    );
    await clock.advance(1);
    expect(await ask(calls, 'GetFullCollectionByID', { id })).toBe('OK');
    expect(await ask(calls, 'GetTransaction', { id: first!.transactionIds.subarray(0, 32) })).toBe('OK');
  });
});

describe('limits', () => {
  it('holds each method to its rate, all callers together', async () => {
    const { calls, clock } = makeNode({ ratePerSecond: 2 });
    const limited =
      'RESOURCE_EXHAUSTED: /flow.access.AccessAPI/GetBlockByHeight rate limit reached, please retry later.';
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe('OK');
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe('OK');
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe(limited);
    expect(await ask(calls, 'Ping')).toBe('OK');
    await clock.advance(500);
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe('OK');
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe(limited);
  });
});

describe('scripted faults', () => {
  const failing: FaultRule = { method: 'GetBlockByHeight', fault: 'error', code: 'UNAVAILABLE' };

  async function outcomes(faults: readonly FaultRule[], heights: readonly number[]): Promise<boolean[]> {
    const { calls } = makeNode({ faults });
    const results: boolean[] = [];
    for (const height of heights)
      results.push((await ask(calls, 'GetBlockByHeight', byHeight(height))) === 'OK');
    return results;
  }

  it('strike every n-th time, after some, and only so often', async () => {
    const asked = [1, 2, 3, 4, 5, 6, 7];
    expect(await outcomes([{ ...failing, every: 3 }], asked)).toEqual([
      true,
      true,
      false,
      true,
      true,
      false,
      true,
    ]);
    expect(await outcomes([{ ...failing, skip: 2, times: 2 }], asked)).toEqual([
      true,
      true,
      false,
      false,
      true,
      true,
      true,
    ]);
    expect(await outcomes([{ ...failing, fromHeight: 2, toHeight: 3 }], asked)).toEqual([
      true,
      false,
      false,
      true,
      true,
      true,
      true,
    ]);
  });

  it('strike in their time', async () => {
    const { node, calls, clock } = makeNode({ faults: [{ ...failing, afterMs: 100, untilMs: 200 }] });
    const now = (): Promise<string> => ask(calls, 'GetBlockByHeight', byHeight(1));
    expect(await now()).toBe('OK');
    await clock.advance(100);
    expect(await now()).toMatch(/UNAVAILABLE/);
    expect(node.faults.fired()).toEqual([1]);
    await clock.advance(100);
    expect(await now()).toBe('OK');
  });

  it('strike by chance as the seed says: the same subjects, in whatever order they are asked', async () => {
    const heights = Array.from({ length: 100 }, (_, index) => index + 1);
    const rule: FaultRule = { ...failing, probability: 0.3 };
    const forwards = await outcomes([rule], heights);
    const backwards = await outcomes([rule], [...heights].reverse());
    expect(backwards.reverse()).toEqual(forwards);
    const struck = forwards.filter((isFine) => !isFine).length;
    expect(struck).toBeGreaterThan(15);
    expect(struck).toBeLessThan(50);
    // A retry is drawn anew: no height fails for ever.
    const retried = await outcomes([rule], new Array<number>(30).fill(7));
    expect(new Set(retried)).toEqual(new Set([true, false]));
  });

  it('wait, and give up waiting when the caller does', async () => {
    const { calls, clock } = makeNode({ faults: [{ method: 'Ping', fault: 'latency', delayMs: 50 }] });
    const caller = new AbortController();
    const call = { signal: caller.signal, connection: { reset: () => undefined } };
    let isAnswered = false;
    const answer = calls.answer('Ping', {}, call).then(() => (isAnswered = true));
    await clock.advance(49);
    expect(isAnswered).toBe(false);
    await clock.advance(1);
    await answer;
    const second = calls.answer('Ping', {}, call);
    caller.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    expect(clock.pendingTimers).toBe(0);
  });

  it('can be replaced, and are checked then as well', async () => {
    const { node, calls } = makeNode({ faults: [failing] });
    node.setFaults([]);
    expect(await ask(calls, 'GetBlockByHeight', byHeight(1))).toBe('OK');
    expect(() => node.setFaults([{ method: 'Pong', fault: 'stall' }])).toThrow(/no method is called "Pong"/);
  });
});

describe('consecutive sporks', () => {
  it('continue heights and parents, and differ in spork id', () => {
    const sporks = consecutiveSporks({
      seed: 7,
      rootHeight: 10,
      ends: [{ lastHeight: 49, discarded: 3 }, { lastHeight: 99 }],
      common: { profile: 'dense' },
    });
    expect(sporks).toHaveLength(3);
    const chains = sporks.map((options) => new ChainGenerator(options));
    expect(chains.map(({ rootHeight }) => rootHeight)).toEqual([10, 50, 100]);
    expect(chains.map(({ endHeight }) => endHeight)).toEqual([52, 99, Number.MAX_SAFE_INTEGER]);
    expect(chains[1]?.block(50).parentId).toBe(chains[0]?.blockId(49));
    expect(chains[2]?.block(100).parentId).toBe(chains[1]?.blockId(99));
    expect(chains[1]?.blockId(50)).not.toBe(chains[0]?.blockId(50));
    expect(new Set(chains.map(({ sporkId }) => sporkId)).size).toBe(3);
  });

  it('leave the discarded blocks of the old spork finalized and unsealed', async () => {
    const [old] = consecutiveSporks({ ends: [{ lastHeight: 49, discarded: 3 }] });
    const { node, calls } = makeNode({ ...old, startHead: 52 });
    expect(node.head.finalized).toBe(52);
    expect(node.head.sealed).toBe(49);
    const call = { signal: new AbortController().signal, connection: { reset: () => undefined } };
    const status = async (height: number): Promise<string> =>
      decodeBlockResponse(await calls.answer('GetBlockByHeight', byHeight(height), call)).status;
    expect(await status(49)).toBe('sealed');
    expect(await status(50)).toBe('finalized');
  });

  it('are refused when they do not ascend', () => {
    expect(() => consecutiveSporks({ rootHeight: 60, ends: [{ lastHeight: 49 }] })).toThrow(
      /heights must ascend/,
    );
  });
});

describe('options', () => {
  it('are refused when heights do not fit together', () => {
    expect(() => resolveNodeOptions({ rootHeight: 100, startHead: 99 })).toThrow(
      /the head at the start \(99\).*not below the node's root height \(100\)/,
    );
    expect(() => resolveNodeOptions({ endHeight: 10, startHead: 11 })).toThrow(/the end height \(10\)/);
    expect(() => resolveNodeOptions({ rootHeight: 5, nodeRootHeight: 4 })).toThrow(/node's root height/);
    expect(() => resolveNodeOptions({ endHeight: 10, endSealedHeight: 11 })).toThrow(/last sealed height/);
    expect(() => resolveNodeOptions({ rootHeight: 1.5 })).toThrow(/whole number/);
  });
});
