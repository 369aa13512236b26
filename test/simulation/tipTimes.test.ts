import { describe, expect, it } from 'vitest';
import { at, followTip } from './tipTimes.js';
import type { TipNode } from './tipTimes.js';

const BLOCKS = 30;
/** Nothing of this takes time: messages take a millisecond, a commit two. */
const OWN_MS = 15;
/** A node that does not have the block yet is asked again so often. */
const AGAIN_MS = 100;

const usual = { collectionLagMs: 46, collectionLagSpreadMs: 85 };

/** In virtual time: nothing here depends on the machine. */
describe('a block at the tip can be read as soon as another node confirms it', () => {
  it.each<readonly [string, nodes: readonly TipNode[], withinMs: number, callsEach: number]>([
    ['two alike', [{}, {}], 0, 1],
    ['the first is 20 ms late', [{ blocksLateMs: 20 }, {}], 20, 1],
    ['the second is 300 ms late', [{}, { blocksLateMs: 300 }], 300 + AGAIN_MS, 4],
    ['of three the last is 300 ms late', [{}, {}, { blocksLateMs: 300 }], 0, 2],
    // There and back; a message takes half of it more at worst.
    ['50 ms to the second', [{}, { linkMs: 50 }], 150, 1],
  ])('%s', async (_, nodes, withinMs, callsEach) => {
    const { calls, lateMs } = await followTip(nodes, BLOCKS);
    expect(at(lateMs, 0.5)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(at(lateMs, 0.98)).toBeLessThanOrEqual(withinMs + OWN_MS);
    expect(calls['GetBlockByHeight'] ?? 0).toBeLessThanOrEqual(callsEach * 1.1);
  });

  it('and its collections as soon as one has them, though the other takes its time to answer', async () => {
    const alone = await followTip([usual], BLOCKS);
    const both = await followTip([usual, { ...usual, linkMs: 100 }], BLOCKS);
    // The question travels 100 ms, and the confirmation as long; 150 at worst.
    expect(at(both.lateMs, 0.5)).toBeLessThanOrEqual(at(alone.lateMs, 0.5) + 200);
    expect(at(both.lateMs, 0.95)).toBeLessThanOrEqual(at(alone.lateMs, 0.95) + 300);
    expect(both.calls['GetFullCollectionByID']).toBeLessThanOrEqual(
      (alone.calls['GetFullCollectionByID'] ?? 0) + 0.5,
    );
  });
});
