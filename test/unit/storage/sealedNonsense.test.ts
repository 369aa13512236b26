import { describe, expect, it } from 'vitest';
import { rangesInWords, verifiedBlock, type LevelIndexStore } from '../../../src/storage/index.js';
import { encodeRlp, identifierBytes, toAddress, toIdentifier } from '../../../src/flow/index.js';
import { VerificationMemory } from '../../../src/flow/index.js';
import { fault, keyOf, makeChain, RecordingLogger, repairAt, sealed } from '../../support/index.js';
import { seededCollection, TEST_CHAIN, transactionIdsOf, useStores, verifyAt } from '../../support/index.js';
import { withRawDatabase } from '../../support/index.js';

/** Records that match their checksums and say what no store of ours would: never served, and named by verify. */

const chain = makeChain(100, [
  [],
  [seededCollection('a', 2), seededCollection('b', 1)],
  [],
  [seededCollection('c', 1)],
]);
const LAST = 103;
const META = Buffer.of(1);
const PROGRESS = Buffer.of(2);
const REWIND = Buffer.of(3);
const PUBLISHED = Buffer.of(5);
const PLANS = Buffer.of(6);

const heightBytes = (height: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(height));
  return bytes;
};
const blockKey = (height: number): Buffer => keyOf(0x10, height);
const bodyKey = (height: number, chunk: number): Buffer => keyOf(0x11, height, chunk);
const u32 = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => bytes.writeUInt32BE(value, 4 * index));
  return bytes;
};
/** A pointer's key; the places are those of its collection, and of its transaction. */
const pointerKey = (prefix: number, id: Buffer, height: number, ...places: number[]): Buffer =>
  Buffer.concat([Buffer.of(prefix), id, heightBytes(height), u32(...places)]);

const { open, changedStore } = useStores();

/** A closed store of the chain in which these keys have other payloads, or none (`undefined`). */
const storeWith = (...changes: readonly (readonly [key: Buffer, payload: Uint8Array | undefined])[]) =>
  changedStore(chain, async (database) => {
    for (const [key, payload] of changes) {
      if (payload === undefined) await database.del(key);
      else await database.put(key, sealed(key, payload));
    }
  });

async function saidOf(path: string): Promise<string> {
  const { damages, damageCount } = await verifyAt(path);
  expect(damageCount).toBeGreaterThan(0);
  return damages.map(({ message }) => message).join('\n');
}

/** The store refuses to open with these words, and verify has them too. */
async function expectRefused(path: string, words: string): Promise<void> {
  await expect(open(path)).rejects.toMatchObject(fault('corrupt', words));
  expect(await saidOf(path)).toContain(words);
}

/** What a store opens in spite of, until all above `latest` is taken back. */
async function expectTakenBack(path: string, latest: number, words: string): Promise<void> {
  expect(await saidOf(path)).toContain(words);
  const logger = new RecordingLogger();
  const store = await open(path, {}, logger);
  await store.takeBackDamage();
  expect(store.latestIndexedHeight()).toBe(latest);
  expect(logger.records.map(({ fields }) => fields['damage'])).toContainEqual(expect.stringContaining(words));
  await store.close();
  expect(await verifyAt(path)).toMatchObject({ damageCount: 0, latestIndexedHeight: latest });
}

const { block } = chain.at(-1)!;

const before = chain[2]!.block.encoded;
const isUnreadable = 'block record of height 103: it cannot be read';

it.each<[string, Uint8Array[], string?]>([
  ['is shorter than its header', [u32(0)]],
  ['counts more collections than it has room for', [u32(0, 1000, 1)]],
  ['gives the body another length than its collections', [u32(7, 1, 6, 1), block.encoded]],
  ['has no block', [u32(0, 0)], 'height 103'],
  ['has a proof that is longer than it is', [u32(0, 0x8000_0000, 500), block.encoded]],
  ['has no room for the length of its proof', [u32(0, 0x8000_0000)]],
  ['holds no message', [u32(0, 0), Buffer.of(0xff, 0xff)], 'height 103'],
  ['holds the block of another height', [u32(0, 0), before], 'it holds the block of height 102'],
  ['lacks a collection', [u32(0, 0), block.encoded], 'it does not have one collection per guarantee'],
])('a block record that makes no sense %s', async (_, parts, words = isUnreadable) => {
  await expectTakenBack(await storeWith([blockKey(LAST), Buffer.concat(parts)]), LAST - 1, words);
});

it('a block record that makes no sense is shorter than a checksum, or stands under a key that is none, above the watermark', async () => {
  const short = await changedStore(chain, (database) => database.put(blockKey(LAST), Buffer.of(1)));
  await expectTakenBack(short, LAST - 1, 'block record of height 103: its checksum does not match');
  const key = Buffer.concat([blockKey(200), Buffer.of(0)]);
  const path = await storeWith([key, Buffer.alloc(0)]);
  await expectTakenBack(path, LAST, `key ${key.toString('hex')} is not one of ours`);
});

const json = (content: unknown): Buffer => Buffer.from(JSON.stringify(content));
const openKey = (from: number): Buffer => keyOf(0x07, from);
const meta = { schemaVersion: 1, chainId: TEST_CHAIN, firstHeight: 100, createdBy: 'x', sporks: [] };
/** Of a store that has ranges, or plans of them. */
const withRanges: readonly [Buffer, Buffer] = [META, json({ ...meta, schemaVersion: 3 })];
const spork = { rootHeight: 100, sporkId: 'aa' };
const range = { to: 29, next: 20, failures: 0, sporks: [], hasAccounts: false, isDropped: false };
const plan = { id: 1, from: 10, to: 90, order: 'newest', isPaused: false };

/** Of each field of a JSON record, what it must not be. */
type Wrong<T> = Readonly<Partial<Record<keyof T | 'keep' | 'reason' | 'heals', readonly unknown[]>>>;
const withWrong = <T extends object>(record: string, key: Buffer, sound: T, wrong: Wrong<T>, wrap = false) =>
  Object.entries(wrong as Record<string, unknown[]>).flatMap(([field, values]) =>
    values.map((value): [string, string, Buffer, Buffer] => {
      const changed = { ...sound, [field]: value };
      const what = `${record} in which ${field} is ${JSON.stringify(value)}`;
      return [what, record, key, json(wrap ? [changed] : changed)];
    }),
  );

const openRange = 'record of an open range of height 20';

describe('a record of the store as a whole that makes no sense', () => {
  it.each<[what: string, record: string, key: Buffer, content: Buffer, why?: string]>([
    ['progress of another length', 'progress record', PROGRESS, u32(1)],
    ['progress beyond all heights', 'progress record', PROGRESS, heightBytes(2n ** 53n)],
    [
      'progress below the store',
      'progress record',
      PROGRESS,
      heightBytes(50),
      'it lies below the first height',
    ],
    ['a rewind of another length', 'rewind record', REWIND, heightBytes(1)],
    ['a rewind to beyond all heights', 'rewind record', REWIND, Buffer.alloc(25, 0xff)],
    ['a rewind over ranges of another length', 'rewind record', REWIND, Buffer.alloc(26)],
    ['ranges of another length', 'record of the ranges', PUBLISHED, heightBytes(10)],
    ['ranges that end too early', 'record of the ranges', PUBLISHED, Buffer.concat([10, 9].map(heightBytes))],
    ['ranges beyond all', 'record of the ranges', PUBLISHED, Buffer.concat([10, 2n ** 60n].map(heightBytes))],
    ['ranges that touch', 'record of the ranges', PUBLISHED, Buffer.concat([1, 3, 4, 5].map(heightBytes))],
    ['a meta record that is no JSON', 'meta record', META, Buffer.from('{')],
    ['a meta record that is null', 'meta record', META, json(null)],
    ['a meta record that is 7', 'meta record', META, json(7)],
    ['an open range that is 7', openRange, openKey(20), json(7)],
    ['plans that are no list', 'record of the plans', PLANS, json(plan)],
    ['a plan that is 7', 'record of the plans', PLANS, json([7])],
    ...withWrong('meta record', META, meta, {
      ...{ schemaVersion: ['1'], chainId: [undefined], firstHeight: [-1, 1.5], createdBy: [7] },
      sporks: [
        ...[spork, ['aa'], [{ sporkId: 'aa' }], [{ rootHeight: 100 }]],
        ...[7, 'aa'].map((rootParentId) => [{ ...spork, rootParentId }]),
      ],
    }),
    ...withWrong(openRange, openKey(20), range, {
      ...{ to: [undefined], next: ['20', 19, 30], failures: [-1], reason: [7], sporks: [{}, [7]] },
      ...{ hasAccounts: [1], isDropped: [undefined], keep: ['all'] },
    }),
    ...withWrong(
      'record of the plans',
      PLANS,
      plan,
      { id: [undefined], to: [9], order: ['random'], isPaused: ['no'], heals: [7] },
      true,
    ),
  ])('%s', async (_, record, key, content, why = 'it cannot be read') => {
    const ofRanges = /range|plans/.test(record) ? [withRanges] : [];
    await expectRefused(await storeWith(...ofRanges, [key, content]), `${record}: ${why}`);
  });

  it('a meta record that says the right things in another way is served, and verify tells', async () => {
    const spaced = Buffer.from(JSON.stringify({ ...meta, sporks: [spork] }, null, 1));
    const path = await storeWith([META, spaced]);
    await (await open(path)).close();
    expect(await saidOf(path)).toBe('meta record: it is not in canonical encoding');
    const twice = await storeWith([META, json({ ...meta, sporks: [spork, { ...spork, sporkId: 'bb' }] })]);
    expect(await saidOf(twice)).toBe('meta record: its sporks do not ascend');
  });
});

describe('a pointer or body that makes no sense', () => {
  const { block, collections } = chain[1]!;
  const [a, b] = collections as [(typeof collections)[number], (typeof collections)[number]];
  const blockId = identifierBytes(block.id);
  const stranger = Buffer.alloc(32, 7);
  const idOfA = identifierBytes(a.id);
  const sliceOfA = u32(0, a.encoded.length);
  const oneByte = Buffer.of(1);
  const beyond = u32(a.encoded.length + b.encoded.length - 1, 2);
  const transaction = transactionIdsOf(a)[0]!;
  const blockIdKey = (id: Buffer): Buffer => pointerKey(0x20, id, 101);
  const collectionKey = (id: Buffer, place = 0): Buffer => pointerKey(0x21, id, 101, place);
  const transactionKey = pointerKey(0x22, identifierBytes(transaction), 101, 0, 0);
  const longKey = Buffer.concat([transactionKey, Buffer.of(0)]);
  const highKey = Buffer.concat([transactionKey.subarray(0, 33), Buffer.alloc(8, 0xfe), u32(0, 0)]);

  const wrongLength = (what: string): string => `${what} of height 101: it has the wrong length`;

  const idIn = (key: Buffer) => toIdentifier(key.subarray(1, 33));
  /** Whoever asks for what the record of a key is for. */
  const reads: Readonly<Record<number, (store: LevelIndexStore, key: Buffer) => Promise<unknown>>> = {
    0x11: (store) => store.wholeBlock(101),
    0x20: (store, key) => store.blockById(idIn(key)),
    0x21: (store, key) => store.item('collection', idIn(key)),
    0x22: async (store, key) => {
      await store.places('transaction', idIn(key), 10);
      return store.item('transaction', idIn(key));
    },
  };

  it.each<[string, Buffer, Uint8Array | undefined, string]>([
    ['a block id pointer with a payload', blockIdKey(blockId), oneByte, wrongLength('block id pointer')],
    ['a block id pointer to another block', blockIdKey(stranger), Buffer.alloc(0), 'block id pointer of'],
    ['a collection pointer to nothing', collectionKey(idOfA), oneByte, wrongLength('collection pointer')],
    ['a collection pointer to another one', collectionKey(stranger), sliceOfA, 'collection pointer of'],
    ['a collection pointer to no place of it', collectionKey(stranger, 9), sliceOfA, 'pointer of height 101'],
    ['a pointer beyond the end of the body', transactionKey, beyond, 'of height 101'],
    ['a pointer under a key that is too long', longKey, sliceOfA, 'is not one of ours'],
    ['a pointer to a height beyond all heights', highKey, sliceOfA, 'is not one of ours'],
    ['a body that is too short', bodyKey(101, 0), a.encoded, wrongLength('body')],
    ['a body that is gone', bodyKey(101, 0), undefined, 'body of height 101: chunk 0 is missing'],
  ])('%s', async (_, key, payload, words) => {
    const path = await storeWith([key, payload]);
    const store = await open(path);
    await expect(reads[key[0]!]!(store, key)).rejects.toMatchObject(fault('corrupt', words));
    await store.close();
    expect(await saidOf(path)).toContain(words);
  });

  it('a hole in the blocks: no question for it is answered', async () => {
    const path = await storeWith([blockKey(101), undefined]);
    const store = await open(path);
    const error = { ...fault('corrupt', 'block record of height 101: it is missing'), height: 101 };
    await expect(store.blockByHeight(101)).rejects.toMatchObject(error);
    for (const key of [bodyKey(101, 0), blockIdKey(blockId), collectionKey(idOfA), transactionKey])
      await expect(reads[key[0]!]!(store, key)).rejects.toMatchObject(error);
    await store.close();
    expect(await saidOf(path)).toContain('height 101 has no block record');
  });

  it('a pointer that locates the wrong bytes, a chunk that no body has, and a body that no block has', async () => {
    const path = await storeWith([transactionKey, u32(1, 2)]);
    const place = `transaction pointer of height 101, id ${transaction}`;
    expect(await saidOf(path)).toBe(`${place}: it is not what it should be`);
    const extra = await storeWith([bodyKey(101, 7), Buffer.of(1)]);
    expect(await saidOf(extra)).toBe('body of height 101: chunk 7 should not exist');
    const orphan = await storeWith([bodyKey(100, 0), Buffer.of(1)], [blockKey(100), undefined]);
    const said = await saidOf(orphan);
    expect(said).toContain('height 100 has no block record');
    expect(said).toContain('body of height 100: it has no block record');
  });

  it('several heights without a record are one line, and what is below a part is not its damage', async () => {
    const lost = [blockKey(101), blockKey(102), bodyKey(101, 0)].map((key) => [key, undefined] as const);
    const path = await storeWith(...lost);
    expect(await saidOf(path)).toContain('heights 101 to 102 have no block record');
    for (const each of [path, await storeWith([blockKey(102), u32(0)])])
      expect(await verifyAt(each, { from: 103 })).toMatchObject({ heights: 1, damageCount: 0 });
  });
});

describe('the records of several ranges that make no sense', () => {
  it('are those of a store that opens, while they do', async () => {
    const path = await storeWith(withRanges, [openKey(20), json(range)], [PLANS, json([plan])]);
    expect(await verifyAt(path)).toMatchObject({ damageCount: 0 });
    const store = await open(path);
    expect(store.ranges.open()).toMatchObject([{ from: 20, to: 29, next: 20, failures: 0 }]);
    expect(store.ranges.plans()).toEqual([plan]);
  });

  it('an open range under a key that is too long', async () => {
    const key = Buffer.concat([openKey(20), Buffer.of(0)]);
    const path = await storeWith(withRanges, [key, json(range)]);
    await expectRefused(path, `key ${key.toString('hex')} is not one of ours`);
  });

  const published = (from: number, to: number) =>
    [PUBLISHED, Buffer.concat([from, to].map(heightBytes))] as const;
  const opened = (changed: Partial<typeof range> & { readonly from?: number } = {}) => {
    const { from = 20, ...rest } = changed;
    return [openKey(from), json({ ...range, ...rest })] as const;
  };

  it.each([
    ['heights 50 to 99 reach the live range', [published(50, 99)]],
    ['the open range 20 to 29 lies in another range', [published(25, 40), opened()]],
    ['the open range 25 to 29 lies in another range', [opened(), opened({ from: 25, next: 25 })]],
    ['the open range 20 to 120 lies in another range', [opened({ to: 120 })]],
  ])('%s: it is refused, and a repair keeps none of them', async (words, records) => {
    const path = await storeWith(withRanges, ...records);
    await expectRefused(path, `record of the ranges: ${words}`);
    expect((await repairAt(path)).kept).toEqual([{ from: 100, to: LAST }]);
    expect(await verifyAt(path)).toMatchObject({ damageCount: 0 });
    expect((await open(path)).ranges.open()).toEqual([]);
  });

  it.each<[string, Uint8Array]>([
    ['is no list', encodeRlp(Buffer.of(1))],
    ['is no RLP', Buffer.of(0xff)],
    ['lacks the state of its epoch', encodeRlp([Buffer.alloc(32), Buffer.of(1), Buffer.alloc(9)])],
    ['lacks everything behind the id', encodeRlp([Buffer.alloc(32)])],
    ['is empty', encodeRlp([])],
  ])('evidence of a committee that %s: a store serves without it, and verify tells', async (_, payload) => {
    const proving = { ...meta, schemaVersion: 4 };
    const path = await storeWith([META, json(proving)], [keyOf(0x09, 101), Buffer.from(payload)]);
    const store = await open(path);
    await expect(store.evidence()).rejects.toMatchObject({ kind: 'corrupt', height: 101 });
    expect(await store.blockByHeight(101)).toBeDefined();
    await store.close();
    expect(await saidOf(path)).toContain('evidence of a committee of height 101: it cannot be read');
  });

  it('ranges in a store whose version knows none: verify tells; a plan of which nothing is missing goes with the next open', async () => {
    const path = await storeWith([PLANS, json([plan])]);
    expect(await saidOf(path)).toBe('record of the ranges: it does not go with the meta record');
    const done = await storeWith(withRanges, [PLANS, json([{ ...plan, from: 100, to: 101 }])]);
    const store = await open(done);
    expect(store.ranges.plans()).toEqual([]);
    expect(store.meta()).toMatchObject({ schemaVersion: 1 });
  });
});

describe('an entry of the account index that makes no sense', () => {
  const ACCOUNT = 0x23;
  const sealedUnderLongKey = (key: Buffer, value: Buffer): [key: Buffer, value: Buffer] => {
    const long = Buffer.concat([key, Buffer.of(0)]);
    return [long, sealed(long, value.subarray(0, -4))];
  };

  it.each<[string, (key: Buffer, value: Buffer) => [key: Buffer, value: Buffer], string]>([
    ['without a checksum', (key) => [key, Buffer.of(1)], 'its checksum does not match'],
    ['of another length', (key) => [key, sealed(key, Buffer.of(1))], 'it cannot be read'],
    ['of no role', (key) => [key, sealed(key, Buffer.alloc(9))], 'it cannot be read'],
    ['of roles that there are not', (key) => [key, sealed(key, Buffer.alloc(9, 8))], 'it cannot be read'],
    ['under a key that is too long', sealedUnderLongKey, 'is not one of ours'],
  ])('%s is never served, and verify names it', async (_, change, words) => {
    const path = await storeWith();
    const store = await open(path, { accounts: true });
    await store.accounts.extend();
    await store.close();
    const address = await withRawDatabase(path, async (database) => {
      const [[key, value] = expect.unreachable('there are entries')] = await database
        .iterator({ gte: Buffer.of(ACCOUNT), lt: Buffer.of(ACCOUNT + 1), limit: 1 })
        .all();
      await database.put(...change(key, value));
      return toAddress(key.subarray(1, 9));
    });
    const damaged = await open(path, { accounts: true });
    const page = damaged.accounts.page({ address, roles: 7, limit: 10 });
    await expect(page).rejects.toMatchObject(fault('corrupt', words));
    await damaged.close();
    expect(await saidOf(path)).toContain(words);
  });

  it('of a height beyond all heights: no page comes to it, and verify names it', async () => {
    const path = await storeWith();
    await (await open(path, { accounts: true })).close();
    const key = Buffer.concat([Buffer.of(ACCOUNT), Buffer.alloc(24, 1)]);
    await withRawDatabase(path, (database) => database.put(key, sealed(key, Buffer.alloc(9, 1))));
    const store = await open(path, { accounts: true });
    const query = { address: toAddress(Buffer.alloc(8, 1)), roles: 7, limit: 10 };
    expect(await store.accounts.page(query)).toMatchObject({ transactions: [] });
    await store.close();
    expect(await saidOf(path)).toContain(`key ${key.toString('hex')} is not one of ours`);
  });
});

it('what a client gives as a block and its bodies is that block, or is refused by what is wrong with it', () => {
  const { block, collections } = chain[1]!;
  const bodies = collections.map(({ encoded }) => encoded);
  const memory = new VerificationMemory();
  expect(verifiedBlock({ block, bodies }, memory).collections.map(({ id }) => id)).toEqual(
    block.collectionIds,
  );
  for (const [given, words] of [
    [bodies.slice(1), 'body of height 101: it has 1 of 2 collections'],
    [[...bodies].reverse(), 'collection 0 of height 101'],
    [bodies.map(() => Buffer.of(0xff)), 'collection 0 of height 101'],
  ] as const)
    expect(() => verifiedBlock({ block, bodies: given }, memory)).toThrow(words);
});

it('ranges in words are all of a few, and of many the first and the last', () => {
  const every = Array.from({ length: 12 }, (_, index) => ({
    from: 10 * index,
    to: 10 * index + (index % 2),
  }));
  expect(rangesInWords([])).toBe('none');
  expect(rangesInWords(every.slice(0, 1))).toBe('0');
  expect(rangesInWords(every.slice(0, 3))).toBe('0, 10 to 11 and 20');
  expect(rangesInWords(every)).toBe('0, 10 to 11, 20, 30 to 31, 40, 50 to 51, 60, … and 110 to 111');
});
