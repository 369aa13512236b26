import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batchOf, begin, HashedChain, heightOf, keyOf, makeBlock } from '../../support/index.js';
import { makeChain, makeCollection, makeTransaction, range, rawEntries } from '../../support/index.js';
import { repairAt, sealed, seededCollection, seededRandom, TEST_CHAIN } from '../../support/index.js';
import { useStores, verifyAt, withRawDatabase } from '../../support/index.js';
import { DamageList } from '../../../src/storage/verify/DamageList.js';
import type { VerifiedCollection } from '../../../src/flow/index.js';
import type { BlockEntry, VerifyReport } from '../../../src/storage/index.js';

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

/** What verify says of a sound store of every kind: test/support/storeSuite/checks.ts. */
it('verify of a store with one byte changed names the height of every record, whichever byte of its key or value it is, and whether all or only that height is checked', async () => {
  const path = await closedStore(chain);
  const entries = await rawEntries(path);
  const pointers = entries.filter(([key]) => key[0]! >= 0x20).length;
  const phases = new Set<string>();
  const report = await verifyAt(path, {}, { onProgress: ({ phase }) => phases.add(phase) });
  expect(report).toMatchObject({ damages: [], pointers });
  expect([...phases]).toEqual(['blocks', 'pointers']);
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
    for (const inKey of [false, true])
      await check(entry, inKey, random.next(), Math.floor(8 * random.next()), true);
  }
  const isAlone = fc.constant(false);
  const where = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...entries), fc.boolean(), where, fc.nat(7), isAlone, check),
    { numRuns: 10 },
  );
  expect((await verifyAt(path)).damageCount).toBe(0);
}, 120_000);

const copyOf = async (entry: (typeof chain)[number]): Promise<[Buffer, Buffer][]> => {
  const path = await closedStore([entry]);
  return (await rawEntries(path)).filter(([key]) => key[0]! >= 0x10);
};

it('verify finds a block that is not the child of the one below, what is outside the store, keys outside the key space, and that its own records are gone', async () => {
  const stranger = makeBlock(8, chain[0]!.block.id, chain[3]!.collections);
  const path = await changedStore(chain, async (database) => {
    for (const [key] of await copyOf(chain[3]!)) await database.del(key);
    for (const [key, value] of await copyOf(stranger)) await database.put(key, value);
  });
  expect((await verifyAt(path)).damages).toEqual([
    { height: 8, kind: 'parent', message: expect.stringContaining('height 7') as string },
    { height: 9, kind: 'parent', message: expect.stringContaining('height 8') as string },
  ]);
  const outside = await copyOf(makeBlock(90_000, chain[0]!.block.id, []));
  const astray = await changedStore(chain, async (database) => {
    for (const [key, value] of outside) await database.put(key, value);
    for (const key of [Buffer.from('zz'), Buffer.of(0x01, 0x00)]) await database.put(key, Buffer.of(1));
  });
  const report = await verifyAt(astray);
  expect(heightsIn(report)).toEqual([90_000, 90_000, undefined, undefined]);
  const said = report.damages.map(({ message }) => message);
  for (const key of ['0100', '7a7a']) expect(said).toContain(`key ${key} is not one of ours`);
  const bare = await changedStore(chain, async (database) => database.clear({ lt: Buffer.of(0x10) }));
  const { damages, heights } = await verifyAt(bare);
  expect(damages.map(({ message }) => message)).toEqual([
    'meta record: it is missing',
    'progress record: it is missing',
  ]);
  expect(heights).toBe(6);
});

it('verify refuses a store of another chain, and a path without a store', async () => {
  const path = await closedStore(chain);
  await expect(verifyAt(path, { chainId: 'flow-mainnet' })).rejects.toMatchObject({ exit: 'foreign' });
  await expect(verifyAt(await freshPath())).rejects.toMatchObject({ kind: 'missing' });
  await open(path);
  await expect(verifyAt(path)).rejects.toMatchObject({ kind: 'locked' });
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
  const [first, second, third] = unsound as [BlockEntry, BlockEntry, BlockEntry];
  const [b, c] = second.collections as [VerifiedCollection, VerifiedCollection];
  /** A field that no message of ours has: number 15, value 1. */
  const withField = (encoded: Uint8Array): Buffer => Buffer.concat([encoded, Buffer.of(0x78, 0x01)]);
  const withBlock = (encoded: Uint8Array): BlockEntry => ({ ...second, block: { ...second.block, encoded } });
  const withC = (changed: Partial<VerifiedCollection>): BlockEntry => ({
    ...{ block: second.block, collections: [b, { ...c, ...changed }] },
  });
  const { encoded: others } = seededCollection('d', 2);

  it.each([
    ['block record', ': the block is not in canonical encoding', withBlock(withField(second.block.encoded))],
    ['collection 1', ': it is not in canonical encoding', withC({ encoded: withField(c.encoded) })],
    ['collection 1', ': ', withC({ encoded: others })],
    ['collection 1', ': ', withC({ encoded: Buffer.of(0x0a, 0x7f) })],
    ['block record', ': collection 1 has another number of', withC({ ranges: c.ranges.slice(0, 2) })],
  ])('names the %s of height 2%s', async (what, says, entry) => {
    const path = await freshPath();
    await (await filled([first, entry, third], path)).close();
    const { damages } = await verifyAt(path);
    expect(new Set(damages.map(({ height }) => height))).toEqual(new Set([2]));
    expect(damages.some(({ message }) => message.startsWith(`${what} of height 2${says}`))).toBe(true);
    expect(await repairAt(path)).toMatchObject({ applied: true, holes: [range(2)] });
    expect((await open(path)).coverage()).toEqual([range(1), range(3)]);
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

/** What every store does with proofs: test/integration/storage/addedProofs.test.ts. */
const proven = new HashedChain({ rootHeight: 50, chainId: TEST_CHAIN });

it('a store with proofs is one that an older program refuses, from the first proof on', async () => {
  const path = await freshPath();
  const store = await filled(proven.entries(100, 102, { isProven: false }), path);
  expect(store.meta()?.schemaVersion).toBe(1);
  await store.commit(batchOf(...proven.entries(103, 103)));
  expect(store.meta()?.schemaVersion).toBe(4);
  await store.close();
  expect((await open(path)).meta()?.schemaVersion).toBe(4);
});

/** A block record: two numbers, two more for each collection, the length of the proof, the proof, the block. */
const turned = (record: Buffer): Buffer => {
  const at = 8 + 8 * (record.readUInt32BE(4) - 0x8000_0000);
  const last = at + 3 + record.readUInt32BE(at);
  record.writeUInt8(record.readUInt8(last) ^ 1, last);
  return record;
};
const without = async () => (await copyOf(proven.entries(102, 102, { isProven: false })[0]!))[0]![1];

it.each([
  ['a bit of the proof is turned', turned, /does not hash to its id/],
  ['the proof is gone', without, /its proof is missing/],
])('a store with proofs is damaged where %s, whatever the checksum says', async (_, change, message) => {
  const key = keyOf(0x10, 102);
  const path = await changedStore(proven.entries(100, 103), async (database) => {
    const record = await change(Buffer.from(await database.get(key)));
    await database.put(key, sealed(key, record.subarray(0, -4)));
  });
  const report = await verifyAt(path);
  expect(report.damages.map((each) => each.message).join('\n')).toMatch(message);
  expect(report.damagedHeights[0]?.from).toBe(102);
});
