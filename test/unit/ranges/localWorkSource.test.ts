import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countHeights, localWorkSource, type RangeJob } from '../../../src/ranges/index.js';
import { FAILURES_BEFORE_DISPUTE } from '../../../src/ranges/plans.js';
import { seededRandom, MemoryIndexStore, RecordingLogger, VirtualClock } from '../../support/index.js';
import { joined, type HeightRange } from '../../../src/storage/index.js';
import { MemoryRanges } from '../../support/memoryRanges.js';

const LIVE = { from: 100, to: 120 };
const ALL = { from: 0, to: 99, order: 'newest' } as const;
const forever = new AbortController().signal;

function setUp({
  store = new MemoryRanges(LIVE),
  served = [{ from: 0, to: 1_000 }] as HeightRange[],
  borders = [] as number[],
} = {}) {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  /** How often it was looked whether there is something to take. */
  const looks = { count: 0 };
  const chain = {
    borders: () => borders,
    served: () => {
      looks.count += 1;
      return served;
    },
  };
  const source = localWorkSource(
    { maxRangeHeights: 10 },
    { store, chain, clock, random: seededRandom(1), logger },
  );
  const next = async (): Promise<RangeJob> => {
    const job = await source.next(forever);
    if (job === undefined) throw new Error('no job');
    return job;
  };
  /** `undefined` while there is none. */
  const nextNow = async (): Promise<RangeJob | undefined> => {
    const given = new AbortController();
    const waiting = source.next(given.signal);
    await clock.turn();
    given.abort();
    return waiting;
  };
  return { clock, logger, looks, next, nextNow, source, store, served };
}

// What both work sources do: test/integration/ranges/workSource.test.ts.
describe('plans of several sporks', () => {
  async function fourFrom(next: () => Promise<RangeJob>): Promise<number[]> {
    const jobs = [await next(), await next(), await next(), await next()];
    return jobs.map(({ range }) => range.from);
  }

  it('count what goes on after a restart, and let no spork have two places while another has none, of another plan too', async () => {
    const store = new MemoryRanges(LIVE);
    const before = setUp({ store });
    await before.source.plan(ALL);
    for (let count = 0; count < 3; count += 1) await before.next();
    // The root becomes known when three ranges above it have been begun.
    const { next } = setUp({ store, borders: [50] });
    expect(await fourFrom(next)).toEqual([90, 40, 80, 30]);
    const { next: nextOfTwo, source } = setUp({ borders: [50] });
    await source.plan({ from: 70, to: 99, order: 'newest' });
    await source.plan({ from: 20, to: 49, order: 'newest' });
    expect(await fourFrom(nextOfTwo)).toEqual([90, 40, 80, 30]);
  });

  it('keep as many sporks busy as there are places, and starve none', async () => {
    const shapes = fc.record({
      borders: fc.uniqueArray(fc.integer({ min: 1, max: 99 }), { maxLength: 6 }),
      places: fc.integer({ min: 1, max: 5 }),
      order: fc.constantFrom('newest' as const, 'oldest' as const),
      pick: fc.infiniteStream(fc.nat(100)),
    });
    await fc.assert(
      fc.asyncProperty(shapes, async ({ borders, places, order, pick }) => {
        const { nextNow, source, store } = setUp({ borders });
        const sporkOf = ({ from }: HeightRange): number => borders.filter((border) => border <= from).length;
        const sporks = borders.length + 1;
        /** Sporks that still have something that nobody has begun. */
        const waiting = (): Set<number> => {
          const there = joined([...store.coverage(), ...store.open()]);
          const heights = Array.from({ length: 100 }, (_, height) => height);
          const isThere = (height: number) => there.some(({ from, to }) => from <= height && height <= to);
          return new Set(heights.filter((each) => !isThere(each)).map((from) => sporkOf({ from, to: from })));
        };
        await source.plan({ ...ALL, order });
        const jobs: RangeJob[] = [];
        const turnsMissed = new Map<number, number>();
        while (store.plans().length > 0) {
          while (jobs.length < places) {
            const idle = new Set(
              [...waiting()].filter((spork) => !jobs.some(({ range }) => sporkOf(range) === spork)),
            );
            const job = await nextNow();
            if (job === undefined) break;
            const taken = sporkOf(job.range);
            if (idle.size > 0) expect(idle).toContain(taken);
            for (const spork of idle) {
              const missed = spork === taken ? 0 : (turnsMissed.get(spork) ?? 0) + 1;
              expect(missed).toBeLessThan(sporks);
              turnsMissed.set(spork, missed);
            }
            jobs.push(job);
          }
          const [done] = jobs.splice(pick.next().value % jobs.length, 1);
          store.fill(done!.range);
          await done!.succeed();
        }
      }),
      { numRuns: 30 },
    );
  });
});

it('a plan that is cancelled leaves another one its ranges', async () => {
  const { next, source, store } = setUp();
  await source.plan({ ...ALL, from: 90 });
  await source.plan({ ...ALL, from: 20, to: 29 });
  const [first, second] = [await next(), await next()];
  first.signal.addEventListener('abort', () => void first.release());
  await source.cancel(1);
  expect(second.signal.aborted).toBe(false);
  expect(store.open().map(({ from }) => from)).toEqual([20]);
  expect(store.plans().map(({ id }) => id)).toEqual([2]);
});

it('a plan that heals goes before all others, and can be neither paused nor cancelled', async () => {
  const { next, nextNow, source, store } = setUp();
  await source.plan(ALL);
  const damaged = { id: 2, from: 40, to: 40, order: 'newest', isPaused: false, heals: true } as const;
  await store.change({ plans: [...store.plans(), damaged] });
  expect((await next()).range).toEqual({ from: 40, to: 40 });
  await expect(source.pause(2)).rejects.toThrow('Plan 2 fetches damaged heights again');
  await expect(source.cancel(2)).rejects.toThrow('Plan 2 fetches damaged heights again');
  await source.cancel();
  expect(store.plans()).toEqual([damaged]);
  expect(await nextNow()).toBeUndefined();
});

describe('a store that holds nothing yet', () => {
  it('keeps nothing of ranges that failed and were cancelled, nor of those that ended in any other way', async () => {
    const { clock, looks, next, source, store } = setUp({ served: [{ from: 80, to: 1_000 }] });
    await source.plan({ from: 0, to: 9, order: 'newest' });
    for (let round = 0; round < 3; round += 1) {
      await source.plan({ from: 80, to: 99, order: 'newest' });
      const [failing, released] = [await next(), await next()];
      await failing.fail('it does not fit');
      await released.release();
      await source.cancel(2);
    }
    // Each run that was begun was let go.
    expect([store.runs.length, store.released.length]).toEqual([6, 6]);
    const given = new AbortController();
    const waiting = source.next(given.signal);
    await clock.turn();
    // What is left is served by nobody. It is looked at again every five seconds, and not when a pause would end.
    const before = looks.count;
    await clock.advance(4_999);
    expect(looks.count).toBe(before);
    await clock.advance(1);
    expect(looks.count).toBeGreaterThan(before);
    given.abort();
    expect(await waiting).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
  });

  it('is told so when something is planned, and nothing else changes it', async () => {
    const store = await MemoryIndexStore.startingAt(100);
    const parts = { clock: new VirtualClock(), random: seededRandom(1), logger: new RecordingLogger() };
    const chain = { borders: () => [], served: () => [] };
    const source = localWorkSource({}, { store, chain, ...parts });
    await expect(source.plan(ALL)).rejects.toThrow('The store holds nothing yet');
    await source.pause();
    await source.resume();
    await source.cancel();
    expect(await source.redrive()).toBe(0);
  });
});

it('a range that fails begins anew, and is warned of once it is disputed', async () => {
  const { clock, logger, next, source, store } = setUp();
  await source.plan({ ...ALL, from: 90 });
  for (let failures = 1; failures <= FAILURES_BEFORE_DISPUTE; failures += 1) {
    const job = await next();
    store.fill(job.range, 1);
    await job.fail('it does not link');
    await clock.advance(150_000);
  }
  expect(store.open()[0]!.next).toBe(90);
  expect(logger.of('warn')).toHaveLength(1);
});

const step = fc.oneof(
  { weight: 6, arbitrary: fc.constant('take' as const) },
  { weight: 6, arbitrary: fc.constant('finish' as const) },
  { weight: 3, arbitrary: fc.constant('some' as const) },
  ...(['fail', 'pause', 'resume', 'plan', 'cancel', 'restart', 'wait', 'redrive'] as const).map(
    (arbitrary) => ({ weight: 1, arbitrary: fc.constant(arbitrary) }),
  ),
);

it('whatever happens: no height is handed out twice, and in the end all that is planned is covered', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.nat(1_000), async (steps, pick) => {
      const store = new MemoryRanges(LIVE);
      let { clock, nextNow, source } = setUp({ store, borders: [37] });
      let jobs: RangeJob[] = [];
      const give = (job: RangeJob): void => {
        job.signal.addEventListener('abort', () => {
          jobs = jobs.filter((other) => other !== job);
          void job.release();
        });
        jobs.push(job);
        const heights = jobs.map(({ range }) => range);
        expect(countHeights(joined(heights))).toBe(countHeights(heights));
      };
      await source.plan(ALL);
      for (const [at, what] of [...steps, 'resume' as const].entries()) {
        const job = jobs[(pick + at) % Math.max(1, jobs.length)];
        if (what === 'take') {
          const taken = await nextNow();
          if (taken !== undefined) give(taken);
        } else if (what === 'pause') await source.pause();
        else if (what === 'resume') await source.resume();
        else if (what === 'redrive') await source.redrive();
        else if (what === 'wait') await clock.advance(200_000);
        else if (what === 'plan') await source.plan({ ...ALL, from: 20 + (at % 50) }).catch(() => undefined);
        else if (what === 'cancel' && store.plans().length > 1) await source.cancel(store.plans().at(-1)!.id);
        else if (what === 'restart') {
          // What runs at this moment is not known to the next process.
          jobs = [];
          ({ clock, nextNow, source } = setUp({ store, borders: [37] }));
        } else if (job !== undefined && what === 'some') store.fill(job.range, 3);
        if (job === undefined || !['finish', 'fail'].includes(what)) continue;
        jobs = jobs.filter((other) => other !== job);
        if (what !== 'finish') await job.fail('no');
        else {
          if (store.open().some(({ from }) => from === job.range.from)) store.fill(job.range);
          await job.succeed();
        }
      }
      for (let rounds = 0; store.plans().length > 0 && rounds < 100; rounds += 1) {
        const taken = jobs.pop() ?? (await nextNow());
        if (taken === undefined) {
          await source.redrive();
          await clock.advance(200_000);
          continue;
        }
        if (store.open().some(({ from }) => from === taken.range.from)) store.fill(taken.range);
        await taken.succeed();
      }
      expect(store.coverage()).toEqual([{ from: 0, to: 120 }]);
      expect(store.open()).toEqual([]);
    }),
    { numRuns: 60 },
  );
});
