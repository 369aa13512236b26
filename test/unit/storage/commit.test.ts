import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';
import { verifyStore } from '../../../src/storage/index.js';
import type { BlockEntry, LevelIndexStore } from '../../../src/storage/index.js';
import { makeBlock, makeChain, seededCollection } from '../../support/storeBlocks.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { metaFrom, TEST_CHAIN, useStores } from '../../support/storeDirectory.js';
import { digestOf } from '../../support/storeDigest.js';

/** Ten blocks from height 100, every other one with a collection. */
const chain = makeChain(
  100,
  Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? [seededCollection(`c${index}`, 2)] : [])),
);
const at = (height: number): BlockEntry => chain[height - 100]!;

describe('a batch', () => {
  const { open, freshPath } = useStores();

  it('of many large blocks lets others have their turn, one of a few small ones does not', async () => {
    let turns = 0;
    const counting: Clock = {
      now: () => systemClock.now(),
      monotonic: () => systemClock.monotonic(),
      setTimer: (delayMs, callback) => {
        // Others are the store's own pauses.
        if (delayMs === 0) turns += 1;
        return systemClock.setTimer(delayMs, callback);
      },
    };
    const store = await open(await freshPath(), {}, new RecordingLogger(), counting);
    await store.initialise(metaFrom(1));
    const large = makeChain(
      1,
      Array.from({ length: 8 }, (_, index) => [seededCollection(`large ${index}`, 1, 100 * 1024)]),
    );
    await store.commit({ blocks: large.slice(0, 1), latestIndexedHeight: 1 });
    expect(turns).toBe(0);
    await store.commit({ blocks: large.slice(1), latestIndexedHeight: 8 });
    expect(turns).toBe(3);
    for (const { block, collections } of large)
      expect(await store.collectionsByHeight(block.height)).toMatchObject(
        collections.map(({ id }) => ({ id })),
      );
  });
});

describe('what is staged', () => {
  const { open, freshPath, filled } = useStores();

  it('makes no difference to what is stored, whatever of it the next batch carries, also beside a write', async () => {
    const expected = await digestOf(await filled(chain));
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ stages: fc.array(fc.nat({ max: 9 }), { maxLength: 6 }), rewinds: fc.boolean() }),
          {
            minLength: 10,
            maxLength: 10,
          },
        ),
        async (steps) => {
          const store = await open(await freshPath());
          await store.initialise(metaFrom(100));
          for (const [index, { stages, rewinds }] of steps.entries()) {
            const entry = chain[index]!;
            const committed = store.commit({ blocks: [entry], latestIndexedHeight: entry.block.height });
            for (const staged of stages) store.stage(chain[staged]!);
            await committed;
            if (rewinds) await store.rewind(entry.block.height);
          }
          expect(await digestOf(store)).toBe(expected);
          expect(store.latestIndexedHeight()).toBe(109);
          await store.close();
        },
      ),
      { numRuns: 12 },
    );
  });

  it('is carried by the batch that names it, and stored by no other', async () => {
    const path = await freshPath();
    const store = await open(path);
    await store.initialise(metaFrom(100));
    store.stage(at(100));
    store.stage(at(101));
    expect(store.hasHeight(100)).toBe(false);
    await store.commit({ blocks: [at(101), at(100)], latestIndexedHeight: 101 });
    store.stage(at(102));
    await store.commit({ blocks: [at(103)], latestIndexedHeight: 101 });
    store.stage(at(102));
    await store.close();
    const again = await open(path);
    expect(again.blocksAboveWatermark().map(({ height }) => height)).toEqual([103]);
    expect(await again.collection(at(102).collections[0]!.id)).toBeUndefined();
    await again.commit({ blocks: [at(102)], latestIndexedHeight: 103 });
    expect(await digestOf(again)).toBe(await digestOf(await filled(chain.slice(0, 4))));
  });
});

describe('the watermark', () => {
  const { open, freshPath, filled } = useStores();

  const emptyStore = async (): Promise<LevelIndexStore> => {
    const store = await open(await freshPath());
    await store.initialise(metaFrom(100));
    return store;
  };

  it('begins below the first height, also when that is 0', async () => {
    const store = await emptyStore();
    expect(store.latestIndexedHeight()).toBe(99);
    expect(store.latestBlock()).toBeUndefined();
    const path = await freshPath();
    const genesis = await open(path);
    await genesis.initialise(metaFrom(0));
    await genesis.close();
    expect((await open(path)).latestIndexedHeight()).toBe(-1);
  });

  it('moves with the batch, and names the block it stands at', async () => {
    const store = await emptyStore();
    await store.commit({ blocks: [at(100), at(101)], latestIndexedHeight: 101 });
    expect(store.latestIndexedHeight()).toBe(101);
    const { height, id, parentId } = at(101).block;
    expect(store.latestBlock()).toEqual({ height, id, parentId });
    expect(store.hasHeight(100)).toBe(true);
    expect(store.hasHeight(99)).toBe(false);
    expect(store.hasHeight(102)).toBe(false);
  });

  it('hides blocks above a gap until it closes', async () => {
    const store = await emptyStore();
    await store.commit({ blocks: [at(104), at(102)], latestIndexedHeight: 99 });
    expect(store.blocksAboveWatermark().map(({ height }) => height)).toEqual([102, 104]);
    expect(store.hasHeight(102)).toBe(true);
    expect(store.hasHeight(103)).toBe(false);
    expect(await store.blockByHeight(102)).toBeUndefined();
    expect(await store.blockById(at(102).block.id)).toBeUndefined();
    expect(await store.collectionsByHeight(102)).toBeUndefined();
    expect(await store.collection(at(102).collections[0]!.id)).toBeUndefined();
    expect(await store.collectionPlaces(at(102).collections[0]!.id, 5)).toEqual([]);

    await store.commit({ blocks: [at(100), at(101)], latestIndexedHeight: 102 });
    expect(store.blocksAboveWatermark().map(({ height }) => height)).toEqual([104]);
    expect((await store.collection(at(102).collections[0]!.id))?.place.height).toBe(102);
    expect(store.latestBlock()?.id).toBe(at(102).block.id);
  });

  it('answers with the lowest position that is visible', async () => {
    const shared = seededCollection('shared', 1);
    const blocks = makeChain(1, [[], [shared], [shared]]);
    const store = await open(await freshPath());
    await store.initialise(metaFrom(1));
    await store.commit({ blocks: [blocks[0]!, blocks[2]!], latestIndexedHeight: 1 });
    expect(await store.collection(shared.id)).toBeUndefined();
    await store.commit({ blocks: [blocks[1]!], latestIndexedHeight: 2 });
    expect(await store.collectionPlaces(shared.id, 5)).toEqual([{ height: 2, collectionIndex: 0 }]);
  });

  it('survives a reopen, blocks above the gap included', async () => {
    const path = await freshPath();
    const store = await open(path);
    await store.initialise(metaFrom(100));
    await store.commit({ blocks: [at(100), at(101), at(104), at(103)], latestIndexedHeight: 101 });
    await store.close();
    const again = await open(path);
    expect(again.latestIndexedHeight()).toBe(101);
    expect(again.latestBlock()?.id).toBe(at(101).block.id);
    expect(again.blocksAboveWatermark().map(({ id }) => id)).toEqual([at(103).block.id, at(104).block.id]);
    expect(again.meta()).toEqual(metaFrom(100));
    await again.commit({ blocks: [at(102)], latestIndexedHeight: 104 });
    expect(again.latestBlock()?.id).toBe(at(104).block.id);
  });

  it('may advance over durable blocks alone', async () => {
    const store = await emptyStore();
    await store.commit({ blocks: [at(100), at(101)], latestIndexedHeight: 99 });
    await store.commit({ blocks: [], latestIndexedHeight: 101 });
    expect(store.latestBlock()?.id).toBe(at(101).block.id);
  });

  it('records a spork with the block that begins it, once', async () => {
    const path = await freshPath();
    const store = await filled(chain.slice(0, 2), path);
    const spork = { rootHeight: 102, sporkId: 'bb' };
    await store.commit({ blocks: [at(102)], latestIndexedHeight: 102, spork });
    await store.commit({ blocks: [at(103)], latestIndexedHeight: 103, spork });
    await store.close();
    const sporks = [{ rootHeight: 100, sporkId: 'aa' }, spork];
    expect((await open(path)).meta()?.sporks).toEqual(sporks);
  });

  it('records sporks in ascending order, whichever root is durable first', async () => {
    const path = await freshPath();
    const store = await filled(chain.slice(0, 2), path);
    const earlier = { rootHeight: 102, sporkId: 'bb' };
    const later = { rootHeight: 104, sporkId: 'cc' };
    await store.commit({ blocks: [at(104)], latestIndexedHeight: 101, spork: later });
    await store.commit({ blocks: [at(102), at(103)], latestIndexedHeight: 104, spork: earlier });
    await store.close();
    const sporks = [{ rootHeight: 100, sporkId: 'aa' }, earlier, later];
    expect((await open(path)).meta()?.sporks).toEqual(sporks);
  });

  it('takes a spork root whose parent the spork table confirms, and verify agrees', async () => {
    const path = await freshPath();
    const store = await filled(chain.slice(0, 2), path);
    const rootParentId = makeChain(300, [[]])[0]!.block.id;
    const root = makeBlock(102, rootParentId, []);
    const unconfirmed = { blocks: [root], latestIndexedHeight: 102 };
    await expect(store.commit(unconfirmed)).rejects.toThrow('not a child of the stored block');
    const spork = { rootHeight: 102, sporkId: 'bb', rootParentId };
    await store.commit({ ...unconfirmed, spork });
    await store.close();
    const report = await verifyStore({ path, chainId: TEST_CHAIN }, { logger: silentLogger });
    expect(report.damages).toEqual([]);
    expect((await open(path)).meta()?.sporks.at(-1)).toEqual(spork);
  });
});

describe('a commit refuses', () => {
  const { filled, open, freshPath } = useStores();

  it.each<[string, (store: LevelIndexStore) => Promise<void>, RegExp]>([
    [
      'a watermark that goes down',
      (store) => store.commit({ blocks: [], latestIndexedHeight: 100 }),
      /from 101 down to 100/,
    ],
    [
      'a watermark past a missing height',
      (store) => store.commit({ blocks: [at(103)], latestIndexedHeight: 103 }),
      /height 102, which is missing/,
    ],
    [
      'a height that is indexed',
      (store) => store.commit({ blocks: [at(101)], latestIndexedHeight: 101 }),
      /height 101 is durable already/,
    ],
    [
      'a height twice',
      (store) => store.commit({ blocks: [at(102), at(102)], latestIndexedHeight: 102 }),
      /height 102 is durable already/,
    ],
    [
      'a block that is no child of the one below',
      (store) => store.commit({ blocks: [makeBlock(102, at(100).block.id, [])], latestIndexedHeight: 102 }),
      /height 102 is not a child/,
    ],
    [
      'a block that is no parent of the one above',
      async (store) => {
        await store.commit({ blocks: [at(103)], latestIndexedHeight: 101 });
        const other = makeBlock(102, at(101).block.id, [seededCollection('other', 1)]);
        const block = { ...other.block, id: at(100).block.id };
        await store.commit({ blocks: [{ ...other, block }], latestIndexedHeight: 103 });
      },
      /height 103 is not a child/,
    ],
    [
      'a collection too few',
      (store) => store.commit({ blocks: [{ ...at(102), collections: [] }], latestIndexedHeight: 102 }),
      /height 102 are not the guaranteed ones/,
    ],
    [
      'another collection than the guaranteed one',
      (store) =>
        store.commit({
          blocks: [{ ...at(102), collections: [seededCollection('other', 1)] }],
          latestIndexedHeight: 102,
        }),
      /height 102 are not the guaranteed ones/,
    ],
    [
      'a spork below the one that the watermark is in',
      (store) =>
        store.commit({
          blocks: [at(102)],
          latestIndexedHeight: 102,
          spork: { rootHeight: 50, sporkId: 'cc' },
        }),
      /not above the one that the watermark is in/,
    ],
  ])('%s', async (_, commit, message) => {
    const store = await filled(chain.slice(0, 2));
    await expect(commit(store)).rejects.toThrow(message);
    expect(store.latestIndexedHeight()).toBe(101);
    expect(store.hasHeight(102)).toBe(false);
  });

  it('a second commit while one is under way', async () => {
    const store = await filled(chain.slice(0, 2));
    const first = store.commit({ blocks: [at(102)], latestIndexedHeight: 102 });
    await expect(store.commit({ blocks: [at(103)], latestIndexedHeight: 102 })).rejects.toThrow(/under way/);
    await first;
    expect(store.latestIndexedHeight()).toBe(102);
  });

  it('a store that is not initialised, and to initialise twice', async () => {
    const store = await open(await freshPath());
    await expect(store.commit({ blocks: [], latestIndexedHeight: 0 })).rejects.toThrow(/not initialised/);
    await store.initialise(metaFrom(1));
    await expect(store.initialise(metaFrom(1))).rejects.toThrow(/initialised already/);
  });

  it('nothing of a commit that close() overtakes is lost', async () => {
    const path = await freshPath();
    const store = await filled(chain.slice(0, 2), path);
    const commit = store.commit({ blocks: [at(102)], latestIndexedHeight: 102 });
    await store.close();
    await commit;
    expect((await open(path)).latestIndexedHeight()).toBe(102);
  });
});

describe('the stored bytes', () => {
  const { open, freshPath } = useStores();

  /** The store after the chain was committed in these groups; the watermark follows as far as it can. */
  const digestAfter = async (groups: readonly (readonly BlockEntry[])[]): Promise<string> => {
    const store = await open(await freshPath(), { chainId: TEST_CHAIN });
    await store.initialise(metaFrom(100));
    const durable = new Set<number>();
    let latestIndexedHeight = 99;
    for (const blocks of groups) {
      for (const { block } of blocks) durable.add(block.height);
      while (durable.has(latestIndexedHeight + 1)) latestIndexedHeight += 1;
      await store.commit({ blocks, latestIndexedHeight });
    }
    expect(store.latestIndexedHeight()).toBe(109);
    const digest = await digestOf(store);
    await store.close();
    return digest;
  };

  it('are the same in whatever order and groups the blocks were committed', async () => {
    const reference = await digestAfter([chain]);
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(chain, { minLength: chain.length }),
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 10, maxLength: 10 }),
        async (order, sizes) => {
          const groups: BlockEntry[][] = [];
          for (let next = 0; next < order.length;) {
            const size = sizes[groups.length % sizes.length]!;
            groups.push(order.slice(next, next + size));
            next += size;
          }
          expect(await digestAfter(groups)).toBe(reference);
        },
      ),
      { numRuns: 6 },
    );
  });

  it('come out in key order', async () => {
    const store = await open(await freshPath());
    await store.initialise(metaFrom(100));
    await store.commit({ blocks: chain, latestIndexedHeight: 109 });
    const keys: Buffer[] = [];
    for await (const [key] of store.entries()) keys.push(Buffer.from(key));
    expect(keys.length).toBeGreaterThan(30);
    expect(keys).toEqual(keys.toSorted((left, right) => Buffer.compare(left, right)));
  });
});
