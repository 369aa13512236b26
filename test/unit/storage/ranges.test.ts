import { expect, it } from 'vitest';
import type { BackfillPlan, LevelIndexStore } from '../../../src/storage/index.js';
import { begin, blocksIn, chainWith, commitThrough, digestOf, fill, keyOf } from '../../support/index.js';
import { makeCollection, makeTransaction, MemoryDatabase, metaFrom, range } from '../../support/index.js';
import { sealed, seededCollection, storeOver, useStores, verifyAt } from '../../support/index.js';
import { withRawDatabase } from '../../support/index.js';

const FIRST = 1;
const LAST = 60;
/** Where the live range of most tests begins. */
const LIVE = 41;
/** In many blocks, so that its places lie in several ranges. */
const often = makeCollection([makeTransaction('often')]);
const oftenAt = [3, 12, 25, 45];
const chain = chainWith(FIRST, LAST, (index) => [
  ...(oftenAt.includes(index + FIRST) ? [often] : []),
  ...(index % 3 === 0 ? [] : [seededCollection(`r${index}`, 1 + (index % 3), 200)]),
]);
const plan = (from: number, to: number): BackfillPlan => ({
  ...{ id: 1, from, to, order: 'newest', isPaused: false },
});

const { freshPath, filled, open } = useStores();

const liveStore = (path?: string): Promise<LevelIndexStore> =>
  filled(blocksIn(chain, { from: LIVE, to: LAST }), path);

/** What every store does with ranges: test/support/storeSuite/ranges.ts. */
/** Of a range from 11 to 20, all up to 15 and 17 is durable, and the block record of one height is damaged. */
async function withDamageAt(height: number) {
  const path = await freshPath();
  const first = await liveStore(path);
  const before = await digestOf(first);
  const run = await first.ranges.run({ from: 11, to: 20 });
  await commitThrough(run, chain, 15);
  await run.commit({ blocks: [chain[16]!], latestIndexedHeight: 15 });
  await first.close();
  const key = keyOf(0x10, height);
  await withRawDatabase(path, (database) => database.put(key, sealed(key, Buffer.of(0))));
  return { before, path, store: await open(path) };
}

it.each([12, 14])('a range loses a damaged block, even dropped (height %i)', async (height) => {
  const { before, store } = await withDamageAt(height);
  await store.ranges.change({ dropped: [{ from: 11, to: 20 }] });
  expect(await digestOf(store)).toBe(before);
});

it.each([15, 17])('a range begins anew when its block %i is damaged at the open', async (height) => {
  const { before, path, store } = await withDamageAt(height);
  expect(store.ranges.open()).toEqual([]);
  expect(await digestOf(store)).toBe(before);
  await store.close();
  expect((await verifyAt(path)).damages).toEqual([]);
});

const ended = (['dropped', 'failed'] as const).flatMap((how) =>
  [0, 1, 2].map((writes) => [how, writes] as const),
);
it.each(ended)('a range %s by a process ending after %i writes is so when opened', async (how, writes) => {
  const its = range(11, 20);
  const database = new MemoryDatabase();
  const store = await storeOver(database, true);
  await store.initialise(metaFrom(LIVE, { sporks: metaFrom(FIRST).sporks }));
  await commitThrough(store, chain, LAST);
  const before = await digestOf(store);
  const run = await store.ranges.run(its);
  await commitThrough(run, chain, 15);
  await run.commit({ blocks: [chain[16]!], latestIndexedHeight: 15 });
  const crash = new Error('the process ends');
  database.endsAfter(writes, crash);
  const failed = how === 'failed' ? [{ ...its, failures: 2, reason: 'because' }] : [];
  await expect(store.ranges.change({ dropped: [its], failed })).rejects.toBe(crash);
  database.beforeWrite = () => Promise.resolve();
  const again = await storeOver(database, true);
  const next = writes === 0 ? 16 : { dropped: undefined, failed: 11 }[how];
  expect(again.ranges.open().map((open) => open.next)).toEqual(next === undefined ? [] : [next]);
  if (next === undefined) expect(await digestOf(again)).toBe(before);
  for (const each of [range(FIRST, 10), its, range(21, LIVE - 1)]) await fill(again, chain, each);
  const whole = await begin(storeOver(new MemoryDatabase(), true), FIRST, chain);
  expect(await digestOf(again)).toBe(await digestOf(whole));
});

it('a range is one of at most 256 that are open at once', async () => {
  const all = chainWith(0, 601, () => []);
  const store = await begin(storeOver(new MemoryDatabase()), 600, all.slice(600));
  for (let index = 0; index < 256; index += 1) await store.ranges.run({ from: 2 * index, to: 2 * index });
  const one = { from: 599, to: 599 };
  await expect(store.ranges.run(one)).rejects.toThrow('more than 256 ranges would be open');
  await store.ranges.change({ dropped: [{ from: 0, to: 0 }] });
  await fill(store, all, one);
  expect(store.coverage()).toEqual([{ from: 599, to: 600 }]);
});

it('plans whose ids do not ascend are a bug', async () => {
  const store = await liveStore();
  await expect(store.ranges.change({ plans: [plan(1, 2), plan(3, 4)] })).rejects.toThrow('ascend');
});

it('verify tells of each range what is damaged in it, and what no range has', async () => {
  const path = await freshPath();
  const store = await liveStore(path);
  await fill(store, chain, { from: 11, to: 20 });
  await commitThrough(await store.ranges.run({ from: 21, to: 30 }), chain, 24);
  await store.close();
  const blockKey = (height: number): Buffer => keyOf(0x10, height);
  await withRawDatabase(path, async (database) => {
    const stray = await database.get(blockKey(12));
    for (const height of [15, 22, 50]) await database.del(blockKey(height));
    await database.put(blockKey(35), stray);
  });
  const damaged = await verifyAt(path);
  expect(damaged.ranges.map((each) => each.damaged)).toEqual([[range(15)], [range(22)], [range(50)]]);
  expect(damaged.damages).toContainEqual({
    ...{ height: 35, kind: 'unexpected' },
    message: 'entries of height 35: no range of the store has it',
  });
});
