import fc from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import { backoffMs, doublingMs, systemClock } from '../../../src/runtime/index.js';
import { seededRandom } from '../../support/seededRandom.js';

const bounds = fc
  .tuple(fc.integer({ min: 1, max: 600_000 }), fc.integer({ min: 0, max: 600_000 }))
  .map(([minMs, more]) => ({ minMs, maxMs: minMs + more }));
const attempts = fc.integer({ min: 0, max: 10_000 });
const chance = fc
  .double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  .map((value) => ({ next: () => value }));

it('doubles up to its bound', () => {
  const pauses = [0, 1, 2, 3, 4, 5, 6, 1_000].map((attempt) =>
    doublingMs({ minMs: 250, maxMs: 10_000 }, attempt),
  );
  expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
});

it('stays within its bounds whatever chance does, and is lengthened by it', () => {
  fc.assert(
    fc.property(bounds, attempts, chance, (limits, attempt, random) => {
      const pauseMs = backoffMs(limits, attempt, random);
      expect(pauseMs).toBeGreaterThanOrEqual(doublingMs(limits, attempt));
      expect(pauseMs).toBeLessThanOrEqual(limits.maxMs);
    }),
  );
  const limits = { minMs: 250, maxMs: 10_000 };
  const random = seededRandom(1);
  for (const attempt of [0, 3, 5])
    expect(backoffMs(limits, attempt, random)).toBeGreaterThan(doublingMs(limits, attempt));
});

it('of months is not over at once, as a timer of Node.js would be', async () => {
  vi.useFakeTimers();
  let isOver = false;
  systemClock.setTimer(60 * 24 * 60 * 60 * 1_000, () => (isOver = true));
  const cancelled = systemClock.setTimer(2 ** 32, () => {
    throw new Error('it was cancelled');
  });
  await vi.advanceTimersByTimeAsync(2 ** 31 + 1);
  cancelled.cancel();
  await vi.advanceTimersByTimeAsync(59 * 24 * 60 * 60 * 1_000 - 2 ** 31);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(24 * 60 * 60 * 1_000);
  expect([isOver, vi.getTimerCount()]).toEqual([true, 0]);
});

afterEach(() => void vi.useRealTimers());
