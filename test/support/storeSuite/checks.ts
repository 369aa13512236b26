import { describe, expect, it } from 'vitest';
import type { HeightRange, VerifyDependencies } from '../../../src/storage/index.js';
import { blocksIn, commitThrough, fill, heal, range } from '../ranges.js';
import { refusal } from '../refusal.js';
import { plainChain } from '../storeBlocks.js';
import { begin } from '../storeDirectory.js';
import type { StoreKind } from '../storeKinds.js';

const FIRST = 10;
const LAST = 49;
const chain = plainChain(FIRST, LAST - FIRST + 2, 2);
const whole = range(FIRST, LAST);
const blocksAt = (heights: HeightRange) => blocksIn(chain, heights);

/** What holds of checks, and of the holes that damage leaves, in the store of every kind. */
export function checkSuite({ name, use }: StoreKind): void {
  describe(`verify of the store on ${name}`, () => {
    const newHome = use();

    /** From 10 to 19, an open range from 22 to 25 of which two are there, from 30 to 38, and two above a gap. */
    const closedAt = [range(10, 19), range(22), range(24), range(30, 38), range(40, 41)];
    const closed = async () => {
      const home = await newHome();
      const store = await begin(home.open(), 30, blocksAt(range(30, 38)));
      await store.commit({ blocks: blocksAt(range(40, 41)), latestIndexedHeight: 38 });
      await fill(store, chain, range(10, 19));
      const run = await store.ranges.run(range(22, 25));
      await run.commit({ blocks: [range(22), range(24)].flatMap(blocksAt), latestIndexedHeight: 22 });
      await store.close();
      return home;
    };

    it('finds nothing in a sound one, nor in a part of it, says what it looked at, and refuses other heights', async () => {
      const home = await closed();
      const bodies = closedAt.flatMap(blocksAt).flatMap(({ collections }) => collections);
      expect(await home.verified()).toEqual({
        ...{ range: range(10, 41), latestIndexedHeight: 38, waiting: { blocks: 2, ...range(40, 41) } },
        ...{ heights: 23, collections: 23, transactions: 46, proven: 0 },
        bytes: bodies.reduce((sum, { encoded }) => sum + encoded.length, 0),
        // On PostgreSQL, entries of accounts as well.
        pointers: expect.any(Number) as number,
        ranges: [
          { kind: 'published', ...range(10, 19), blocks: 10, damaged: [] },
          { kind: 'open', ...range(22, 25), blocks: 2, damaged: [] },
          { kind: 'live', ...range(30, 38), blocks: 9, damaged: [] },
        ],
        ...{ damages: [], damageCount: 0, damagedHeights: [], lostHeights: [] },
      });
      for (const [part, checked, heights] of [
        [{ from: 12, to: 14 }, range(12, 14), 3],
        [{ from: 37 }, range(37, 41), 4],
        [{ to: 10 }, range(10), 1],
      ] as const)
        expect(await home.verified(part)).toMatchObject({ range: checked, heights, damageCount: 0 });
      for (const outside of [{ from: 9 }, { to: 42 }, { from: 13, to: 12 }])
        await expect(home.verified(outside)).rejects.toMatchObject(refusal('usage', 'holds heights'));
    });

    it('takes one in which nothing is yet, where no height can be asked for', async () => {
      const home = await newHome();
      await (await home.open()).close();
      const nothing = { heights: 0, damageCount: 0, range: undefined, waiting: undefined, ranges: [] };
      expect(await home.verified()).toMatchObject({ ...nothing, latestIndexedHeight: undefined });
      await (await begin(home.open(), 0)).close();
      await expect(home.verified({ from: 5 })).rejects.toMatchObject(refusal('usage', 'holds heights none'));
      expect(await home.verified()).toMatchObject({ ...nothing, latestIndexedHeight: -1 });
    });

    it('tells how far it is, and stops when told to', async () => {
      const home = await closed();
      const heights: number[] = [];
      const onProgress: VerifyDependencies['onProgress'] = (progress) => {
        if (progress.phase === 'blocks') heights.push(progress.height);
      };
      await home.verified({}, { onProgress });
      expect(heights).toEqual(closedAt.flatMap(blocksAt).map(({ block }) => block.height));
      const controller = new AbortController();
      const stop = { signal: controller.signal, onProgress: () => controller.abort() };
      await expect(home.verified({}, stop)).rejects.toMatchObject({ name: 'AbortError' });
    });
  });

  describe(`holes in the store on ${name}`, () => {
    const newHome = use();
    const filled = async () => begin((await newHome()).open(), FIRST, blocksAt(whole));

    it('leave the watermark, and what no range has, until the live range has grown', async () => {
      const store = await filled();
      for (const none of [range(LAST), range(1, FIRST - 1)]) expect(await store.heal([none])).toEqual([]);
      expect(store.coverage()).toEqual([whole]);
      expect(await store.heal([range(LAST - 1, LAST + 9)])).toEqual([range(LAST - 1)]);
      expect(await store.heal([range(LAST - 1)])).toEqual([]);
      expect(store.ranges.plans()).toHaveLength(1);
      await commitThrough(store, chain, LAST + 1);
      expect(await store.heal([range(LAST)])).toEqual([range(LAST)]);
      expect(store.healing()).toEqual([range(LAST - 1, LAST)]);
      await heal(store, chain);
      expect(store.coverage()).toEqual([range(FIRST, LAST + 1)]);
    });

    it('are filled, any number of them, while history is planned as well', async () => {
      const store = await filled();
      await store.ranges.change({ plans: [{ id: 3, from: 1, to: 4, order: 'oldest', isPaused: true }] });
      const holes = [range(11, 12), range(14), range(16, 47)];
      await store.heal(holes);
      expect(store.healing()).toEqual(holes);
      const plans = store.ranges.plans().map(({ id, heals = false }) => `${id} ${heals}`);
      expect(plans).toEqual(['3 false', '4 true', '5 true', '6 true']);
      for (const hole of holes.toReversed()) await fill(store, chain, hole);
      expect(store.coverage()).toEqual([whole]);
      expect(store.ranges.plans().map(({ id }) => id)).toEqual([3]);
    });
  });
}
