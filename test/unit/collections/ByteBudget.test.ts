import { describe, expect, it } from 'vitest';
import { ByteBudget, HeightTable, MissingCollectionQueue } from '../../../src/collections/index.js';
import { block, received } from './meetingHarness.js';

describe('ByteBudget', () => {
  it('admits up to the limit, and the lowest height in hand beyond it while it lacks something', () => {
    const { budget, mcq, take } = holding(100);
    take(5);
    take(7);
    expect(budget.admits(7, 100)).toBe(true);
    expect(budget.admits(7, 101)).toBe(false);
    expect(budget.admits(5, 101)).toBe(true);
    mcq.onReceivedCollection(received('of 7', 'edi', 0, 100));
    expect([budget.admits(6, 1), budget.admits(5, 1), budget.admits(6, 0)]).toEqual([false, true, true]);
    mcq.onReceivedCollection(received('of 5', 'edi', 0, 0));
    expect(budget.admits(5, 1)).toBe(false);
  });

  it('counts per height, and gives all of a height back at once', () => {
    const { budget, mcq, take } = holding(10);
    take(1, 'a', 'b');
    take(2, 'c');
    for (const [name, bytes] of Object.entries({ a: 8, b: 8, c: 3 }))
      mcq.onReceivedCollection(received(name, 'edi', 0, bytes));
    expect(budget.inFlightBytes).toBe(19);
    mcq.onIndexedForBlock(mcq.get(1)!);
    expect(budget.inFlightBytes).toBe(3);
  });

  it('counts of a replaced block what is still wanted', () => {
    const { budget, mcq, take } = holding(10);
    take(1, 'a', 'b', 'c');
    for (const name of ['a', 'b']) mcq.onReceivedCollection(received(name, 'edi', 0, 8));
    mcq.replaceBlock(block(1, ['b', 'd'], 'other'));
    expect(budget.inFlightBytes).toBe(8);
  });
});

function holding(limitBytes: number) {
  const heights = new HeightTable({ watermark: { latestIndexedHeight: () => 0 } });
  const mcq = new MissingCollectionQueue({ maxHeights: 8 }, { heights });
  const take = (height: number, ...names: string[]) =>
    mcq.enqueueMissingCollections(
      block(height, names.length > 0 ? names : [`of ${height}`]),
      0,
      () => undefined,
    );
  return { budget: new ByteBudget({ limitBytes }, { heights }), mcq, take };
}
