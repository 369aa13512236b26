import { describe, expect, it } from 'vitest';
import { sha3, toIdentifier, ZERO_ID } from '../../../src/flow/index.js';
import { migrateStore } from '../../../src/ranges/index.js';
import { StorageError } from '../../../src/storage/index.js';
import type { BackfillPlan, BlockEntry, HeightRange, IndexStore } from '../../../src/storage/index.js';
import { batchOf, blocksIn, chainWith, commitThrough, evidenceOf, fill } from '../../support/index.js';
import { makeBlock, metaFrom, range, refusal, seededCollection, standIn } from '../../support/index.js';
import { storeKinds } from '../../support/index.js';

const FIRST = 100;
const COUNT = 200;
const ROOT = 180;
const plan = (id: number, from: number, to: number): BackfillPlan => ({
  ...{ id, from, to, order: 'oldest', isPaused: id === 2 },
});
/** The root of the second spork names a parent that is not the block below it. */
const rootParentId = toIdentifier(sha3(Buffer.from('the last block of the spork before, in its own words')));
const chain: BlockEntry[] = [];
for (let height = FIRST; height < FIRST + COUNT; height += 1) {
  const parentId = height === ROOT ? rootParentId : (chain.at(-1)?.block.id ?? ZERO_ID);
  const bodies = height % 3 === 1 ? [seededCollection(`of ${height}`, 1)] : [];
  chain.push(makeBlock(height, parentId, bodies));
}
const blocksOf = (its: HeightRange): BlockEntry[] => blocksIn(chain, its);
const otherBlocks = ({ from, to }: HeightRange) => chainWith(from, to - from + 1, () => []);
const sporks = [
  { rootHeight: FIRST, sporkId: '01' },
  { rootHeight: ROOT, sporkId: '02', rootParentId },
];

/** A live range from 250 to 290, history on both sides of the border, a range that is open, and two plans. */
async function beginSource(store: IndexStore): Promise<IndexStore> {
  await store.initialise({ ...metaFrom(250), sporks });
  await commitThrough(store, chain, 290);
  await store.ranges.change({ plans: [plan(1, 100, 160), plan(2, 200, 240)] });
  for (const its of [range(ROOT, 199), range(161, ROOT - 1), range(110, 120)]) await fill(store, chain, its);
  await commitThrough(await store.ranges.run(range(230, 240)), chain, 233);
  return store;
}
const COVERED = [range(110, 120), range(161, 199), range(250, 290)];

async function contentsOf(store: IndexStore): Promise<unknown> {
  const heights = chain.map(({ block }) => block.height);
  const blocks = await Promise.all(heights.map((height) => store.wholeBlock(height)));
  const { sporks: known, firstHeight } = store.meta()!;
  return { coverage: store.coverage(), known, firstHeight, blocks };
}

const pairs = storeKinds.flatMap((source) =>
  storeKinds.filter((target) => target !== source).map((target) => ({ source, target })),
);

describe.each(pairs)('from $source.name to $target.name, migration', ({ source: from, target: to }) => {
  const newSource = from.use();
  const newTarget = to.use();
  const begin = async () => {
    const source = await beginSource(await (await newSource()).open());
    const home = await newTarget();
    return { source, home, target: await home.open() };
  };
  const copy = (source: IndexStore, target: IndexStore, cutOff?: Error, told: number[] = []) => {
    const controller = new AbortController();
    const onProgress = ({ height }: { readonly height: number }) => {
      told.push(height);
      if (cutOff) controller.abort(cutOff);
    };
    return migrateStore({ source, target, signal: controller.signal, onProgress });
  };

  it('copies every range and plan, and a second run nothing', async () => {
    const { source, target } = await begin();
    const evidence = evidenceOf(blocksOf(range(270))[0]!, true);
    await source.keepEvidence(evidence);
    expect(await copy(source, target)).toEqual({ copied: 91, skipped: 0, plans: 2, coverage: COVERED });
    expect(await contentsOf(target)).toEqual(await contentsOf(source));
    expect(await target.evidence()).toEqual([evidence]);
    expect(target.meta()?.createdBy).toBe(source.meta()?.createdBy);
    expect(target.ranges.plans()).toEqual([plan(1, 100, 160), plan(2, 200, 240)]);
    expect(target.ranges.open()).toEqual([]);
    expect(await copy(source, target)).toMatchObject({ copied: 0, skipped: 91, plans: 0 });
    // What a daemon does next on the target.
    await commitThrough(target, chain, 299);
    await fill(target, chain, range(230, 249));
    expect(target.coverage().at(-1)).toEqual(range(230, 299));
  });

  it('reads a few large blocks at once, and no more', async () => {
    const [source, target] = await Promise.all([(await newSource()).open(), (await newTarget()).open()]);
    const body = seededCollection('large', 2, 2_500_000);
    const large = chainWith(FIRST, 5, () => [body]);
    await source.initialise(metaFrom(FIRST));
    for (const block of large) await source.commit(batchOf(block));
    const told: number[] = [];
    await copy(source, target, undefined, told);
    expect(told).toEqual([103, 104]);
    const onDatabase = from.name === 'PostgreSQL' ? source : target;
    expect((await onDatabase.check(range(FIRST, 104))).damages).toEqual([]);
  });

  it('goes on where it was cut off, after each of its writes', async () => {
    const { source, home, target } = await begin();
    let store = target;
    let runs = 0;
    for (let isDone = false; !isDone; runs += 1) {
      isDone = await copy(source, store, new Error('cut off')).then(
        () => true,
        (error: unknown) => {
          expect(String(error)).toContain('cut off');
          return false;
        },
      );
      await store.close();
      store = await home.open();
    }
    expect(runs).toBeGreaterThan(3);
    expect(await contentsOf(store)).toEqual(await contentsOf(source));
  });

  it('adds to what the target has, and fills what a daemon has begun there', async () => {
    const { source, target } = await begin();
    await target.initialise(metaFrom(270));
    await commitThrough(target, chain, 275);
    await target.commit({ blocks: blocksOf(range(278, 279)), latestIndexedHeight: 275 });
    await commitThrough(await target.ranges.run(range(165, 170)), chain, 166);
    expect(await copy(source, target)).toMatchObject({ copied: 85, skipped: 6, coverage: COVERED });
    expect(target.latestIndexedHeight()).toBe(290);
  });

  it('refuses a target that does not fit, and an empty source, and changes nothing', async () => {
    const source = await beginSource(await (await newSource()).open());
    for (const [why, blocks, error] of [
      ['has other data', otherBlocks(range(250, 259)), refusal('foreign', 'differ at height 250:')],
      ['does not link', otherBlocks(range(200, 249)), refusal('foreign', 'differ at height 250:')],
      ['gets a hole above', blocksOf(range(150, 165)), refusal('usage', 'would leave a hole')],
    ] as const) {
      const target = await (await newTarget()).open();
      const [from, to] = [blocks[0]!.block.height, blocks.at(-1)!.block.height];
      await target.initialise(metaFrom(from));
      await target.commit(batchOf(...blocks));
      await expect(copy(source, target), why).rejects.toMatchObject(error);
      expect(target.coverage(), why).toEqual([range(from, to)]);
    }
    const target = await (await newTarget()).open();
    await expect(copy(await (await newSource()).open(), target)).rejects.toMatchObject({ exit: 'not_found' });
    expect(target.meta()).toBeUndefined();
  });

  it('names the height of a block that is not what it should be, and copies what lies before it', async () => {
    const { source, target } = await begin();
    const { bodies } = (await source.wholeBlock(253))!;
    const forged = standIn<IndexStore>(() => source, {
      wholeBlock: async (height) => {
        const whole = await source.wholeBlock(height);
        return height === 286 ? { ...whole!, bodies: bodies.slice(0, 1) } : whole;
      },
    });
    await expect(copy(forged, target)).rejects.toMatchObject(
      refusal('damage', 'Height 286 of the source is damaged'),
    );
    expect(target.coverage()).toEqual([range(250, 281)]);
    const broken = standIn<IndexStore>(() => source, {
      wholeBlock: (height) =>
        height === 290
          ? Promise.reject(new StorageError('corrupt', 'long', { height, damage: 'its checksum is wrong' }))
          : source.wholeBlock(height),
    });
    await expect(copy(broken, target)).rejects.toThrow(/Height 290 of the source is damaged: its checksum/);
    expect((await copy(source, target)).coverage).toEqual(COVERED);
  });
});
