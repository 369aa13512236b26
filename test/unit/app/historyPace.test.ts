import { expect, it } from 'vitest';
import { paceHistory } from '../../../src/app/line/history/paceHistory.js';
import { untilEnd, VirtualClock } from '../../support/index.js';

/** A pace that runs, and what it goes by. */
function running() {
  const clock = new VirtualClock();
  const at = { lateMs: 0, isBesideLive: true };
  const pace = paceHistory({ clock, lateMs: () => at.lateMs, isBesideLive: () => at.isBesideLive });
  untilEnd(pace.run);
  return { at, clock, pace };
}

it('goes down fast while the event loop is late beside a live range, says why, and comes back in steps, telling of each', async () => {
  const { at, clock, pace } = running();
  let told = 0;
  pace.onMore(() => (told += 1));
  at.lateMs = 15;
  await clock.advance(5_000);
  expect([pace.share(), pace.heldBack()]).toEqual([1, undefined]);
  at.lateMs = 60;
  await clock.advance(1_100);
  expect(pace.share()).toBeLessThanOrEqual(1 / 8);
  expect(pace.share()).toBeGreaterThan(0);
  const why = /^history uses \d+ % .* 60 ms late, and the live range has priority$/;
  expect(pace.heldBack()?.message).toMatch(why);
  await clock.advance(60_000);
  const least = pace.share();
  expect(least).toBeGreaterThan(0);
  expect(told).toBe(0);
  at.lateMs = 0;
  await clock.advance(1_000);
  expect(pace.share()).toBeGreaterThan(least);
  expect(pace.share()).toBeLessThan(1);
  expect(told).toBeGreaterThan(0);
  await clock.advance(10_000);
  expect([pace.share(), pace.heldBack()]).toEqual([1, undefined]);
  at.lateMs = 100;
  for (const isBesideLive of [true, false, true]) {
    at.isBesideLive = isBesideLive;
    await clock.advance(2_000);
    expect(pace.heldBack() !== undefined).toBe(isBesideLive);
  }
});

it('measures by itself how late the event loop is', async () => {
  let lateMs = 0;
  const clock = new (class extends VirtualClock {
    override setTimer(delayMs: number, callback: () => void) {
      return super.setTimer(delayMs + lateMs, callback);
    }
  })();
  const pace = paceHistory({ clock, isBesideLive: () => true });
  untilEnd(pace.run);
  await clock.advance(1_000);
  expect(pace.share()).toBe(1);
  lateMs = 50;
  await clock.advance(2_000);
  expect(pace.share()).toBeLessThan(1 / 2);
});
