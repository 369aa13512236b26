import { expect, it } from 'vitest';
import { heal } from '../../../src/app/line/heal.js';
import { createMetrics } from '../../../src/observability/index.js';
import type { FoundDamage, HeightRange } from '../../../src/storage/index.js';
import { range, RecordingLogger, ScrapedMetrics, VirtualClock, windowOf } from '../../support/index.js';

const FIRST = 100;
const LAST = 149;
const HOUR_MS = 3_600_000;

/** A store of which heights are damaged, and what was done with it. */
function setUp({ leads = true } = {}) {
  const clock = new VirtualClock();
  const logger = new RecordingLogger();
  const metrics = createMetrics({ version: '', node: '' });
  const state = { latest: LAST, leads, damaged: new Set<number>(), holes: new Set<number>() };
  const checked: HeightRange[] = [];
  let tell = (_damage: FoundDamage): void => undefined;
  const failures: unknown[] = [];
  const store = {
    latestIndexedHeight: () => state.latest,
    coverage: () => [{ from: FIRST, to: state.latest }],
    onDamage: (listener: (damage: FoundDamage) => void) => void (tell = listener),
    shared: { isLeading: () => state.leads },
    check: (range: HeightRange) => {
      checked.push(range);
      const found = [...state.damaged].filter(
        (height) => height >= range.from && height <= range.to && !state.holes.has(height),
      );
      const damages = found.map((height) => ({ height, what: `body of height ${height}` }));
      return Promise.resolve({ bytes: 1_000, damages });
    },
    heal: (wanted: readonly HeightRange[]) => {
      const holes = wanted.filter(({ to }) => to < state.latest);
      for (const { from, to } of holes) for (let at = from; at <= to; at += 1) state.holes.add(at);
      return Promise.resolve(holes);
    },
  };
  const window = windowOf(
    { latestIndexedHeight: () => state.latest, hasHeight: () => false },
    { heights: 10, head: () => state.latest },
  );
  const parts = { store, window, clock, logger, metrics };
  const healing = heal(parts as unknown as Parameters<typeof heal>[0]);
  healing.run(new AbortController().signal).catch((error: unknown) => failures.push(error));
  const settle = async (afterMs = 0): Promise<void> => {
    if (afterMs > 0) await clock.advance(afterMs);
    for (let turns = 0; turns < 20; turns += 1) await clock.turn();
  };
  const scrape = async () => new ScrapedMetrics(await metrics.registry.metrics());
  const warned = () =>
    logger.records.filter(({ level }) => level === 'warn').map(({ fields }) => fields as object);
  /** Verifies from now on. Returns how that is ended. */
  const scrubbing = (bytesPerSecond: number) => {
    const end = new AbortController();
    const scrub = healing.scrub(bytesPerSecond, end.signal);
    scrub.catch(() => undefined);
    return async (): Promise<void> => {
      end.abort(new Error('over'));
      await expect(scrub).rejects.toThrow('over');
    };
  };
  const told = { scrape, scrubbing, settle, tell: (damage: FoundDamage) => tell(damage), warned };
  return { checked, clock, window, failures, healing, state, ...told };
}

it('a damaged height that a read meets becomes a hole, and is named once, however often it is met', async () => {
  const { failures, healing, scrape, settle, state, tell, warned } = setUp();
  for (let times = 0; times < 3; times += 1) tell({ height: 120, what: 'body of height 120: torn' });
  await settle();
  // Readers are told first: what they do not find from then on is healing.
  expect([healing.leaving(), [...state.holes]]).toEqual([[{ from: 120, to: 120 }], []]);
  await settle(50);
  expect([healing.leaving(), [...state.holes]]).toEqual([[], [120]]);
  expect(warned()).toEqual([{ height: 120, damage: 'body of height 120: torn' }]);
  expect([(await scrape()).value('damaged_heights_total'), failures]).toEqual([1, []]);
});

it('a damaged height that a read meets waits at the watermark until the live range has grown', async () => {
  const { settle, state, tell, window } = setUp();
  tell({ height: LAST, what: 'torn' });
  await settle();
  expect(state.holes.size).toBe(0);
  state.latest += 1;
  window.moved();
  await settle(50);
  expect([...state.holes]).toEqual([LAST]);
});

it('the verification of a store looks at the newest heights first, and at as many bytes as it is told', async () => {
  const { checked, healing, state } = setUp();
  state.damaged.add(LAST - 9);
  await healing.checkNewest(1_500, new AbortController().signal);
  expect(checked).toEqual([range(142, 149), range(134, 141)]);
  expect([...state.holes]).toEqual([LAST - 9]);
});

it('the verification of a store goes through all heights at its pace, and begins again an hour later', async () => {
  const { checked, scrape, scrubbing, settle, state } = setUp();
  state.damaged.add(101);
  const end = scrubbing(1_000);
  await settle();
  expect(checked).toHaveLength(1);
  for (let seconds = 0; seconds < 10; seconds += 1) await settle(1_100);
  expect(checked.map(({ from }) => from)).toEqual([142, 134, 126, 118, 110, 102, 100]);
  expect([...state.holes]).toEqual([101]);
  const metrics = await scrape();
  expect(metrics.value('store_scrubbed_bytes_total')).toBe(7_000);
  expect(metrics.value('store_last_scrub_timestamp_seconds')).toBeGreaterThan(0);
  await settle(HOUR_MS);
  expect(checked.length).toBeGreaterThan(7);
  await end();
});

it('the verification of a store begins at once where damage was met that has no height, and waits while what it finds becomes a hole, which may mend others', async () => {
  const { checked, scrubbing, settle, state, tell } = setUp();
  state.damaged.add(145);
  const end = scrubbing(0);
  await settle();
  expect(checked).toEqual([]);
  tell({ height: undefined, what: 'a file of the database' });
  await settle(40);
  expect(checked).toHaveLength(1);
  await settle(1_000);
  expect(checked.at(-1)?.from).toBeLessThan(LAST - 7);
  await end();
});

it('the verification of a store comes to the oldest height, however often damage without a height is met meanwhile', async () => {
  const { checked, clock, scrubbing, settle, tell } = setUp();
  const end = scrubbing(1_000);
  for (let seconds = 0; seconds < 10; seconds += 1) {
    await settle();
    tell({ height: undefined, what: 'a file of the database' });
    await clock.advance(1_100);
  }
  expect(checked.slice(0, 8).map(({ from }) => from)).toEqual([142, 134, 126, 118, 110, 102, 100, 142]);
  await end();
});

it('the verification of a store is left to the process that leads', async () => {
  const { checked, scrape, scrubbing, settle, state } = setUp({ leads: false });
  const end = scrubbing(1_000);
  await settle();
  expect((await scrape()).value('store_scrub_bytes_per_second')).toBe(0);
  expect(checked).toEqual([]);
  state.leads = true;
  await settle(60_000);
  expect(checked.length).toBeGreaterThan(0);
  await end();
});
