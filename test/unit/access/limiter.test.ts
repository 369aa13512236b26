import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { methodLimiter, type MethodLimiter } from '../../../src/access/transport/limits/methodLimiter.js';
import { VirtualClock } from '../../support/virtualClock.js';

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});

function limiter(ratePerSecond: number, maxWaiting = 1_000, sharers?: () => number): MethodLimiter {
  return methodLimiter({ ratePerSecond, maxWaiting, clock, sharers });
}

/** A permit that must be there at once. */
function now(of: MethodLimiter): number {
  const permit = of.acquire();
  if (permit === undefined || permit instanceof Promise) throw new Error('the call was held back');
  return permit;
}

/** Whether a call has left by now. */
function leaving(permit: ReturnType<MethodLimiter['acquire']>): { readonly left: () => boolean } {
  let left = false;
  void Promise.resolve(permit).then(() => (left = true));
  return { left: () => left };
}

describe('a rate that several processes share', () => {
  it('is divided among them as they come and go', async () => {
    let sharers = 1;
    const shared = limiter(100, 1_000, () => sharers);
    const rates = [1, 2, 4, 1].map((many) => {
      sharers = many;
      return shared.limit()?.ratePerSecond;
    });
    expect(rates).toEqual([100, 50, 25, 100]);
    sharers = 4;
    let left = 0;
    for (let call = 0; call < 60; call += 1) void Promise.resolve(shared.acquire()).then(() => (left += 1));
    await clock.settle();
    const burst = left;
    await clock.advance(1_000);
    expect(left - burst).toBe(25);
    sharers = 1;
    await clock.advance(1_000);
    expect(left).toBe(60);
  });

  it('leaves each of them one call a second, and what nodes refused counts all the same', () => {
    let sharers = 1_000;
    const shared = limiter(100, 10, () => sharers);
    expect(shared.limit()?.ratePerSecond).toBe(1);
    sharers = 1;
    shared.rateLimited(now(shared));
    expect(shared.limit()?.ratePerSecond).toBeLessThan(100);
    sharers = 1_000;
    expect(shared.limit()?.ratePerSecond).toBe(1);
    expect(limiter(0, 10, () => 4).limit()).toBeUndefined();
  });
});

it('a configured rate is never exceeded, whoever calls when', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 200 }),
      fc.array(fc.record({ calls: fc.nat(40), thenMs: fc.nat(700) }), { maxLength: 12 }),
      async (rate, bursts) => {
        clock = new VirtualClock();
        const paced = limiter(rate, Infinity);
        const leftAtMs: number[] = [];
        const all: Promise<unknown>[] = [];
        for (const { calls, thenMs } of bursts) {
          for (let call = 0; call < calls; call++)
            all.push(Promise.resolve(paced.acquire()).then(() => leftAtMs.push(clock.monotonic())));
          await clock.advance(thenMs);
        }
        await clock.advance(3_600_000);
        await Promise.all(all);
        // In any second: the rate and one burst.
        const bound = rate + Math.max(1, rate / 10) + 1e-6;
        for (const [index, startMs] of leftAtMs.entries()) {
          const within = leftAtMs.slice(index).filter((ms) => ms < startMs + 1_000).length;
          expect(within).toBeLessThanOrEqual(bound);
        }
      },
    ),
    { numRuns: 30 },
  );
});

it('a configured rate serves in order, and forgets who gave up', async () => {
  const slow = limiter(1);
  now(slow);
  const order: string[] = [];
  const abort = new AbortController();
  const first = expect(slow.acquire(abort.signal)).rejects.toThrow('gave up');
  for (const call of ['second', 'third']) void Promise.resolve(slow.acquire()).then(() => order.push(call));
  abort.abort(new Error('gave up'));
  await first;
  await clock.advance(1_000);
  expect(order).toEqual(['second']);
  await clock.advance(1_000);
  expect([order, clock.pendingTimers]).toEqual([['second', 'third'], 0]);
  await expect(slow.acquire(abort.signal)).rejects.toThrow('gave up');
});

describe('an answered rate limit', () => {
  it('pauses from 250 ms, doubling to 4 s, and from 250 ms again after a success', async () => {
    const node = limiter(0);
    const pauses: number[] = [];
    for (let round = 0; round < 8; round++) {
      node.rateLimited(now(node));
      expect(node.heldBack()).toBe(true);
      pauses.push(node.delayMs());
      await clock.advance(node.delayMs());
      expect(node.heldBack()).toBe(false);
    }
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000, 4_000]);
    node.succeeded(now(node));
    await clock.advance(1_000);
    node.rateLimited(now(node));
    expect(node.delayMs()).toBe(250);
  });

  it('counts once for all calls that were under way together, and the answer to an older one speeds nothing up', () => {
    const node = limiter(100);
    const [older, ...permits] = Array.from({ length: 6 }, () => now(node));
    for (const permit of permits) node.rateLimited(permit);
    expect([node.delayMs(), node.limit()?.ratePerSecond]).toEqual([250, 3]);
    node.succeeded(older!);
    expect([node.delayMs(), node.limit()?.ratePerSecond]).toEqual([250, 3]);
  });

  it('holds back callers that wait already, and lets them go sooner as soon as the rate grows', async () => {
    const paced = limiter(10);
    const refused = now(paced);
    const held = leaving(paced.acquire());
    paced.rateLimited(refused);
    await clock.advance(249);
    expect(held.left()).toBe(false);
    await clock.advance(1);
    expect(held.left()).toBe(true);
    const node = limiter(0);
    node.rateLimited(now(node));
    await clock.advance(250);
    const permit = now(node);
    expect(node.limit()?.ratePerSecond).toBe(1);
    const call = leaving(node.acquire());
    node.succeeded(permit);
    await clock.advance(Math.ceil(1_000 / (node.limit()?.ratePerSecond ?? Infinity)));
    expect(clock.monotonic()).toBeLessThan(1_500);
    expect([call.left(), clock.pendingTimers]).toEqual([true, 0]);
  });
});

/** A node that takes so many calls a second, or none at all, and the pace at which it is asked. */
function played(configuredRate: number) {
  const node = limiter(configuredRate);
  const state = { allowed: Infinity, answered: 0, refused: 0 };
  let tokens = 0;
  let filledAtMs = 0;
  const takes = (): boolean => {
    const nowMs = clock.monotonic();
    const { allowed } = state;
    tokens = Math.min(Math.max(1, allowed), tokens + ((nowMs - filledAtMs) / 1_000) * Math.min(allowed, 1e6));
    filledAtMs = nowMs;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  };
  const call = async (): Promise<void> => {
    const permit = await node.acquire();
    await new Promise<void>((resolve) => clock.setTimer(20, resolve));
    if (takes()) {
      state.answered += 1;
      node.succeeded(permit!);
    } else {
      state.refused += 1;
      node.rateLimited(permit!);
    }
  };
  const during = async (ms: number, allowed: number): Promise<{ answered: number; refused: number }> => {
    Object.assign(state, { allowed, answered: 0, refused: 0 });
    tokens = Math.min(tokens, Math.max(1, allowed));
    const untilMs = clock.monotonic() + ms;
    const working = Array.from({ length: 6 }, async () => {
      while (clock.monotonic() < untilMs) await call();
    });
    await clock.advance(ms);
    const { answered, refused } = state;
    await clock.advance(60_000);
    await Promise.all(working);
    return { answered, refused };
  };
  return { node, during };
}

describe('a node that refused everything for a while', () => {
  it.each([1, 2, 3])('though it was a call a second, %i times, has no limit within 5 s', async (times) => {
    const node = limiter(0);
    for (let call = 0; call < times; call++) {
      node.rateLimited((await node.acquire())!);
      await clock.advance(4_000);
    }
    const untilMs = clock.monotonic() + 5_000;
    while (clock.monotonic() < untilMs && node.limit()?.ratePerSecond !== undefined) {
      const permit = node.acquire();
      await clock.advance(permit instanceof Promise ? node.delayMs() : 0);
      node.succeeded((await permit)!);
    }
    expect(node.limit()?.ratePerSecond).toBeUndefined();
  });

  it('is asked little meanwhile, and soon after at the pace that it allows, whatever that is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 100 }),
        fc.integer({ min: 2_000, max: 40_000 }),
        fc.constantFrom(0, 80),
        async (allowed, shutMs, configured) => {
          clock = new VirtualClock();
          const { node, during } = played(configured);
          await during(20_000, allowed);
          // One call, or those under way together, after each pause.
          expect((await during(shutMs, 0)).refused).toBeLessThanOrEqual(24);
          await during(10_000, allowed);
          const { answered, refused } = await during(30_000, allowed);
          expect(answered).toBeGreaterThan(30 * Math.min(allowed, configured || Infinity) * 0.4);
          expect(refused).toBeLessThan(Math.max(15, answered / 5));
          expect(node.limit()?.ratePerSecond ?? Infinity).toBeGreaterThan(0.9);
        },
      ),
      { numRuns: 30 },
    );
  });
});

it('calls that yield leave behind everybody else, and get what is left of the rate', async () => {
  const paced = limiter(10);
  now(paced);
  const left: string[] = [];
  const call = (name: string, caller?: 'spare') =>
    void Promise.resolve(paced.acquire(undefined, caller)).then(() => left.push(name));
  for (const name of ['yielding 1', 'yielding 2']) call(name, 'spare');
  call('own 1');
  // They take nothing of what is promised to the others.
  expect(paced.delayMs()).toBe(200);
  await clock.advance(100);
  call('own 2');
  await clock.advance(100);
  expect(left).toEqual(['own 1', 'own 2']);
  await clock.advance(200);
  expect(left).toEqual(['own 1', 'own 2', 'yielding 1', 'yielding 2']);
  expect(clock.pendingTimers).toBe(0);
});

it('calls that yield leave at once while nobody waits, wait no more when they are given up, and are bounded', async () => {
  const paced = limiter(10, 2);
  expect(paced.acquire(undefined, 'spare')).not.toBeInstanceOf(Promise);
  const end = new AbortController();
  const waiting = (['spare', 'spare', 'live'] as const).map((who) => paced.acquire(end.signal, who));
  expect(paced.acquire(undefined, 'spare')).toBeUndefined();
  end.abort();
  for (const call of waiting) await expect(call).rejects.toThrow();
  expect([paced.delayMs('spare'), clock.pendingTimers]).toEqual([100, 0]);
});

it('calls for history leave one call to the others, which so need not wait for them', async () => {
  const paced = limiter(20);
  // Two may leave at once after a quiet time.
  expect(paced.delayMs('history')).toBe(0);
  expect(paced.acquire(undefined, 'history')).not.toBeInstanceOf(Promise);
  expect(paced.delayMs('history')).toBeGreaterThan(0);
  expect(paced.delayMs('live')).toBe(0);
  const waiting = paced.acquire(undefined, 'history');
  expect(waiting).toBeInstanceOf(Promise);
  expect(paced.acquire()).not.toBeInstanceOf(Promise);
  await clock.advance(100);
  await waiting;
  expect(clock.pendingTimers).toBe(0);
});

it('calls for history do not make a live call wait that comes while they wait', async () => {
  const paced = limiter(20);
  now(paced);
  now(paced);
  const history = leaving(paced.acquire(undefined, 'history'));
  const live = leaving(paced.acquire());
  await clock.advance(49);
  expect(live.left()).toBe(false);
  await clock.advance(1);
  expect([live.left(), history.left()]).toEqual([true, false]);
  await clock.advance(100);
  expect([history.left(), clock.pendingTimers]).toEqual([true, 0]);
});
