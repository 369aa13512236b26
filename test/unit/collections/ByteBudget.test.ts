import { describe, expect, it } from 'vitest';
import { ByteBudget } from '../../../src/collections/index.js';

describe('ByteBudget', () => {
  it('admits up to the limit, and the lowest missing height beyond it', () => {
    let lowest: number | undefined = 5;
    const budget = new ByteBudget({ limitBytes: 100 }, { holdingUp: () => lowest });
    expect(budget.admits(7, 100)).toBe(true);
    expect(budget.admits(7, 101)).toBe(false);
    expect(budget.admits(5, 101)).toBe(true);
    budget.reserve({ bytes: 0 }, 100);
    expect([budget.admits(6, 1), budget.admits(5, 1), budget.admits(6, 0)]).toEqual([false, true, true]);
    lowest = undefined;
    expect(budget.admits(5, 1)).toBe(false);
  });

  it('counts per height and gives all of a height back at once', () => {
    const budget = new ByteBudget({ limitBytes: 10 }, { holdingUp: () => undefined });
    const [one, two, nothing] = [{ bytes: 0 }, { bytes: 0 }, { bytes: 0 }];
    budget.reserve(one, 8);
    budget.reserve(one, 8);
    budget.reserve(two, 3);
    expect(budget.inFlightBytes).toBe(19);
    budget.release(one);
    budget.release(one);
    budget.release(nothing);
    expect(budget.inFlightBytes).toBe(3);
  });
});
