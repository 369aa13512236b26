import { describe, expect, it } from 'vitest';
import { WorkSignal } from '../../../src/jobqueue/index.js';
import { AbortError } from '../../../src/runtime/index.js';
import { ParentLinkError, StorageError, type RangeStore } from '../../../src/storage/index.js';
import { begin, blocksIn, chainWith, commitThrough, digestOf, evidenceOf } from '../../support/index.js';
import { MemoryDatabase, metaFrom, range, seededCollection, storeOver } from '../../support/index.js';

const forever = new AbortController().signal;
const LIVE = 41;
const LAST = 60;
const chain = chainWith(1, LAST, (index) => (index % 3 === 0 ? [] : [seededCollection(`g${index}`, 1, 200)]));

/** A store from height 41 to 50, whose writes can be held back and counted. */
async function liveStore() {
  const database = new MemoryDatabase();
  const store = await storeOver(database, false);
  await store.initialise(metaFrom(LIVE, { sporks: metaFrom(1).sporks }));
  await store.commit({ blocks: blocksIn(chain, { from: LIVE, to: 50 }), latestIndexedHeight: 50 });
  const runOf = (from: number, to: number): Promise<RangeStore> => store.ranges.run({ from, to });
  /** Runs what is to happen while a write is under way; returns how many writes there were after that one. */
  const duringWrite = async (act: () => readonly Promise<unknown>[]): Promise<number> => {
    const held = new WorkSignal();
    const begun = new WorkSignal();
    database.beforeWrite = () => {
      begun.notify();
      return held.wait(forever);
    };
    const plan = { ...{ id: 1, from: 0, to: 40 }, order: 'newest', isPaused: false } as const;
    const first = store.ranges.change({ plans: [plan] });
    await begun.wait(forever);
    const before = database.writes;
    const acts = Promise.allSettled(act());
    for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(database.writes).toBe(before);
    database.beforeWrite = () => Promise.resolve();
    held.notify();
    await first;
    await acts;
    return database.writes - before - 1;
  };
  return { database, store, runOf, duringWrite };
}

const evidence = evidenceOf(chain[LIVE - 1]!, true);
type Live = Awaited<ReturnType<typeof liveStore>>;

it.each<[string, (live: Live) => Promise<unknown>]>([
  ['blocks of the live range', ({ store }) => commitThrough(store, chain, 55)],
  ['blocks of history', async ({ runOf }) => commitThrough(await runOf(1, 10), chain, 5)],
  ['plans', ({ store }) => store.ranges.change({ plans: [] })],
  ['what finality rests on', ({ store }) => store.keepEvidence(evidence)],
  ['holes of damaged heights', ({ store }) => store.heal([{ from: 42, to: 43 }])],
  ['a rewind', ({ store }) => store.rewind(45)],
])('a write that fails is the last one, told once to whoever ends the process: %s', async (_, write) => {
  const live = await liveStore();
  const failures: unknown[] = [];
  live.store.onFailed((error) => failures.push(error));
  const failure = new StorageError('too_many_files', 'no descriptor is left');
  const before = live.database.beforeWrite;
  live.database.beforeWrite = () => Promise.reject(failure);
  await expect(write(live)).rejects.toBe(failure);
  live.database.beforeWrite = before;
  const { writes } = live.database;
  const latest = live.store.latestIndexedHeight();
  live.store.stage(chain[50]!);
  await expect(commitThrough(live.store, chain, 51)).rejects.toBe(failure);
  await expect(live.store.rewind(44)).rejects.toBe(failure);
  await expect(live.store.keepEvidence(evidence)).rejects.toBe(failure);
  const { writes: after, openBatches } = live.database;
  expect([after, openBatches.size, live.store.latestIndexedHeight()]).toEqual([writes, 0, latest]);
  expect(failures).toEqual([failure]);
});

it('a removal ends with the store, which nobody takes for a bug while the process stops, and the next open finishes it', async () => {
  const { database, runOf, store } = await liveStore();
  await commitThrough(await runOf(11, 20), chain, 19);
  database.beforeWrite = async () => void store.close();
  await expect(store.ranges.change({ dropped: [range(11, 20)] })).rejects.toThrow(AbortError);
  expect((await storeOver(database)).ranges.open()).toEqual([]);
});

describe('commits that come while a write is under way', () => {
  it('follow it one by one, the live range first, and each is told when it is durable', async () => {
    const { duringWrite, runOf, store } = await liveStore();
    const runs = [await runOf(1, 10), await runOf(11, 20), await runOf(21, 30)];
    const told: string[] = [];
    const writes = await duringWrite(() => [
      ...runs.map((run, index) => commitThrough(run, chain, 10 * index + 5).then(() => told.push('range'))),
      commitThrough(store, chain, 55).then(() => told.push('live')),
    ]);
    expect(writes).toBe(4);
    expect(told).toEqual(['live', 'range', 'range', 'range']);
    expect(store.latestIndexedHeight()).toBe(55);
    expect(store.ranges.open().map(({ next }) => next)).toEqual([6, 16, 26]);
  });

  it('are not refused with one that is refused', async () => {
    const { duringWrite, runOf, store } = await liveStore();
    // It begins lower, so each of its blocks has another id.
    const other = chainWith(0, LIVE, () => [seededCollection('other', 2)]);
    const [low, middle, high] = [await runOf(11, 20), await runOf(21, 30), await runOf(31, 40)];
    const outcomes: unknown[] = [];
    const note = (commit: Promise<void>): Promise<unknown> =>
      commit.then(
        () => outcomes.push('durable'),
        (error: unknown) => outcomes.push(error),
      );
    // The second does not link to the first, though both wait for the same write.
    await duringWrite(() => [
      note(commitThrough(low, chain, 20)),
      note(commitThrough(middle, other, 30)),
      note(commitThrough(high, chain, 40)),
      note(commitThrough(store, chain, 52)),
    ]);
    expect(outcomes.filter((each) => each === 'durable')).toHaveLength(3);
    expect(outcomes.find((each) => each !== 'durable')).toBeInstanceOf(ParentLinkError);
    expect(store.coverage()).toEqual([range(11, 20), range(31, 52)]);
    const keys: string[] = [];
    for await (const [key] of store.entries()) keys.push(Buffer.from(key).toString('hex'));
    const hasBlock = (height: number): boolean =>
      keys.some((key) => key.startsWith(`10${height.toString(16).padStart(16, '0')}`));
    expect([20, 21, 25, 30, 31].filter(hasBlock)).toEqual([20, 31]);
    await store.ranges.change({ dropped: [{ from: 21, to: 30 }] });
    await commitThrough(await runOf(21, 30), chain, 30);
    await commitThrough(await runOf(1, 10), chain, 10);
    await store.ranges.change({ plans: [] });
    const whole = begin(storeOver(new MemoryDatabase(), false), 1, blocksIn(chain, range(1, 52)));
    expect(await digestOf(store)).toBe(await digestOf(await whole));
  });
});
