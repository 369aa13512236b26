import { expect, it } from 'vitest';
import { watchBackfill } from '../../../src/app/health/watches/watchBackfill.js';
import { measureProgress } from '../../../src/observability/index.js';
import type { HeightRange } from '../../../src/storage/index.js';
import { RecordingLogger, untilEnd, VirtualClock } from '../../support/index.js';

type Parts = Parameters<typeof watchBackfill>[1];
type State = ReturnType<Parts['backfill']['state']>;
type Running = ReturnType<Parts['backfill']['running']>[number];

/** History as a test wants it, and the watch that looks at it. */
class World {
  readonly clock = new VirtualClock();
  readonly logger = new RecordingLogger();
  readonly watch: ReturnType<typeof watchBackfill>;
  state: State = { plans: [], ranges: [], unserved: [], missingHeights: 0 };
  running: Running[] = [];
  filled = 0;
  heldBack: ReturnType<Parts['pace']['heldBack']>;
  trouble: string | undefined;
  queueTrouble: string | undefined;

  constructor() {
    const { clock, logger } = this;
    const parts = {
      ...{ clock, logger },
      store: { latestIndexedHeight: () => 0, meta: () => ({}), trouble: () => this.trouble },
      queue: { trouble: () => this.queueTrouble },
      backfill: { state: () => this.state, running: () => this.running, filled: () => this.filled },
      pace: { heldBack: () => this.heldBack },
      network: { source: 'access node', whyUnserved: () => [] },
      descriptors: { trouble: () => undefined },
      diskWatch: { pause: () => undefined },
    };
    this.watch = watchBackfill({ ediOnly: false, roles: ['backfill'] }, parts as unknown as Parts);
  }

  told = () => this.logger.records.map(({ message, fields }) => [message, fields['why']] as const);

  /** A range that runs, with what its line waits for. Returns how it grows. */
  run(range: HeightRange): (heights: number) => void {
    const { clock } = this;
    let [latest, grewAtMs] = [range.from - 1, clock.monotonic()];
    const latestIndexedHeight = (): number => latest;
    const indexing = {
      blocks: { heldUpBy: () => ({ height: latest + 1, isUnserved: false, troubles: [] }) },
      indexer: { commitStartedAtMs: () => undefined },
      explainer: { explain: () => ({ stage: 'queued' }), heldUpBy: () => undefined },
    };
    const meter = measureProgress({ clock, source: { latestIndexedHeight, headHeight: () => range.to } });
    const line = { indexing, meter, stillMs: () => clock.monotonic() - grewAtMs };
    const job = { range, store: { latestIndexedHeight } };
    this.running = [...this.running, { job, line } as unknown as Running];
    return (heights) => {
      latest += heights;
      this.filled += heights;
      grewAtMs = clock.monotonic();
    };
  }

  /** The document of the work source for one plan and what runs of it. */
  plan(plan: HeightRange, missingHeights: number): void {
    this.state = {
      plans: [{ ...plan, id: 1, order: 'newest', isPaused: false, missingHeights }],
      ranges: this.running.map(({ job: { range, store } }) => ({
        ...range,
        ...{ next: store.latestIndexedHeight() + 1, failures: 0, phase: 'running' as const },
      })),
      ...{ unserved: [], missingHeights },
    };
  }
}

const unservedAt = (height: number) =>
  `waiting for height ${height}: no access node serves that height; add an --access-node that has it`;

/** Two halves of a plan, which run. */
function twoRanges() {
  const world = new World();
  const lower = world.run({ from: 0, to: 999 });
  const upper = world.run({ from: 1_000, to: 1_999 });
  world.plan({ from: 0, to: 1_999 }, 2_000);
  untilEnd(world.watch.run);
  return { lower, upper, world };
}

it('tells rate and time left, of each range and of all, and logs them every ten seconds', async () => {
  const { lower, upper, world } = twoRanges();
  for (let second = 1; second <= 12; second += 1) {
    lower(10);
    upper(30);
    world.plan({ from: 0, to: 1_999 }, 2_000 - 40 * second);
    await world.clock.advance(1_000);
  }
  const { eta, missingHeights, rate, ranges } = world.watch.status();
  expect(missingHeights).toBe(1_520);
  expect(rate).toBeCloseTo(40, -1);
  expect(eta).toBeCloseTo(38, -1);
  expect(ranges.map((range) => Math.round(range.rate / 10))).toEqual([1, 3]);
  expect(ranges.map(({ waitingFor }) => waitingFor)).toEqual([null, null]);
  const told = world.logger.records.filter(({ message }) => message === 'filling in history');
  expect(told.map(({ level, fields }) => [level, fields['ranges']])).toEqual([['info', 2]]);
  expect(world.watch.counts()).toEqual({ phases: new Map([['running', 2]]), heldUp: 0 });
});

it('names what a range waits for that has stopped growing, and warns once for all', async () => {
  const { lower, upper, world } = twoRanges();
  await world.clock.advance(4_400);
  expect(world.watch.counts().heldUp).toBe(0);
  upper(5);
  await world.clock.advance(1_500);
  expect(world.watch.counts().heldUp).toBe(1);
  const [held, grows] = world.watch.status().ranges;
  expect(held?.waitingFor).toMatchObject({ height: 0, message: 'waiting for block 0' });
  expect(held?.waitingFor?.ageSeconds).toBeGreaterThanOrEqual(5);
  expect(grows?.waitingFor).toBeNull();
  const edges = () => world.told().filter(([message]) => /held up|continues/.test(message));
  // Without a known cause it is no news yet.
  expect(edges()).toEqual([]);
  await world.clock.advance(10_000);
  expect(world.watch.counts().heldUp).toBe(2);
  expect(edges()).toEqual([['history is held up', 'waiting for block 0']]);
  world.queueTrouble = 'the queue is gone';
  expect(world.watch.status().ranges[0]?.waitingFor).toMatchObject({ message: 'the queue is gone' });
  world.trouble = 'the database is away';
  await world.clock.advance(60_000);
  expect(edges().at(-1)).toEqual(['history is held up', 'the database is away']);
  lower(1);
  upper(1);
  await world.clock.advance(1_000);
  expect(edges().slice(2)).toEqual([['history continues', undefined]]);
  expect(world.watch.counts().heldUp).toBe(0);
});

it('names what is planned and served by no node, unless it is paused', async () => {
  const world = new World();
  untilEnd(world.watch.run);
  const unserved = [{ from: 5, to: 9 }];
  world.plan({ from: 0, to: 9 }, 10);
  const [plan] = world.state.plans;
  world.state = { ...world.state, unserved, plans: [{ ...plan!, isPaused: true }] };
  await world.clock.advance(30_000);
  world.state = { ...world.state, unserved, plans: [plan!] };
  await world.clock.advance(6_000);
  expect(world.told()).toEqual([]);
  await world.clock.advance(4_000);
  expect(world.told()).toEqual([['history is held up', unservedAt(5)]]);
});

it('says that history makes way for the live range, which is no fault', async () => {
  const world = new World();
  world.run({ from: 0, to: 999 });
  world.plan({ from: 0, to: 999 }, 1_000);
  untilEnd(world.watch.run);
  expect(world.watch.status().heldBack).toBeNull();
  world.heldBack = { share: 1 / 8, message: 'history takes 13 % of what it may' };
  await world.clock.advance(10_000);
  const { heldBack, ranges } = world.watch.status();
  expect(heldBack).toEqual(world.heldBack);
  expect(ranges[0]?.waitingFor?.message).toBe('waiting for block 0: history takes 13 % of what it may');
  expect(world.watch.counts().heldUp).toBe(0);
  expect(world.logger.records.filter(({ level }) => level === 'warn')).toEqual([]);
  expect(world.logger.records.at(-1)?.fields['heldBack']).toBe(world.heldBack.message);
  // Nothing holds it back any more, and still it does not grow.
  world.heldBack = undefined;
  await world.clock.advance(1_000);
  expect(world.watch.counts().heldUp).toBe(1);
});

it('tells how long all takes beyond the ranges that run', async () => {
  const world = new World();
  const grows = world.run({ from: 0, to: 99 });
  world.plan({ from: 0, to: 199 }, 200);
  untilEnd(world.watch.run);
  await world.clock.advance(1_000);
  grows(100);
  world.running = [];
  world.plan({ from: 0, to: 199 }, 100);
  await world.clock.advance(1_000);
  const { rate, eta } = world.watch.status();
  expect(rate).toBeGreaterThan(0);
  expect(eta).toBeGreaterThan(0);
  expect(eta).toBeLessThan(10);
  world.state = { ...world.state, plans: [], missingHeights: 0 };
  expect(world.watch.status().eta).toBe(0);
});

it('finds the plan of a height, one at work before one that is paused', () => {
  const world = new World();
  world.run({ from: 10, to: 19 });
  world.plan({ from: 0, to: 50 }, 51);
  const [plan] = world.state.plans;
  const plans = [
    { ...plan!, isPaused: true },
    { ...plan!, id: 2, from: 15 },
  ];
  world.state = { ...world.state, plans, unserved: [{ from: 30, to: 50 }] };
  const range = { from: 10, to: 19 };
  expect(world.watch.plannedAt(16)).toMatchObject({ plan: 2, isPaused: false, range });
  expect(world.watch.plannedAt(30)).toMatchObject({ plan: 2, range: null, unserved: unservedAt(30) });
  expect(world.watch.plannedAt(5)).toMatchObject({ plan: 1, isPaused: true, range: null });
  expect(world.watch.plannedAt(60)).toBeUndefined();
});
