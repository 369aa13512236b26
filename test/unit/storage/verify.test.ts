import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../support/seededRandom.js';
import { DamageList } from '../../../src/storage/verify/DamageList.js';
import type { BlockEntry, VerifyReport } from '../../../src/storage/index.js';
import {
  chainWith,
  makeBlock,
  makeChain,
  makeCollection,
  makeTransaction,
  seededCollection,
} from '../../support/storeBlocks.js';
import {
  begin,
  heightOf,
  keyOf,
  rawEntries,
  repairAt,
  useStores,
  verifyAt,
  withRawDatabase,
} from '../../support/storeDirectory.js';
import { range } from '../../support/ranges.js';
import { refusal } from '../../support/refusal.js';

const KIB = 1024;
const shared = seededCollection('shared', 2);
/** Empty blocks, empty collections, repeated ids, a body in chunks. Heights 5 to 10. */
const chain = makeChain(5, [
  [shared],
  [],
  [seededCollection('a', 1), makeCollection([]), shared],
  [makeCollection([makeTransaction('big', 300 * KIB)]), seededCollection('b', 2)],
  [shared, shared],
  [seededCollection('c', 3)],
]);

const heightsIn = ({ damages }: VerifyReport): (number | undefined)[] => damages.map(({ height }) => height);

const { filled, freshPath, open, closedStore, changedStore } = useStores();

describe('verify of a sound store', () => {
  it('finds nothing, and says what it looked at', async () => {
    const path = await closedStore(chain);
    const collections = chain.flatMap((entry) => entry.collections);
    const transactions = collections.reduce((sum, { ranges }) => sum + ranges.length / 2, 0);
    expect(await verifyAt(path)).toEqual({
      range: { from: 5, to: 10 },
      latestIndexedHeight: 10,
      heights: 6,
      collections: collections.length,
      transactions,
      proven: 0,
      bytes: collections.reduce((sum, { encoded }) => sum + encoded.length, 0),
      pointers: 6 + collections.length + transactions,
      ranges: [{ kind: 'live', from: 5, to: 10, blocks: 6, damaged: [] }],
      damagedHeights: [],
      lostHeights: [],
      damages: [],
      damageCount: 0,
    });
  });

  it('checks a part of the heights', async () => {
    const path = await closedStore(chain);
    expect(await verifyAt(path, { from: 7, to: 8 })).toMatchObject({
      range: { from: 7, to: 8 },
      heights: 2,
      collections: 5,
      damageCount: 0,
    });
    expect(await verifyAt(path, { from: 10 })).toMatchObject({ range: { from: 10, to: 10 }, heights: 1 });
    expect(await verifyAt(path, { to: 5 })).toMatchObject({ range: { from: 5, to: 5 }, heights: 1 });
  });

  it('refuses heights outside the store', async () => {
    const path = await closedStore(chain);
    for (const range of [{ from: 4 }, { to: 11 }, { from: 8, to: 7 }]) {
      await expect(verifyAt(path, range)).rejects.toMatchObject(refusal('usage', 'holds heights 5 to 10'));
    }
  });

  it('includes blocks above a gap', async () => {
    const path = await freshPath();
    const store = await begin(open(path), 5, [chain[0]!, chain[3]!, chain[4]!], 5);
    await store.close();
    expect(await verifyAt(path)).toMatchObject({
      ...{ range: { from: 5, to: 9 }, heights: 3, damageCount: 0 },
      waiting: { blocks: 2, from: 8, to: 9 },
    });
  });

  it('takes an empty store, initialised or not, and a store from height 0', async () => {
    const path = await freshPath();
    await (await open(path)).close();
    expect(await verifyAt(path)).toMatchObject({ range: undefined, damageCount: 0 });
    const store = await begin(open(path), 0);
    await store.close();
    expect(await verifyAt(path)).toMatchObject({ range: undefined, latestIndexedHeight: -1, damageCount: 0 });
  });

  it('finds nothing in one that was opened and closed many times, whatever compactions were cut short', async () => {
    const long = chainWith(1, 12, (index) => [seededCollection(`c${index}`, 1 + (index % 4), 200)]);
    const path = await closedStore([]);
    for (const entry of long) {
      const store = await open(path);
      await store.commit({ blocks: [entry], latestIndexedHeight: entry.block.height });
      await store.close();
      expect((await verifyAt(path)).damages).toEqual([]);
    }
  }, 60_000);

  it('tells how far it is, and stops when told to', async () => {
    const path = await closedStore(chain);
    const seen: unknown[] = [];
    await verifyAt(path, {}, { onProgress: (progress) => seen.push(progress) });
    expect(seen).toContainEqual({ phase: 'blocks', height: 7, from: 5, to: 10 });
    expect(seen.at(-1)).toMatchObject({ phase: 'pointers' });
    const controller = new AbortController();
    const stopped = verifyAt(path, {}, { signal: controller.signal, onProgress: () => controller.abort() });
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' });
    expect((await verifyAt(path)).damageCount).toBe(0);
  });
});

describe('verify of a store with one byte changed', () => {
  it('names the height of every record, whichever byte of its key or value it is, and whether all or only that height is checked', async () => {
    const path = await closedStore(chain);
    const entries = await rawEntries(path);
    expect(new Set(entries.map(([key]) => key[0]))).toEqual(
      new Set([0x01, 0x02, 0x10, 0x11, 0x20, 0x21, 0x22]),
    );
    const check = async (
      [key, value]: [Buffer, Buffer],
      inKey: boolean,
      where: number,
      bit: number,
      isAlone: boolean,
    ) => {
      const changed = Buffer.from(inKey ? key : value);
      changed[Math.floor(where * changed.length)]! ^= 1 << bit;
      await withRawDatabase(path, async (database) => {
        if (inKey) await database.del(key);
        await database.put(inKey ? changed : key, inKey ? value : changed);
      });
      const height = heightOf(key);
      const reports = [await verifyAt(path)];
      if (isAlone && height !== undefined) reports.push(await verifyAt(path, { from: height, to: height }));
      await withRawDatabase(path, async (database) => {
        // The changed key may be that of another record, which then has to come back too.
        const other = entries.find(([known]) => known.equals(changed));
        if (inKey && other === undefined) await database.del(changed);
        if (inKey && other !== undefined) await database.put(...other);
        await database.put(key, value);
      });
      const named =
        height === undefined
          ? new RegExp(key[0] === 0x01 ? '^meta record' : '^progress record')
          : new RegExp(`height ${height}\\b`);
      for (const report of reports) {
        expect(heightsIn(report)).toContain(height);
        expect(report.damages.map(({ message }) => message)).toContainEqual(expect.stringMatching(named));
      }
    };
    const random = seededRandom(1);
    // The first and the last one of each kind.
    const isEnd = ([key]: [Buffer, Buffer], at: number): boolean =>
      [entries[at - 1], entries[at + 1]].some((beside) => beside?.[0][0] !== key[0]);
    for (const entry of entries.filter(isEnd)) {
      for (const inKey of [false, true]) {
        await check(entry, inKey, random.next(), Math.floor(8 * random.next()), true);
      }
    }
    const isAlone = fc.constant(false);
    const where = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...entries), fc.boolean(), where, fc.nat(7), isAlone, check),
      {
        numRuns: 10,
      },
    );
    expect((await verifyAt(path)).damageCount).toBe(0);
  }, 120_000);
});

describe('verify', () => {
  const copyOf = async (entry: (typeof chain)[number]): Promise<[Buffer, Buffer][]> => {
    const path = await closedStore([entry]);
    return (await rawEntries(path)).filter(([key]) => key[0]! >= 0x10);
  };

  it('finds a block that is not the child of the one below', async () => {
    const stranger = makeBlock(8, chain[0]!.block.id, chain[3]!.collections);
    const path = await changedStore(chain, async (database) => {
      for (const [key] of await copyOf(chain[3]!)) await database.del(key);
      for (const [key, value] of await copyOf(stranger)) await database.put(key, value);
    });
    expect((await verifyAt(path)).damages).toEqual([
      { height: 8, kind: 'parent', message: expect.stringContaining('height 7') as string },
      { height: 9, kind: 'parent', message: expect.stringContaining('height 8') as string },
    ]);
  });

  it('finds entries that no block calls for, sound by themselves as they are', async () => {
    const strangers = await copyOf(makeBlock(7, chain[1]!.block.id, [seededCollection('stranger', 1)]));
    const path = await changedStore(chain, async (database) => {
      for (const [key, value] of strangers) if (key[0]! >= 0x20) await database.put(key, value);
    });
    const { damages, damageCount } = await verifyAt(path);
    // The block id is the same, so one of three pointers belongs there.
    expect(damageCount).toBe(2);
    expect(damages.map(({ kind, height }) => ({ kind, height }))).toEqual([
      { kind: 'unexpected', height: 7 },
      { kind: 'unexpected', height: 7 },
    ]);
  });

  it('finds blocks outside the store, and keys outside the key space', async () => {
    const path = await changedStore(chain, async (database) => {
      for (const [key, value] of await copyOf(makeBlock(4, chain[0]!.block.id, [])))
        await database.put(key, value);
      for (const [key, value] of await copyOf(makeBlock(90_000, chain[0]!.block.id, []))) {
        await database.put(key, value);
      }
      await database.put(Buffer.from('zz'), Buffer.of(1));
      await database.put(Buffer.of(0x01, 0x00), Buffer.of(1));
    });
    const report = await verifyAt(path);
    expect(heightsIn(report).filter((height) => height === 4)).toHaveLength(2);
    expect(heightsIn(report).filter((height) => height === 90_000)).toHaveLength(2);
    expect(report.damages.filter(({ height }) => height === undefined).map(({ message }) => message)).toEqual(
      ['key 0100 is not one of ours', 'key 7a7a is not one of ours'],
    );
  });

  it('reports a store whose own records are gone', async () => {
    const path = await changedStore(chain, async (database) => database.clear({ lt: Buffer.of(0x10) }));
    const { damages, heights } = await verifyAt(path);
    expect(damages.map(({ message }) => message)).toEqual([
      'meta record: it is missing',
      'progress record: it is missing',
    ]);
    expect(heights).toBe(6);
  });

  it('refuses a store of another chain, and a path without a store', async () => {
    const path = await closedStore(chain);
    await expect(verifyAt(path, { chainId: 'flow-mainnet' })).rejects.toMatchObject({ exit: 'foreign' });
    await expect(verifyAt(await freshPath())).rejects.toMatchObject({ kind: 'missing' });
    await open(path);
    await expect(verifyAt(path)).rejects.toMatchObject({ kind: 'locked' });
  });
});

/**
 * The store writes what it is given, once ids, links and order are right: that the bytes are those of the ids is proven
 * before. Verify proves it again, from the stored bytes alone.
 */
describe('verify of blocks whose bytes are not those of their ids', () => {
  const unsound = makeChain(1, [
    [seededCollection('a', 2)],
    [seededCollection('b', 1), seededCollection('c', 2)],
    [],
  ]);
  const [first, second] = unsound as [BlockEntry, BlockEntry];
  const [b, c] = second.collections as [
    (typeof second.collections)[number],
    (typeof second.collections)[number],
  ];
  /** A field that no message of ours has: number 15, value 1. */
  const UNKNOWN_FIELD = Buffer.of(0x78, 0x01);
  const withCollection = (changed: Partial<typeof c>): BlockEntry => ({
    block: second.block,
    collections: [b, { ...c, ...changed }],
  });
  const { block } = second;

  it.each([
    [
      'a block with a field that does not belong there',
      { ...second, block: { ...block, encoded: Buffer.concat([block.encoded, UNKNOWN_FIELD]) } },
      'block record of height 2: the block is not in canonical encoding',
    ],
    [
      'a collection with a field that does not belong there',
      withCollection({ encoded: Buffer.concat([c.encoded, UNKNOWN_FIELD]) }),
      'collection 1 of height 2: it is not in canonical encoding',
    ],
    [
      'a collection that is another one',
      withCollection({ encoded: seededCollection('d', 2).encoded }),
      'collection 1 of height 2: ',
    ],
    [
      'a collection that is no message',
      withCollection({ encoded: Buffer.of(0x0a, 0x7f) }),
      'collection 1 of height 2: ',
    ],
    [
      'a collection of another number of transactions',
      withCollection({ ranges: c.ranges.slice(0, 2) }),
      'block record of height 2: collection 1 has another number of transactions',
    ],
  ])('%s', async (_, entry, words) => {
    const path = await freshPath();
    await (await filled([first, entry, unsound[2]!], path)).close();
    const { damages } = await verifyAt(path);
    expect(new Set(damages.map(({ height }) => height))).toEqual(new Set([2]));
    expect(damages.some(({ message }) => message.startsWith(words))).toBe(true);
    const repaired = await repairAt(path);
    expect(repaired).toMatchObject({ applied: true, holes: [{ from: 2, to: 2 }] });
    expect((await open(path)).coverage()).toEqual([range(1, 1), range(3, 3)]);
  });

  it('a body above the watermark whose block record is lost', async () => {
    const path = await freshPath();
    const store = await begin(open(path), 1);
    const stray = makeBlock(5, first.block.id, [seededCollection('e', 1)]);
    const top = makeBlock(7, first.block.id, []);
    await store.commit({ blocks: [first, stray, top], latestIndexedHeight: 1 });
    await store.close();
    await withRawDatabase(path, (database) => database.del(keyOf(0x10, 5)));
    const { damages } = await verifyAt(path);
    expect(damages.map(({ message }) => message)).toContain('body of height 5: it has no block record');
    expect(damages.map(({ kind }) => kind)).not.toContain('missing_block');
  });
});

it('damage without end is counted, while what is described and how many runs are kept apart stay bounded', () => {
  const damages = new DamageList();
  for (let height = 0; height < 300_000; height += 2) damages.add('block', height, `height ${height}`);
  const { damageCount, damagedHeights, damages: described, lostHeights } = damages.report();
  expect([damageCount, described.length]).toEqual([150_000, 1_000]);
  expect(damagedHeights.length).toBeLessThan(131_072);
  expect(lostHeights).toEqual(damagedHeights);
  expect([damagedHeights[0]?.from, damagedHeights.at(-1)]).toEqual([0, { from: 299_998, to: 299_998 }]);
  expect(() => damages.addError('block', new RangeError('a bug'))).toThrow('a bug');
});
