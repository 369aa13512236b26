import { expect, it, vi } from 'vitest';
import { localWorkSource } from '../../../src/ranges/index.js';
import type { RangeJob, ServedHeights, SharedQueue, WorkSource } from '../../../src/ranges/index.js';
import { systemClock, type Clock } from '../../../src/runtime/index.js';
import { RangeLostError, sharedRangesOf } from '../../../src/storage/index.js';
import type { BlockEntry, HeightRange, IndexStore, LevelIndexStore } from '../../../src/storage/index.js';
import { asAdmin, chainWith, countIn, parts, range, seededCollection } from '../../support/index.js';
import { usePostgres, useStores, VirtualClock } from '../../support/index.js';
import { together } from '../../support/together.js';

const FIRST = 100;
const chain = chainWith(FIRST, 100, (index) => (index % 3 === 0 ? [seededCollection(`of ${index}`, 1)] : []));
const blocksOf = ({ from, to }: HeightRange): BlockEntry[] => chain.slice(from - FIRST, to - FIRST + 1);
const EVERYTHING: ServedHeights = { borders: () => [], served: () => [range(0, 1_000_000)] };
const WAIT_MS = 20_000;
/** Each mostly waits to hear of others, and has a database of its own. */
const AT_ONCE = 5;

interface Process {
  readonly source: WorkSource;
  readonly store: IndexStore;
  readonly queue?: SharedQueue;
  close(): Promise<void>;
}

interface Begin {
  readonly served?: ServedHeights;
  readonly clock?: Clock;
  readonly workVersion?: number;
}

/** A store whose live range is 180 to 189, and processes that fill what is below. */
type World = Pick<SharedWorld, 'begin' | 'pausesEnd'>;
type SharedWorld = Awaited<ReturnType<ReturnType<typeof usePgBoss>>>;

function useLocal(): () => Promise<World> {
  const { closedStore, open } = useStores();
  return async () => {
    const path = await closedStore(blocksOf(range(180, 189)));
    const clock = new VirtualClock();
    let store: LevelIndexStore | undefined;
    return {
      begin: async (how) => {
        await store?.close();
        const own = (store = await open(path));
        const source = localWorkSource(
          { maxRangeHeights: 10 },
          { ...parts(), store: own, chain: how?.served ?? EVERYTHING, clock },
        );
        return { source, store: own, close: () => own.close() };
      },
      pausesEnd: () => clock.advance(600_000),
    };
  };
}

function usePgBoss() {
  const postgres = usePostgres();
  return async () => {
    const { url } = await postgres.filled(180, blocksOf(range(180, 189)));
    const sql = async (text: string): Promise<unknown[]> => (await asAdmin(url, text)).rows as unknown[];
    return {
      ...{ url, sql },
      rewind: async (height: number) => (await postgres.open(url)).rewind(height),
      /** A command, whose connections can be cut. */
      command: async () => {
        const faults = await postgres.faultsBefore(url);
        const store = await postgres.open(faults.url, { isReadOnly: true });
        const queue = await postgres.queue(faults.url, { roles: [] });
        const source = queue.source({}, { book: sharedRangesOf(store)!, chain: EVERYTHING });
        await source.refresh();
        return { faults, queue, source, store };
      },
      begin: async (how: Begin = {}): Promise<Process> => {
        const { served = EVERYTHING, clock = systemClock, workVersion = 1 } = how;
        const store = await postgres.open(url, { isReadOnly: true });
        const queue = await postgres.queue(url, { workVersion, roles: ['backfill'] }, { clock });
        const book = sharedRangesOf(store)!;
        const source = queue.source({ maxRangeHeights: 10 }, { book, chain: served });
        return { source, store, queue, close: () => queue.close() };
      },
      pausesEnd: async () => {
        await sql('UPDATE flow_jobs.job SET start_after = now() WHERE start_after > now()');
      },
    };
  };
}

/** The same, which has planned these heights, the newest first, and nobody else has yet. */
async function planned<W extends World>(newWorld: () => Promise<W>, its: HeightRange, how?: Begin) {
  const world = await newWorld();
  const process = await world.begin(how);
  await process.source.plan({ ...its, order: 'newest' });
  return { process, world };
}

/** A process that has been given the only range that is planned, from 150 to 159. */
async function running<W extends World>(newWorld: () => Promise<W>, how?: Begin) {
  const { process, world } = await planned(newWorld, range(150, 159), how);
  return { job: await next(process), process, world };
}

async function next({ source }: Process): Promise<RangeJob> {
  const job = await source.next(AbortSignal.timeout(WAIT_MS));
  expect(job, 'there is a range to run').toBeDefined();
  return job!;
}

/** True when nothing is handed out for a while: where others may have a part in it, for as long as it takes to hear of them. */
async function isIdle({ source, store }: Process): Promise<boolean> {
  const waitMs = sharedRangesOf(store) === undefined ? 100 : 2_500;
  return (await source.next(AbortSignal.timeout(waitMs))) === undefined;
}

async function publish({ range: its, store }: RangeJob): Promise<void> {
  const blocks = blocksOf(range(store.latestIndexedHeight() + 1, its.to));
  await store.commit({ blocks, latestIndexedHeight: its.to });
}

async function fill(job: RangeJob): Promise<void> {
  await publish(job);
  await job.succeed();
}

async function fillAll(process: Process, many: number): Promise<readonly number[]> {
  const filled: number[] = [];
  for (let count = 0; count < many; count += 1) {
    const job = await next(process);
    await fill(job);
    filled.push(job.range.from);
  }
  return filled;
}

async function coverageOf(process: Process): Promise<readonly HeightRange[]> {
  await sharedRangesOf(process.store)?.read();
  return process.store.coverage();
}

const until = (check: () => void) => vi.waitFor(check, { timeout: WAIT_MS, interval: 50 });

const behaviours: Readonly<Record<string, (newWorld: () => Promise<World>) => Promise<void>>> = {
  'hands out what is planned, the newest first, and forgets the plan when it is filled': async (newWorld) => {
    const process = await (await newWorld()).begin();
    const plan = await process.source.plan({ ...range(140, 175), order: 'newest' });
    expect(plan).toEqual({ ...{ id: 1, from: 140, to: 175 }, order: 'newest', isPaused: false });
    expect(process.source.status()).toMatchObject({ missingHeights: 36, plans: [{ missingHeights: 36 }] });
    const filled = await fillAll(process, 4);
    expect([...filled].sort((a, b) => b - a)).toEqual(filled);
    await until(() => expect(process.source.status()).toMatchObject({ plans: [], missingHeights: 0 }));
    expect(await coverageOf(process)).toEqual([range(140, 175), range(180, 189)]);
    expect(await isIdle(process)).toBe(true);
  },

  'keeps to the order and the borders of sporks, and leaves out what nobody serves': async (newWorld) => {
    let lowest = 110;
    const served: ServedHeights = { borders: () => [125], served: () => [range(lowest, 150)] };
    const process = await (await newWorld()).begin({ served });
    await process.source.plan({ ...range(105, 135), order: 'oldest' });
    const jobs = [await next(process), await next(process), await next(process)];
    expect(jobs.map((job) => job.range)).toEqual([range(110, 119), range(125, 134), range(120, 124)]);
    expect(process.source.status().unserved).toEqual([range(105, 109)]);
    await jobs.shift()?.release();
    lowest = 115;
    for (const job of jobs) await fill(job);
    await fillAll(process, 1);
    expect(await isIdle(process)).toBe(true);
    lowest = 110;
    await fillAll(process, 1);
    expect(await coverageOf(process)).toEqual([range(110, 135), range(180, 189)]);
  },

  'works on all sporks at once, the newest first, and gives a free place to each in turn': async (
    newWorld,
  ) => {
    const served: ServedHeights = { borders: () => [130, 150], served: () => [range(110, 1_000_000)] };
    const { process } = await planned(newWorld, range(110, 175), { served });
    // Ranges are cut from above on one machine, and from below on many, where two may cut the same heights.
    const sporkOf = ({ range: { from } }: RangeJob): number => (from >= 150 ? 3 : from >= 130 ? 2 : 1);
    const jobs = [await next(process), await next(process), await next(process)];
    expect(jobs.map(sporkOf)).toEqual([3, 2, 1]);
    // Two have a range each, the third one none.
    const [newest, middle, oldest] = jobs as [RangeJob, RangeJob, RangeJob];
    await fill(middle);
    const second = await next(process);
    expect(sporkOf(second)).toBe(2);
    for (const job of [newest, second, oldest]) await fill(job);
    const filled: number[] = [];
    for (let count = 0; count < 3; count += 1) {
      const job = await next(process);
      filled.push(sporkOf(job));
      await fill(job);
    }
    expect(filled).toEqual([3, 1, 3]);
    expect(await coverageOf(process)).toEqual([range(110, 175), range(180, 189)]);
  },

  'works on plans in their order, and refuses what cannot be planned': async (newWorld) => {
    const { process } = await planned(newWorld, range(110, 119));
    await process.source.plan({ ...range(150, 159), order: 'newest' });
    const refused = (from: number, to: number) => process.source.plan({ from, to, order: 'newest' });
    await expect(refused(150, 155)).rejects.toMatchObject({ exit: 'usage', message: /planned already/ });
    await expect(refused(181, 185)).rejects.toMatchObject({ exit: 'usage', message: /indexed already/ });
    await expect(refused(190, 195)).rejects.toThrow(/above the latest .* without a plan\.$/);
    await expect(refused(150, 195)).rejects.toThrow(/ End the plan at 179 or lower\.$/);
    await expect(refused(130, 120)).rejects.toMatchObject({ exit: 'usage', message: /swap them/ });
    await expect(process.source.pause(7)).rejects.toMatchObject({ exit: 'usage', message: /no plan 7/ });
    expect(await fillAll(process, 2)).toEqual([110, 150]);
  },

  'gives back what runs of a paused plan, which goes on where it stood': async (newWorld) => {
    const { job, process } = await running(newWorld);
    await job.store.commit({ blocks: blocksOf(range(150, 153)), latestIndexedHeight: 153 });
    job.signal.addEventListener('abort', () => void job.release());
    await process.source.pause();
    expect(job.signal.aborted).toBe(true);
    const waiting = { next: 154, phase: 'waiting', failures: 0 };
    await until(() => expect(process.source.status().ranges).toMatchObject([waiting]));
    expect(await isIdle(process)).toBe(true);
    await process.source.resume(1);
    const again = await next(process);
    expect([again.range, again.store.latestIndexedHeight()]).toEqual([range(150, 159), 153]);
    await fill(again);
    expect(await coverageOf(process)).toEqual([range(150, 159), range(180, 189)]);
  },

  'forgets a cancelled plan, and what is not published of it': async (newWorld) => {
    const { process } = await planned(newWorld, range(140, 159));
    await fillAll(process, 1);
    const job = await next(process);
    await job.store.commit({ blocks: blocksOf(range(140, 143)), latestIndexedHeight: 143 });
    job.signal.addEventListener('abort', () => void job.release());
    await process.source.cancel(1);
    expect(job.signal.aborted).toBe(true);
    expect(process.source.status()).toMatchObject({ plans: [], ranges: [] });
    expect(await coverageOf(process)).toEqual([range(150, 159), range(180, 189)]);
    expect(await process.store.blockByHeight(142)).toBeUndefined();
    expect(await isIdle(process)).toBe(true);
    await process.source.plan({ ...range(140, 149), order: 'newest' });
    expect((await next(process)).store.latestIndexedHeight()).toBe(139);
  },

  'keeps the plan of a height that turns out to be damaged while another plan is cancelled': async (
    newWorld,
  ) => {
    const { job, process } = await running(newWorld);
    job.signal.addEventListener(
      'abort',
      () => void process.store.heal([range(185)]).then(() => job.release()),
    );
    await process.source.cancel(1);
    expect(process.store.healing()).toEqual([range(185)]);
    expect(process.source.status().plans).toMatchObject([{ ...range(185), heals: true }]);
  },

  'runs a failed range again, and sets it aside after five times until it is redriven': async (newWorld) => {
    const { process, world } = await planned(newWorld, range(150, 159));
    // Giving it back is no failure.
    for (let count = 0; count < 3; count += 1) await (await next(process)).release();
    for (let count = 1; count <= 5; count += 1) {
      const job = await next(process);
      expect(job.store.latestIndexedHeight()).toBe(149);
      await job.store.commit({ blocks: blocksOf(range(150, 151)), latestIndexedHeight: 151 });
      await job.fail(`lie ${count}`);
      await until(() =>
        expect(process.source.status().ranges).toMatchObject([
          { failures: count, reason: `lie ${count}`, phase: count < 5 ? 'failed' : 'disputed', next: 150 },
        ]),
      );
      await world.pausesEnd();
    }
    expect(await isIdle(process)).toBe(true);
    expect(await process.source.redrive()).toBe(1);
    expect(await process.source.redrive()).toBe(0);
    await fillAll(process, 1);
    expect(await coverageOf(process)).toEqual([range(150, 159), range(180, 189)]);
  },
};

const shared: Readonly<Record<string, (newWorld: () => Promise<SharedWorld>) => Promise<void>>> = {
  'share the ranges of one plan, each filled once': async (newWorld) => {
    const world = await newWorld();
    const [one, two] = [await world.begin(), await world.begin()];
    await one.source.plan({ ...range(110, 169), order: 'newest' });
    const jobs = await Promise.all([next(one), next(two)]);
    expect(new Set(jobs.map((job) => job.range.from)).size).toBe(2);
    for (const job of jobs) await fill(job);
    const [first, second] = await Promise.all([fillAll(one, 2), fillAll(two, 2)]);
    expect(new Set([...first, ...second]).size).toBe(4);
    expect(await coverageOf(two)).toEqual([range(110, 169), range(180, 189)]);
  },

  'work on different sporks, and give each free place to one that nobody works on': async (newWorld) => {
    const world = await newWorld();
    const served: ServedHeights = {
      borders: () => [120, 130, 140, 150],
      served: () => [range(0, 1_000_000)],
    };
    const [one, two] = [await world.begin({ served }), await world.begin({ served })];
    await one.source.plan({ ...range(100, 159), order: 'newest' });
    const jobs = [await next(one), await next(two), await next(one), await next(two), await next(one)];
    expect(jobs.map((job) => job.range.from)).toEqual([150, 140, 130, 120, 110]);
    expect((await next(two)).range.from).toBe(100);
  },

  'plan the same heights once, though both do at the same time': async (newWorld) => {
    const world = await newWorld();
    const [one, two] = [await world.begin(), await world.begin()];
    const wanted = { ...range(110, 169), order: 'newest' as const };
    const planned = await Promise.allSettled([one.source.plan(wanted), two.source.plan(wanted)]);
    expect(planned.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await countIn(world.url, 'flow_store.plan')).toBe(1);
  },

  'take over what a silent one held, at once and not as a failure; that one can write nothing': async (
    newWorld,
  ) => {
    const { job, world } = await running(newWorld, { clock: new VirtualClock() });
    await job.store.commit({ blocks: blocksOf(range(150, 153)), latestIndexedHeight: 153 });
    const two = await world.begin();
    const silentAt = Date.now();
    const again = await next(two);
    expect(Date.now() - silentAt).toBeLessThan(12_000);
    expect([again.range, again.store.latestIndexedHeight()]).toEqual([range(150, 159), 153]);
    await expect(publish(job)).rejects.toThrow(RangeLostError);
    await job.release();
    await fill(again);
    expect(await countIn(world.url, 'flow_store.block')).toBe(20);
    expect(two.source.status().ranges).toEqual([]);
  },

  'refuse the run before, where the process that lost a range takes it again': async (newWorld) => {
    const { job, process: one, world } = await running(newWorld, { clock: new VirtualClock() });
    // Given back by others while this process was cut off from the database: it has not heard of it yet.
    await world.sql(
      `UPDATE flow_jobs.job SET state = 'retry', start_after = now(), retry_count = retry_count + 1 WHERE state = 'active'`,
    );
    const again = await next(one);
    expect(again.range).toEqual(job.range);
    const lost = job.store.commit({ blocks: blocksOf(range(150, 150)), latestIndexedHeight: 150 });
    await expect(lost).rejects.toThrow(RangeLostError);
    await expect(publish(job)).rejects.toThrow(RangeLostError);
    await job.release();
    await fill(again);
    expect(await coverageOf(one)).toEqual([range(150, 159), range(180, 189)]);
  },

  'publish and complete in one transaction: without the one there is not the other': async (newWorld) => {
    const { job, process: one, world } = await running(newWorld, { clock: new VirtualClock() });
    // The queue has given the range away, and the fence does not know yet.
    await world.sql(`UPDATE flow_jobs.job SET retry_count = retry_count + 1 WHERE state = 'active'`);
    await expect(publish(job)).rejects.toThrow(RangeLostError);
    expect(await coverageOf(one)).toEqual([range(180, 189)]);
    expect(await countIn(world.url, 'flow_store.block')).toBe(10);
  },

  'wait for their queue to complete a range, which is no trouble of the store': async (newWorld) => {
    const { job, process: one, world } = await running(newWorld, { clock: new VirtualClock() });
    await world.sql('ALTER SCHEMA flow_jobs RENAME TO gone');
    const published = publish(job);
    const said =
      /"flow_jobs.* Tables of the queue are missing or changed.* start again.* Indexing needs no queue/;
    await until(() => expect(one.queue?.trouble()).toMatch(said));
    expect(one.store.trouble?.()).toBeUndefined();
    await world.sql('ALTER SCHEMA gone RENAME TO flow_jobs');
    await published;
    expect(one.queue?.trouble()).toBeUndefined();
    await job.succeed();
  },

  'say that their queue gives them none, for as long as it refuses': async (newWorld) => {
    const { process, world } = await planned(newWorld, range(150, 159));
    await world.sql('ALTER TABLE flow_jobs.job ADD CONSTRAINT none CHECK (singleton_key IS NULL) NOT VALID');
    const job = next(process);
    await until(() => expect(process.queue?.trouble()).toContain('violates check constraint "none"'));
    await world.sql('ALTER TABLE flow_jobs.job DROP CONSTRAINT none');
    await fill(await job);
    expect(process.queue?.trouble()).toBeUndefined();
  },

  'find ranges whose jobs were lost, begun or not, also those that were begun for another plan': async (
    newWorld,
  ) => {
    const { process: one, world } = await planned(newWorld, range(110, 119));
    await (await next(one)).release();
    await one.source.plan({ ...range(110, 169), order: 'newest' });
    await one.source.cancel(1);
    await (await next(one)).release();
    // As if somebody had meddled: they count as done, and are not.
    await world.sql(
      "UPDATE flow_jobs.job SET state = 'completed' WHERE (data ->> 'from')::integer NOT IN (120, 130)",
    );
    // What another plan was cut into, which ends within a range that is begun.
    const otherwise = `state = 'created', data = '{"from": 160, "to": 165}'`;
    await world.sql(`UPDATE flow_jobs.job SET ${otherwise} WHERE data ->> 'from' = '160'`);
    const filled = await fillAll(one, 6);
    expect(filled.slice(0, 2)).toEqual([130, 120]);
    expect([...filled].sort((left, right) => left - right)).toEqual([110, 120, 130, 140, 150, 160]);
    expect(await coverageOf(one)).toEqual([range(110, 169), range(180, 189)]);
    await until(() => expect(one.source.status().plans).toEqual([]));
  },

  'keep a range that is held for longer than the queue lets anybody, and complete it': async (newWorld) => {
    const { job, process: one, world } = await running(newWorld);
    await job.store.commit({ blocks: blocksOf(range(150, 154)), latestIndexedHeight: 154 });
    await world.sql("UPDATE flow_jobs.job SET started_on = started_on - interval '13 hours'");
    const anew =
      "SELECT FROM flow_jobs.job WHERE state = 'active' AND started_on > now() - interval '1 hour'";
    await expect.poll(async () => (await world.sql(anew)).length, { timeout: WAIT_MS }).toBe(1);
    expect(job.signal.aborted).toBe(false);
    expect(await isIdle(await world.begin())).toBe(true);
    await fill(job);
    expect(await coverageOf(one)).toEqual([range(150, 159), range(180, 189)]);
  },

  'do not wait for what was due before the clock of the server was set back': async (newWorld) => {
    const { job, process, world } = await running(newWorld);
    await job.release();
    await world.sql(`UPDATE flow_jobs.job SET start_after = now() + interval '1 hour'`);
    expect((await next(process)).range).toEqual(range(150, 159));
  },

  'give jobs to a plan that has lost them all, however far somebody has it reach': async (newWorld) => {
    const { job, process: one, world } = await running(newWorld);
    await job.release();
    await world.sql(`UPDATE flow_store.plan SET to_height = ${Number.MAX_SAFE_INTEGER - 1}`);
    await world.sql('DELETE FROM flow_jobs.job');
    await fillAll(one, 3);
    expect(await coverageOf(one)).toEqual([range(150, 189)]);
  },

  'leave ranges above the live one, which was rewound, and fill those below it': async (newWorld) => {
    const { process: one, world } = await planned(newWorld, range(110, 159));
    const jobs = [await next(one), await next(one), await next(one), await next(one), await next(one)];
    for (const job of jobs) await ([110, 130].includes(job.range.from) ? fill(job) : job.release());
    await world.rewind(135);
    expect(await fillAll(one, 1)).toEqual([120]);
    expect(await coverageOf(one)).toEqual([range(110, 135)]);
  },

  'begin nothing while the live range is empty, and end no job after another': async (newWorld) => {
    const { process, world } = await planned(newWorld, range(150, 159));
    await world.rewind(179);
    expect(await isIdle(process)).toBe(true);
    expect(await countIn(world.url, `flow_jobs.job WHERE name LIKE 'plan-%'`)).toBeLessThan(2);
  },

  'leave a range to the one that fills it, where another plan has a job for it': async (newWorld) => {
    const { process: one, world } = await planned(newWorld, range(140, 159));
    const given = await next(one);
    given.signal.addEventListener('abort', () => void given.release());
    await one.source.pause(1);
    await one.source.plan({ ...range(130, 149), order: 'newest' });
    const job = await next(one);
    await one.source.resume(1);
    const other = await next(await world.begin());
    expect([job, other].map((each) => each.range.from)).toEqual([140, 150]);
    await fill(job);
  },

  'wait for the database where that is away, and say what they have done where its answer is lost': async (
    newWorld,
  ) => {
    const { world } = await running(newWorld);
    await world.sql('UPDATE flow_store.open_range SET failures = 5');
    const { faults, queue, source, store } = await world.command();
    await faults.down();
    const lastPlan = queue.lastPlan();
    await until(() => expect(queue.trouble()).toBeDefined());
    await faults.up();
    expect(await lastPlan).toBe(1);
    faults.cutAfterRequest('COMMIT');
    expect(await source.redrive()).toBe(1);
    faults.cutAfterRequest('COMMIT');
    expect(await store.heal([range(185)])).toEqual([range(185)]);
    faults.cutAfterRequest('COMMIT');
    faults.script = ({ text }) =>
      text.includes('delete_queue') ? { code: '57P01', message: 'gone', severity: 'FATAL' } : undefined;
    await source.cancel(1);
    expect(faults.cuts).toBe(3);
  },

  'take only work of their version, and the newer one what nobody else does': async (newWorld) => {
    const { process: old, world } = await planned(newWorld, range(140, 159), { workVersion: 1 });
    const young = await world.begin({ workVersion: 2 });
    expect(await isIdle(young)).toBe(true);
    await fillAll(old, 1);
    await old.close();
    await until(() => expect(young.source.status().plans).toMatchObject([{ untakenVersion: 1 }]));
    expect(await fillAll(young, 1)).toEqual([140]);
    expect(await coverageOf(young)).toEqual([range(140, 159), range(180, 189)]);
  },
};

const [local, onDatabase] = [useLocal(), usePgBoss()];
const all = Object.entries({ ...behaviours, ...shared });

it.each(Object.entries(behaviours))('on LevelDB %s', (_, behaves) => behaves(local));

it('on pg-boss does the same, and several processes share it', { timeout: 180_000 }, () =>
  together(Object.fromEntries(all.map(([name, behaves]) => [name, () => behaves(onDatabase)])), AT_ONCE),
);
