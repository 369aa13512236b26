import { describe, expect, it } from 'vitest';
import { BorderError, rangesInWords } from '../../../src/storage/index.js';
import type { BackfillPlan, LevelIndexStore } from '../../../src/storage/index.js';
import { blocksIn, commitThrough, fill, heal, range } from '../../support/ranges.js';
import { MemoryDatabase } from '../../support/memoryDatabase.js';
import { chainWith, makeCollection, makeTransaction, seededCollection } from '../../support/storeBlocks.js';
import {
  begin,
  keyOf,
  metaFrom,
  sealed,
  storeOver,
  useStores,
  verifyAt,
  withRawDatabase,
} from '../../support/storeDirectory.js';
import { digestOf } from '../../support/storeDigest.js';

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
const plan = (from: number, to: number, changed: Partial<BackfillPlan> = {}): BackfillPlan => ({
  ...{ id: 1, from, to, order: 'newest', isPaused: false },
  ...changed,
});

const { freshPath, filled, open } = useStores();

const liveStore = (path?: string): Promise<LevelIndexStore> =>
  filled(blocksIn(chain, { from: LIVE, to: LAST }), path);

async function expectSound(path: string): Promise<void> {
  expect((await verifyAt(path)).damages).toEqual([]);
}

describe('a range', () => {
  it('is compared with a neighbour that was published while it was filled', async () => {
    const store = await liveStore();
    // It begins lower, so each of its blocks has another id.
    const other = chainWith(FIRST - 1, LIVE, () => [seededCollection('other', 2)]);
    const upper = await store.ranges.run({ from: 21, to: 30 });
    await commitThrough(upper, chain, 29);
    await fill(store, other, { from: 11, to: 20 });
    const failure = await commitThrough(upper, chain, 30).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(BorderError);
    const [parentId, lowerId] = [chain[19]!.block.id, other[20]!.block.id];
    const message = `block 21 names the parent ${parentId}, but the block below it is ${lowerId}`;
    expect(failure).toMatchObject({ height: 21, message: expect.stringContaining(message) as string });
    expect(upper.latestIndexedHeight()).toBe(29);
  });

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

  it.each([12, 14])(
    'loses what is above its watermark, and is dropped, without a trace of a damaged block (height %i)',
    async (height) => {
      const { before, store } = await withDamageAt(height);
      const run = await store.ranges.run({ from: 11, to: 20 });
      await run.forgetAbove();
      expect([run.latestIndexedHeight(), run.hasHeight(17)]).toEqual([15, false]);
      await store.ranges.change({ dropped: [{ from: 11, to: 20 }] });
      expect(await digestOf(store)).toBe(before);
    },
  );

  it.each([15, 17])(
    'begins anew when its block of height %i is damaged as the store opens',
    async (height) => {
      const { before, path, store } = await withDamageAt(height);
      expect(store.ranges.open()).toEqual([]);
      expect(await digestOf(store)).toBe(before);
      await store.close();
      await expectSound(path);
    },
  );

  it('that was never begun can be dropped, and is remembered when it fails', async () => {
    const store = await begin(storeOver(new MemoryDatabase()), LIVE, blocksIn(chain, range(LIVE, LAST)));
    const its = range(11, 20);
    await store.ranges.change({ dropped: [its] });
    expect(store.ranges.open()).toEqual([]);
    const failed = { ...its, failures: 1, reason: 'because' };
    await store.ranges.change({ failed: [failed] });
    expect(store.ranges.open()).toEqual([{ ...failed, next: 11 }]);
  });

  const ended = ['dropped', 'failed', 'cut'].flatMap((how) =>
    [0, 1, 2].map((writes) => [how, writes] as const),
  );
  it.each(ended)(
    'that is %s by a process that ends after %i writes of that is so at the next open',
    async (how, writes) => {
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
      const act = how === 'cut' ? run.forgetAbove() : store.ranges.change({ dropped: [its], failed });
      await expect(act).rejects.toBe(crash);
      database.beforeWrite = () => Promise.resolve();
      const again = await storeOver(database, true);
      const next = writes === 0 ? 16 : { dropped: undefined, failed: 11, cut: 16 }[how];
      expect(again.ranges.open().map((open) => open.next)).toEqual(next === undefined ? [] : [next]);
      if (next === undefined) expect(await digestOf(again)).toBe(before);
      if (writes > 0 && how === 'cut') expect(await again.blockByHeight(17)).toBeUndefined();
      for (const each of [range(FIRST, 10), its, range(21, LIVE - 1)]) await fill(again, chain, each);
      const whole = await begin(storeOver(new MemoryDatabase(), true), FIRST, chain);
      expect(await digestOf(again)).toBe(await digestOf(whole));
    },
  );

  it('is one of at most 256 that are open at once', async () => {
    const all = chainWith(0, 601, () => []);
    const store = await begin(storeOver(new MemoryDatabase()), 600, all.slice(600));
    for (let index = 0; index < 256; index += 1) await store.ranges.run({ from: 2 * index, to: 2 * index });
    const one = { from: 599, to: 599 };
    await expect(store.ranges.run(one)).rejects.toThrow('more than 256 ranges would be open');
    await store.ranges.change({ dropped: [{ from: 0, to: 0 }] });
    await fill(store, all, one);
    expect(store.coverage()).toEqual([{ from: 599, to: 600 }]);
  });

  it('keeps no spork of its own that the store has by now', async () => {
    const store = await liveStore();
    const sporkOf = () => ({ rootHeight: 11, sporkId: 'bb' });
    const ownSporks = async (): Promise<unknown> => {
      for await (const [, value] of store.entries()) {
        const [, list] = /"sporks":(\[[^\]]*\])/.exec(Buffer.from(value).toString('latin1')) ?? [];
        if (Buffer.from(value).includes('"next":') && list !== undefined) return JSON.parse(list) as unknown;
      }
      return 'no open range';
    };
    const run = await store.ranges.run({ from: 11, to: 20 });
    await run.commit({ blocks: [chain[10]!], latestIndexedHeight: 11, spork: sporkOf() });
    expect(await ownSporks()).toEqual([sporkOf()]);
    const other = await store.ranges.run({ from: 31, to: 31 });
    await other.commit({ blocks: [chain[30]!], latestIndexedHeight: 31, spork: sporkOf() });
    expect(store.meta()?.sporks).toContainEqual(sporkOf());
    await run.commit({ blocks: [chain[11]!], latestIndexedHeight: 12 });
    expect(await ownSporks()).toEqual([]);
  });

  it('says more of a spork that the store has, and of no other', async () => {
    const store = await open(await freshPath());
    const [first, second] = [FIRST, LIVE].map((rootHeight) => ({ rootHeight, sporkId: 'aa' }));
    const confirmed = { rootHeight: LIVE, sporkId: 'aa', rootParentId: chain[LIVE - 2]!.block.id };
    await store.initialise(metaFrom(LIVE, { sporks: [first!, second!] }));
    await store.commit({ blocks: [chain[LIVE - 1]!], latestIndexedHeight: LIVE, spork: confirmed });
    expect(store.meta()?.sporks).toEqual([first, confirmed]);
    await store.commit({ blocks: [chain[LIVE]!], latestIndexedHeight: LIVE + 1, spork: second! });
    expect(store.meta()?.sporks).toEqual([first, confirmed]);
    const run = await store.ranges.run({ from: 1, to: 40 });
    const early = { rootHeight: FIRST, sporkId: 'aa', rootParentId: chain[0]!.block.parentId };
    await run.commit({ blocks: [chain[0]!], latestIndexedHeight: 1, spork: early });
    await commitThrough(run, chain, 40);
    expect(store.meta()?.sporks).toEqual([early, confirmed]);
  });
});

it('plans whose ids do not ascend are a bug', async () => {
  const store = await liveStore();
  await expect(store.ranges.change({ plans: [plan(1, 2), plan(3, 4)] })).rejects.toThrow('ascend');
});

describe('a rewind', () => {
  const manyRanges = async (path?: string): Promise<LevelIndexStore> => {
    const store = await begin(open(path ?? (await freshPath()), { accounts: true }), LIVE);
    await commitThrough(store, chain, LAST);
    for (const its of [range(5, 10), range(21, 30)]) await fill(store, chain, its);
    await commitThrough(await store.ranges.run({ from: 1, to: 3 }), chain, 2);
    await commitThrough(await store.ranges.run({ from: 31, to: 38 }), chain, 33);
    await store.ranges.change({ plans: [plan(1, 40)] });
    return store;
  };

  it('within the live range leaves the others alone, and their runs', async () => {
    const store = await manyRanges();
    const run = await store.ranges.run({ from: 31, to: 38 });
    await store.rewind(50);
    expect(store.coverage()).toEqual([range(5, 10), range(21, 30), range(LIVE, 50)]);
    await commitThrough(run, chain, 35);
    await store.rewind(40 + 1);
    await commitThrough(store, chain, LAST);
    await heal(store, chain);
    expect(store.coverage()).toEqual([{ from: 1, to: LAST }]);
  });

  it.each([
    [40, '5 to 10 and 21 to 30', 30],
    [30, '5 to 10 and 21 to 30', 30],
    [25, '5 to 10 and 21 to 25', 25],
    [15, '5 to 10', 10],
    [7, '5 to 7', 7],
  ])('to height %i makes the range there the live one: %s', async (height, ranges, top) => {
    const path = await freshPath();
    const store = await manyRanges(path);
    await store.rewind(height);
    expect(rangesInWords(store.coverage())).toBe(ranges);
    expect([store.latestIndexedHeight(), store.latestBlock()?.height]).toEqual([top, top]);
    expect(store.ranges.open()).toMatchObject([{ from: 1, to: 3, next: 3 }]);
    expect(store.ranges.plans()).toEqual([plan(1, top)]);
    await store.close();
    await expectSound(path);
    const again = await open(path, { accounts: true });
    await heal(again, chain);
    expect(again.coverage()).toEqual([{ from: 1, to: LAST }]);
    while ((again.accounts.coverage()?.missingHeights ?? 0) > 0) await again.accounts.extend();
    expect(again.accounts.coverage()).toMatchObject({ from: 1 });
    await again.close();
    await expectSound(path);
  });
});

it('verify of ranges tells what it found of each, and names what is missing', async () => {
  const path = await freshPath();
  const store = await liveStore(path);
  await fill(store, chain, { from: 11, to: 20 });
  const run = await store.ranges.run({ from: 21, to: 30 });
  await commitThrough(run, chain, 24);
  await run.commit({ blocks: [chain[26]!], latestIndexedHeight: 24 });
  await store.close();
  expect(await verifyAt(path)).toMatchObject({
    damageCount: 0,
    range: { from: 11, to: LAST },
    ranges: [
      { kind: 'published', from: 11, to: 20, blocks: 10, damaged: [] },
      { kind: 'open', from: 21, to: 30, blocks: 5, damaged: [] },
      { kind: 'live', from: LIVE, to: LAST, blocks: LAST - LIVE + 1, damaged: [] },
    ],
  });
  const blockKey = (height: number): Buffer => keyOf(0x10, height);
  await withRawDatabase(path, async (database) => {
    const stray = await database.get(blockKey(12));
    for (const height of [15, 22, 50]) await database.del(blockKey(height));
    await database.put(blockKey(35), stray);
  });
  const damaged = await verifyAt(path);
  const heights = damaged.ranges.map((each) => each.damaged);
  expect(heights).toEqual([[range(15)], [range(22)], [range(50)]]);
  expect(damaged.damages).toContainEqual({
    ...{ height: 35, kind: 'unexpected' },
    message: 'entries of height 35: no range of the store has it',
  });
});
