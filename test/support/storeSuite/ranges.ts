import { describe, expect, it } from 'vitest';
import { toIdentifier } from '../../../src/flow/index.js';
import { seededRandom } from '../seededRandom.js';
import { BorderError, sharedRangesOf } from '../../../src/storage/index.js';
import type { BackfillPlan, BlockEntry, HeightRange, IndexStore } from '../../../src/storage/index.js';
import { batchOf, chainWith, makeBlock, seededCollection, transactionIdsOf } from '../storeBlocks.js';
import { begin } from '../storeDirectory.js';
import type { StoreHome, StoreKind } from '../storeKinds.js';
import { range } from '../ranges.js';
import { refusal } from '../refusal.js';

const FIRST = 100;
const shared = seededCollection('shared', 2);
const chain = chainWith(FIRST, 100, (index) => {
  if (index % 10 === 3) return [shared];
  return index % 3 === 0 ? [seededCollection(`of ${index}`, 1 + (index % 2))] : [];
});
const blocksOf = ({ from, to }: HeightRange): BlockEntry[] => chain.slice(from - FIRST, to - FIRST + 1);
const at = (height: number): BlockEntry => chain[height - FIRST]!;
const plan = (id: number, from: number, to: number): BackfillPlan => ({
  ...{ id, from, to, order: 'newest', isPaused: false },
});

/** What holds of ranges in the store of every kind. */
export function rangeSuite({ name, use }: StoreKind): void {
  describe(`ranges in the store on ${name}`, { timeout: 120_000 }, () => {
    const newHome = use();

    /** A store whose live range is 180 to 189. */
    const begun = async (home?: StoreHome): Promise<IndexStore> => {
      return begin((home ?? (await newHome())).open(), 180, blocksOf(range(180, 189)), 189);
    };

    const fill = async (store: IndexStore, its: HeightRange): Promise<void> => {
      const run = await store.ranges.run(its);
      await run.commit({ blocks: blocksOf(its), latestIndexedHeight: its.to });
    };

    it.each([0, 1, 2])('that fill a hole can be given up with %i of its heights filled', async (count) => {
      const store = await begun();
      const hole = range(183, 185);
      const heights = [181, 182, 183, 184, 185, 186];
      const read = () => Promise.all(heights.map((height) => store.collectionsByHeight(height)));
      const before = await read();
      await store.heal([hole]);
      for (const giveUp of ['fail', 'drop'] as const) {
        const run = await store.ranges.run(hole);
        const filled = range(183, 182 + count);
        if (count > 0) await run.commit({ blocks: blocksOf(filled), latestIndexedHeight: filled.to });
        store.ranges.release(run);
        const failed = giveUp === 'fail' ? [{ ...hole, failures: 1 }] : [];
        await store.ranges.change({ dropped: [hole], failed });
        expect(store.healing()).toEqual([hole]);
      }
      await fill(store, hole);
      expect([store.healing(), store.coverage()]).toEqual([[], [range(180, 189)]]);
      expect(await read()).toEqual(before);
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
      expect(await store.collectionPlaces(shared.id, 9)).toEqual([{ height: 183, collectionIndex: 0 }]);
      const open = { from: 120, to: 129, next: 122, failures: 0, reason: undefined };
      expect(store.ranges.open()).toEqual([open]);
      const rest = blocksOf(range(120, 129)).filter(({ block }) => ![120, 121, 123].includes(block.height));
      await run.commit({ blocks: rest, latestIndexedHeight: 129 });
      expect(store.ranges.open()).toEqual([]);
      expect(store.coverage()).toEqual([range(120, 129), range(180, 189)]);
      expect((await store.blockById(at(121).block.id))?.block.height).toBe(121);
      expect((await store.collectionPlaces(shared.id, 9)).map(({ height }) => height)).toEqual([123, 183]);
      const [id] = transactionIdsOf(at(120).collections[0] ?? at(123).collections[0]!);
      expect((await store.transaction(id!))?.place.height).toBeLessThan(130);
      expect([store.meta()?.firstHeight, store.latestIndexedHeight()]).toEqual([180, 189]);
    });

    it('are filled beside each other and beside the live range', async () => {
      const store = await begun();
      const ranges = [range(100, 119), range(120, 139), range(140, 159), range(160, 179)];
      const live = async (): Promise<void> => {
        for (let height = 190; height < 200; height += 1) {
          await store.commit(batchOf(at(height)));
        }
      };
      const inSteps = async (its: HeightRange): Promise<void> => {
        const run = await store.ranges.run(its);
        for (let from = its.from; from <= its.to; from += 5) {
          await run.commit({ blocks: blocksOf(range(from, from + 4)), latestIndexedHeight: from + 4 });
        }
      };
      await Promise.all([live(), ...ranges.map(inSteps)]);
      expect(store.coverage()).toEqual([range(100, 199)]);
      for (const { block } of chain)
        expect((await store.blockByHeight(block.height))?.block.id).toBe(block.id);
    });

    it.each([
      ['below', range(130, 139), 131],
      ['above', range(110, 119), 119],
    ])('that do not link to the block %s them are refused, and nothing is written', async (_, its, upTo) => {
      const store = await begun();
      await fill(store, range(120, 129));
      const run = await store.ranges.run(its);
      expect(run.latestBlock()?.id).toBe(its.from === 130 ? at(129).block.id : undefined);
      const blocks: BlockEntry[] = [];
      let parentId = toIdentifier(Buffer.alloc(32, 5));
      for (let height = its.from; height <= upTo; height += 1) {
        const entry = makeBlock(height, parentId, [seededCollection('of another chain', 1)]);
        blocks.push(entry);
        parentId = entry.block.id;
      }
      await expect(run.commit({ blocks, latestIndexedHeight: upTo })).rejects.toBeInstanceOf(BorderError);
      expect(store.coverage()).toEqual([range(120, 129), range(180, 189)]);
      await store.ranges.change({ dropped: [its] });
      await fill(store, its);
      expect(store.ranges.open()).toEqual([]);
      expect(store.coverage()).toHaveLength(2);
      expect(await store.collection(seededCollection('of another chain', 1).id)).toBeUndefined();
    });

    it('that fail are remembered with the reason; dropped ones are filled anew, or forgotten', async () => {
      const home = await newHome();
      const store = await begun(home);
      const [one, two] = [range(120, 129), range(140, 149)];
      for (const its of [one, two]) {
        const run = await store.ranges.run(its);
        await run.commit({ blocks: [at(its.from), at(its.from + 3)], latestIndexedHeight: its.from });
      }
      const failed = { ...one, failures: 2, reason: 'nodes disagree' };
      await store.ranges.change({ failed: [failed], dropped: [one, two] });
      expect(store.ranges.open()).toEqual([{ ...failed, next: 120 }]);
      await store.close();
      const again = await home.open();
      expect(again.ranges.open()).toEqual([{ ...failed, next: 120 }]);
      const run = await again.ranges.run(one);
      expect([run.hasHeight(120), run.hasHeight(123)]).toEqual([false, false]);
      await run.commit({ blocks: blocksOf(one), latestIndexedHeight: one.to });
      await fill(again, two);
      expect(again.coverage()).toEqual([one, two, range(180, 189)]);
    });

    it('may lose what is above their watermark', async () => {
      const store = await begun();
      const run = await store.ranges.run(range(120, 129));
      const waiting = () => run.blocksAboveWatermark().map(({ height }) => height);
      await run.commit({ blocks: [at(120), at(121), at(124), at(125)], latestIndexedHeight: 121 });
      expect(waiting()).toEqual([124, 125]);
      for (const _again of [1, 2]) {
        await run.forgetAbove();
        expect([run.latestBlock()?.id, waiting()]).toEqual([at(121).block.id, []]);
        expect([119, 121, 122, 124].filter((height) => run.hasHeight(height))).toEqual([121]);
      }
      await run.commit({ blocks: blocksOf(range(122, 129)), latestIndexedHeight: 129 });
      expect(store.coverage()).toEqual([range(120, 129), range(180, 189)]);
    });

    it('bring their sporks along', async () => {
      const home = await newHome();
      const store = await begun(home);
      const run = await store.ranges.run(range(120, 129));
      const spork = { rootHeight: 125, sporkId: 'older' };
      await run.commit({ blocks: blocksOf(range(120, 125)), latestIndexedHeight: 125, spork });
      expect(run.meta()?.sporks).toEqual([spork, { rootHeight: 180, sporkId: 'aa' }]);
      expect(store.meta()?.sporks).toEqual([{ rootHeight: 180, sporkId: 'aa' }]);
      await store.close();
      const again = await home.open();
      const next = await again.ranges.run(range(120, 129));
      expect(next.meta()?.sporks).toContainEqual(spork);
      await next.commit({ blocks: blocksOf(range(126, 129)), latestIndexedHeight: 129 });
      expect(again.meta()?.sporks).toEqual([spork, { rootHeight: 180, sporkId: 'aa' }]);
    });

    it('are planned; a plan ends with its last hole', async () => {
      const home = await newHome();
      const store = await begun(home);
      const plans = [plan(1, 120, 139), { ...plan(2, 100, 109), order: 'oldest' as const, isPaused: true }];
      await store.ranges.change({ plans });
      expect(store.ranges.plans()).toEqual(plans);
      await fill(store, range(120, 129));
      await store.close();
      const again = await home.open();
      expect(again.ranges.plans()).toEqual(plans);
      await fill(again, range(130, 139));
      expect(again.ranges.plans()).toEqual(plans.slice(1));
      await again.ranges.change({ plans: [plan(3, 122, 138)] });
      expect(again.ranges.plans()).toEqual([]);
      await expect(again.ranges.change({ plans: [plan(1, 9, 8)] })).rejects.toThrow('no heights');
    });

    it('above a rewind go, and where the live one goes the highest below it takes its place', async () => {
      const home = await newHome();
      const store = await begun(home);
      await fill(store, range(120, 129));
      const open = await store.ranges.run(range(150, 159));
      await open.commit(batchOf(at(150)));
      await store.ranges.change({ plans: [plan(1, 110, 170)] });
      await store.rewind(185);
      expect(store.coverage()).toEqual([range(120, 129), range(180, 185)]);
      await expect(store.rewind(119)).rejects.toMatchObject(refusal('usage', '120 to 129 and 180 to 185'));
      await store.rewind(140);
      expect([store.coverage(), store.meta()?.firstHeight]).toEqual([[range(120, 129)], 120]);
      expect(store.ranges.open()).toEqual([]);
      expect(store.ranges.plans()).toEqual([plan(1, 110, 129)]);
      await store.close();
      const again = await home.open();
      expect(again.latestIndexedHeight()).toBe(129);
      await again.commit({ blocks: blocksOf(range(130, 160)), latestIndexedHeight: 160 });
      expect(again.coverage()).toEqual([range(120, 160)]);
    });

    it.each([
      ['not below the live range', range(175, 185)],
      ['covered in part', range(125, 135)],
      ['overlaps an open one', range(145, 155)],
      ['is too long', range(0, 1_000)],
      ['is none', range(105, 104)],
      ['begins below height 0', range(-1, 5)],
    ])('cannot be begun: %s', async (_, its) => {
      const store = await begun();
      await fill(store, range(120, 129));
      await store.ranges.run(range(150, 159));
      await expect(store.ranges.run(its)).rejects.toThrow();
      expect(store.ranges.open()).toHaveLength(1);
    });

    it('cannot be begun before there is a live range', async () => {
      const store = await begin((await newHome()).open(), 180);
      await expect(store.ranges.run(range(120, 129))).rejects.toThrow('live');
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
        await run.commit({ blocks: blocksOf(range(its.from, half)), latestIndexedHeight: half });
        if (random.next() < 0.2) {
          await store.close();
          store = await home.open();
          waiting.push(its);
          const open = store.ranges.open().find(({ from }) => from === its.from);
          expect(open?.next).toBe(half + 1);
          await store.ranges.change({ dropped: [its] });
          continue;
        }
        await run.commit({ blocks: blocksOf(range(half + 1, its.to)), latestIndexedHeight: its.to });
        for (let height = its.from; height <= its.to; height += 1) filled.add(height);
        const covered = (height: number): boolean =>
          store.coverage().some(({ from, to }) => height >= from && height <= to);
        for (let height = 100; height < 180; height += 1) expect(covered(height)).toBe(filled.has(height));
      }
      expect(store.coverage()).toEqual([range(100, 189)]);
      await store.close();
      store = await home.open();
      expect([store.coverage(), store.meta()?.firstHeight]).toEqual([[range(100, 189)], 100]);
      expect(await store.collectionPlaces(shared.id, 99)).toHaveLength(9);
      await store.commit(batchOf(at(190)));
      for (const { block } of blocksOf(range(100, 190))) {
        expect((await store.blockById(block.id))?.block.height).toBe(block.height);
      }
    });
  });
}
