import { describe, expect, it } from 'vitest';
import { toIdentifier } from '../../../src/flow/index.js';
import { seededRandom } from '../seededRandom.js';
import { ParentLinkError, rangesInWords, sharedRangesOf } from '../../../src/storage/index.js';
import type { BlockEntry, HeightRange, IndexStore } from '../../../src/storage/index.js';
import { batchOf, chainWith, makeBlock, seededCollection, transactionIdsOf } from '../storeBlocks.js';
import { begin } from '../storeDirectory.js';
import type { StoreHome, StoreKind } from '../storeKinds.js';
import { blocksIn, commitThrough, fill, heal, plan, range } from '../ranges.js';
import { matching, refusal } from '../refusal.js';

const FIRST = 100;
const shared = seededCollection('shared', 2);
const chain = chainWith(FIRST, 100, (index) => {
  if (index % 10 === 3) return [shared];
  return index % 3 === 0 ? [seededCollection(`of ${index}`, 1 + (index % 2))] : [];
});
const blocksOf = (its: HeightRange): BlockEntry[] => blocksIn(chain, its);
const at = (height: number): BlockEntry => chain[height - FIRST]!;

/** What holds of ranges in the store of every kind. */
export function rangeSuite({ name, use }: StoreKind): void {
  describe(`ranges in the store on ${name}`, { timeout: 120_000 }, () => {
    const newHome = use();

    /** A store whose live range is 180 to 189. */
    const begun = async (home?: StoreHome): Promise<IndexStore> =>
      begin((home ?? (await newHome())).open({ accounts: true }), 180, blocksOf(range(180, 189)));

    it('that fill a hole can be given up, however many of its heights are filled', async () => {
      const store = await begun();
      const hole = range(183, 185);
      const heights = [181, 182, 183, 184, 185, 186];
      const read = () => Promise.all(heights.map((height) => store.wholeBlock(height)));
      const before = await read();
      for (const count of [0, 1, 2]) {
        await store.heal([hole]);
        for (const failures of [1, 0]) {
          const run = await store.ranges.run(hole);
          if (count > 0) await commitThrough(run, chain, 182 + count);
          store.ranges.release(run);
          const failed = failures > 0 ? [{ ...hole, failures }] : [];
          await store.ranges.change({ dropped: [hole], failed });
          expect(store.healing(), `${count} filled`).toEqual([hole]);
        }
        await fill(store, chain, hole);
        expect([store.healing(), store.coverage()], `${count} filled`).toEqual([[], [range(180, 189)]]);
        expect(await read(), `${count} filled`).toEqual(before);
      }
      expect((await store.check(range(180, 189))).damages).toEqual([]);
    });

    it('stand where they were written to, whatever is read meanwhile', async () => {
      const store = await begun();
      const run = await store.ranges.run(range(120, 129));
      const book = sharedRangesOf(store);
      const reading = new Set<Promise<unknown>>();
      for (let height = 120; height < 129; height += 1) {
        const commit = run.commit(batchOf(at(height)));
        for (let reads = 0; reads < 5; reads += 1) reading.add(book?.read() ?? Promise.resolve());
        await commit;
        for (const read of reading) {
          expect(store.ranges.open()).toMatchObject([{ from: 120, next: height + 1 }]);
          await read;
          reading.delete(read);
        }
        expect(store.ranges.open()).toMatchObject([{ from: 120, next: height + 1 }]);
      }
    });

    it('are seen when they are whole, and not before', async () => {
      const store = await begun();
      const run = await store.ranges.run(range(120, 129));
      const begin = [run.meta()?.firstHeight, run.latestIndexedHeight(), run.latestBlock()];
      expect(begin).toEqual([120, 119, undefined]);
      await run.commit({ blocks: [at(120), at(121), at(123)], latestIndexedHeight: 121 });
      expect(run.latestBlock()?.id).toBe(at(121).block.id);
      expect(run.blocksAboveWatermark().map(({ height }) => height)).toEqual([123]);
      expect([120, 122, 123].filter((height) => run.hasHeight(height))).toEqual([120, 123]);
      expect((await run.blockByHeight(121))?.block.id).toBe(at(121).block.id);
      expect(await store.blockByHeight(121)).toBeUndefined();
      expect(await store.blockById(at(121).block.id)).toBeUndefined();
      expect(await store.places('collection', shared.id, 9)).toMatchObject([
        { height: 183, collectionIndex: 0 },
      ]);
      const open = { from: 120, to: 129, next: 122, failures: 0, reason: undefined };
      expect(store.ranges.open()).toEqual([open]);
      await commitThrough(run, chain, 129);
      expect(store.ranges.open()).toEqual([]);
      expect(store.coverage()).toEqual([range(120, 129), range(180, 189)]);
      expect((await store.blockById(at(121).block.id))?.block.height).toBe(121);
      expect((await store.places('collection', shared.id, 9)).map(({ height }) => height)).toEqual([
        123, 183,
      ]);
      const [id] = transactionIdsOf(at(120).collections[0] ?? at(123).collections[0]!);
      expect((await store.item('transaction', id!))?.place.height).toBeLessThan(130);
      expect([store.meta()?.firstHeight, store.latestIndexedHeight()]).toEqual([180, 189]);
    });

    it('are filled beside each other and beside the live range', async () => {
      const store = await begun();
      const ranges = [range(100, 119), range(120, 139), range(140, 159), range(160, 179)];
      const live = async (): Promise<void> => {
        for (const block of blocksOf(range(190, 199))) await store.commit(batchOf(block));
      };
      const inSteps = async (its: HeightRange): Promise<void> => {
        const run = await store.ranges.run(its);
        for (let to = its.from + 4; to <= its.to; to += 5) await commitThrough(run, chain, to);
      };
      await Promise.all([live(), ...ranges.map(inSteps)]);
      expect(store.coverage()).toEqual([range(100, 199)]);
      for (const { block } of chain)
        expect((await store.blockByHeight(block.height))?.block.id).toBe(block.id);
    });

    it.each([
      ['below', range(130, 139), false],
      ['newly below', range(130, 139), true],
      ['newly above', range(110, 119), true],
    ])('that do not link to the block %s them are refused, and not written', async (_, its, isNew) => {
      const store = await begun();
      const other = seededCollection('of another chain', 1);
      const before = isNew ? await store.ranges.run(its) : undefined;
      await fill(store, chain, range(120, 129));
      const run = before ?? (await store.ranges.run(its));
      const blocks: BlockEntry[] = [];
      for (let height = its.from; height <= its.to; height += 1) {
        const parentId = blocks.at(-1)?.block.id ?? toIdentifier(Buffer.alloc(32, 5));
        blocks.push(makeBlock(height, parentId, [other]));
      }
      const height = its.from === 130 ? 130 : 120;
      const parentId = height === 130 ? blocks[0]?.block.parentId : at(119).block.id;
      const lowerId = height === 130 ? at(129).block.id : blocks.at(-1)?.block.id;
      const message = `block ${height} names the parent ${parentId}, but the block below it is ${lowerId}`;
      const failure = run.commit({ blocks, latestIndexedHeight: its.to });
      await expect(failure).rejects.toBeInstanceOf(ParentLinkError);
      await expect(failure).rejects.toMatchObject({ height, message: matching(message) });
      expect(store.coverage()).toEqual([range(120, 129), range(180, 189)]);
      await store.ranges.change({ dropped: [its] });
      const again = await store.ranges.run(its);
      expect(again.latestBlock()?.id).toBe(height === 130 ? at(129).block.id : undefined);
      await commitThrough(again, chain, its.to);
      expect(store.ranges.open()).toEqual([]);
      expect(store.coverage()).toHaveLength(2);
      expect(await store.item('collection', other.id)).toBeUndefined();
    });

    it('that fail are remembered with the reason; dropped ones are filled anew, or forgotten', async () => {
      const home = await newHome();
      const store = await begun(home);
      const [one, two, unbegun] = [range(120, 129), range(140, 149), range(160, 164)];
      for (const its of [one, two]) {
        const run = await store.ranges.run(its);
        await run.commit({ blocks: [at(its.from), at(its.from + 3)], latestIndexedHeight: its.from });
      }
      const failed = [one, unbegun].map((its) => ({ ...its, failures: 2, reason: 'nodes disagree' }));
      await store.ranges.change({ dropped: [unbegun] });
      await store.ranges.change({ failed, dropped: [one, two, unbegun] });
      const remembered = failed.map((each) => ({ ...each, next: each.from }));
      expect(store.ranges.open()).toEqual(remembered);
      await store.close();
      const again = await home.open();
      expect(again.ranges.open()).toEqual(remembered);
      const run = await again.ranges.run(one);
      expect([run.hasHeight(120), run.hasHeight(123)]).toEqual([false, false]);
      await commitThrough(run, chain, one.to);
      await fill(again, chain, two);
      expect(again.coverage()).toEqual([one, two, range(180, 189)]);
    });

    it('bring their sporks along', async () => {
      const home = await newHome();
      const store = await begun(home);
      const run = await store.ranges.run(range(120, 129));
      const spork = { rootHeight: 125, sporkId: 'older' };
      await run.commit({ blocks: blocksOf(range(120, 125)), latestIndexedHeight: 125, sporks: [spork] });
      expect(run.meta()?.sporks).toEqual([spork, { rootHeight: 180, sporkId: 'aa' }]);
      expect(store.meta()?.sporks).toEqual([{ rootHeight: 180, sporkId: 'aa' }]);
      await store.close();
      const again = await home.open();
      const next = await again.ranges.run(range(120, 129));
      expect(next.meta()?.sporks).toContainEqual(spork);
      await commitThrough(next, chain, 129);
      expect(again.meta()?.sporks).toEqual([spork, { rootHeight: 180, sporkId: 'aa' }]);
    });

    it('are planned; a plan ends with its last hole', async () => {
      const home = await newHome();
      const store = await begun(home);
      const plans = [plan(1, 120, 139), { ...plan(2, 100, 109), order: 'oldest' as const, isPaused: true }];
      await store.ranges.change({ plans });
      expect(store.ranges.plans()).toEqual(plans);
      await fill(store, chain, range(120, 129));
      await store.close();
      const again = await home.open();
      expect(again.ranges.plans()).toEqual(plans);
      await fill(again, chain, range(130, 139));
      expect(again.ranges.plans()).toEqual(plans.slice(1));
      await again.ranges.change({ plans: [plan(3, 122, 138)] });
      expect(again.ranges.plans()).toEqual([]);
      await expect(again.ranges.change({ plans: [plan(1, 9, 8)] })).rejects.toThrow('no heights');
    });

    /** From 120 to 129, from 140 to 149 and the live one, two that are open, and a plan of what lies between. */
    const several = async (home?: StoreHome): Promise<IndexStore> => {
      const store = await begun(home);
      for (const its of [range(120, 129), range(140, 149)]) await fill(store, chain, its);
      for (const its of [range(100, 103), range(150, 159)])
        await commitThrough(await store.ranges.run(its), chain, its.from + 1);
      await store.ranges.change({ plans: [plan(1, 100, 179)] });
      return store;
    };

    it('below a rewind of the live one are left alone, and so are their runs', async () => {
      const store = await several();
      const run = await store.ranges.run(range(150, 159));
      await store.rewind(185);
      expect(store.coverage()).toEqual([range(120, 129), range(140, 149), range(180, 185)]);
      await commitThrough(run, chain, 155);
      await expect(store.rewind(99)).rejects.toMatchObject(refusal('usage', '140 to 149 and 180 to 185'));
      await store.rewind(180);
      await heal(store, chain);
      expect(store.coverage()).toEqual([range(100, 199)]);
    });

    it.each([
      [179, '120 to 129 and 140 to 149', 149],
      [145, '120 to 129 and 140 to 145', 145],
      [135, '120 to 129', 129],
    ])('above a rewind to %i go, and the highest below it is the live one: %s', async (height, left, top) => {
      const home = await newHome();
      const store = await several(home);
      await store.rewind(height);
      expect(rangesInWords(store.coverage())).toBe(left);
      expect([store.latestIndexedHeight(), store.latestBlock()?.height]).toEqual([top, top]);
      expect(store.ranges.open()).toMatchObject([{ from: 100, to: 103, next: 102 }]);
      expect(store.ranges.plans()).toEqual([plan(1, 100, top)]);
      await store.close();
      expect(await home.verified()).toMatchObject({ damages: [] });
      const again = await home.open();
      await heal(again, chain);
      expect(again.coverage()).toEqual([range(100, 199)]);
      while ((again.accounts.coverage()?.missingHeights ?? 0) > 0) await again.accounts.extend();
      await again.close();
      expect(await home.verified()).toMatchObject({ damages: [] });
    });

    it('cannot be begun in the way of others, too long, of no heights, or before there is a live one', async () => {
      const store = await begun();
      await fill(store, chain, range(120, 129));
      await store.ranges.run(range(150, 159));
      for (const [why, its] of [
        ['not below the live range', range(175, 185)],
        ['covered in part', range(125, 135)],
        ['overlaps an open one', range(145, 155)],
        ['too long', range(0, 1_000)],
        ['none', range(105, 104)],
        ['below height 0', range(-1, 5)],
      ] as const)
        await expect(store.ranges.run(its), why).rejects.toThrow();
      expect(store.ranges.open()).toHaveLength(1);
      const empty = await begin((await newHome()).open(), 180);
      await expect(empty.ranges.run(range(120, 129))).rejects.toThrow('live');
    });

    it('cover what was filled, in whatever order and with however many restarts', async () => {
      const random = seededRandom(11);
      const home = await newHome();
      let store = await begun(home);
      const waiting = Array.from({ length: 16 }, (_, index) => range(100 + 5 * index, 104 + 5 * index));
      const filled = new Set<number>();
      while (waiting.length > 0) {
        const [its] = waiting.splice(Math.floor(random.next() * waiting.length), 1);
        if (its === undefined) break;
        const run = await store.ranges.run(its);
        const half = its.from + 2;
        await commitThrough(run, chain, half);
        if (random.next() < 0.2) {
          await store.close();
          store = await home.open();
          waiting.push(its);
          expect(store.ranges.open()).toContainEqual(
            expect.objectContaining({ from: its.from, next: half + 1 }),
          );
          await store.ranges.change({ dropped: [its] });
          continue;
        }
        await commitThrough(run, chain, its.to);
        for (const { block } of blocksOf(its)) filled.add(block.height);
        const covered = (height: number): boolean =>
          store.coverage().some(({ from, to }) => height >= from && height <= to);
        for (let height = 100; height < 180; height += 1) expect(covered(height)).toBe(filled.has(height));
      }
      expect(store.coverage()).toEqual([range(100, 189)]);
      await store.close();
      store = await home.open();
      expect([store.coverage(), store.meta()?.firstHeight]).toEqual([[range(100, 189)], 100]);
      expect(await store.places('collection', shared.id, 99)).toHaveLength(9);
      await store.commit(batchOf(at(190)));
      for (const { block } of blocksOf(range(100, 190)))
        expect((await store.blockById(block.id))?.block.height).toBe(block.height);
    });
  });
}
