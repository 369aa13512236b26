import { describe, expect, it } from 'vitest';
import { at, followTip } from './tipTimes.js';
import type { TipNode } from './tipTimes.js';

const BLOCKS = 30;
/** Nothing of this takes time: messages take a millisecond, a commit two. */
const OWN_MS = 15;
/** Calls for the blocks of the tip, beside the streams. */
const MAX_BLOCK_CALLS = 1.1;

const usual = { collectionLagMs: 46, collectionLagSpreadMs: 85 };

/** In virtual time: nothing here depends on the machine. */
describe('a block at the tip can be read as soon as two nodes have it', () => {
  it.each<readonly [string, nodes: readonly TipNode[], withinMs: number]>([
    ['two alike', [{}, {}], 0],
    ['the first is 20 ms late', [{ blocksLateMs: 20 }, {}], 20],
    ['the second is 300 ms late', [{}, { blocksLateMs: 300 }], 300],
    ['of three the last is 300 ms late', [{}, {}, { blocksLateMs: 300 }], 0],
    // A message takes half of it more at worst.
    ['50 ms to the second', [{}, { linkMs: 50 }], 75],
  ])('%s', async (_, nodes, withinMs) => {
    const { calls, lateMs } = await followTip(nodes, BLOCKS);
    expect(at(lateMs, 0.5)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(at(lateMs, 0.98)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(calls['GetBlockByHeight'] ?? 0).toBeLessThanOrEqual(MAX_BLOCK_CALLS);
  });

  it('without calls for its block where the other reports its heads', async () => {
    const { calls } = await followTip([{}, { blocksLateMs: 50 }], BLOCKS);
    expect(calls['GetBlockByHeight'] ?? 0).toBeLessThanOrEqual(0.1);
  });

  it('and its collections as soon as one has them, though the other takes its time to answer', async () => {
    const alone = await followTip([usual], BLOCKS);
    const both = await followTip([usual, { ...usual, linkMs: 100 }], BLOCKS);
    // The confirmation travels 100 ms, 150 at worst.
    expect(at(both.lateMs, 0.5)).toBeLessThanOrEqual(at(alone.lateMs, 0.5) + 100);
    expect(at(both.lateMs, 0.95)).toBeLessThanOrEqual(at(alone.lateMs, 0.95) + 150);
    expect(both.calls['GetFullCollectionByID']).toBeLessThanOrEqual(
      (alone.calls['GetFullCollectionByID'] ?? 0) + 0.5,
    );
  });
});
