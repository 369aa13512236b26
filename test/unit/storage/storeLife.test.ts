import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { systemClock, type Clock } from '../../../src/runtime/index.js';
import { LevelIndexStore, StorageError, type Database } from '../../../src/storage/index.js';
import { fileWatch } from '../../../src/storage/leveldb/directory/fileWatch.js';
import { levelDatabase } from '../../../src/storage/leveldb/directory/levelDatabase.js';
import { batchOf, begin, chainWith, digestOf, fault, keyOf, makeBlock } from '../../support/index.js';
import { makeChain, MemoryDatabase, metaFrom, plainChain, rawEntries } from '../../support/index.js';
import { RecordingLogger, seededCollection, standIn, storeOver, TEST_CHAIN } from '../../support/index.js';
import { matching, transactionIdsOf, useStores, withRawDatabase } from '../../support/index.js';

const chain = makeChain(1, [[], [seededCollection('a', 2)], [seededCollection('b', 1)]]);
const { filled, freshPath, open, closedStore } = useStores();
const { signal } = new AbortController();
const PATIENCE = { timeout: 60_000, interval: 5 };

/** A store whose database is LevelDB with some of its methods replaced. */
async function openOver(path: string, replace: (database: Database) => Partial<Database>) {
  return LevelIndexStore.open(
    { path, chainId: TEST_CHAIN },
    {
      logger: new RecordingLogger(),
      clock: systemClock,
      openDatabase: async (...args) => {
        const database = await levelDatabase(...args);
        return standIn<Database>(() => database, replace(database));
      },
    },
  );
}

it('a store is not initialised with a schema that this program does not write', async () => {
  const store = await open(await freshPath());
  await expect(store.initialise(metaFrom(1, { schemaVersion: 2 }))).rejects.toThrow('writes schema 1');
  expect(store.meta()).toBeUndefined();
});

it.each([
  [/\.ldb$/, 1],
  [/\.log$/, 2],
  [/^MANIFEST/, 2],
  [/^CURRENT$/, 2],
])('files like %s that somebody else deletes are named', async (kind, looks) => {
  const path = await closedStore(chain);
  const store = await open(path);
  const names = await readdir(path);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(path, name))).size));
  for (let look = 0; look < 2; look += 1)
    expect(await store.sizeBytes(signal)).toBe(sizes.reduce((sum, bytes) => sum + bytes));
  for (const name of names.filter((each) => kind.test(each))) await rm(join(path, name));
  for (let look = 1; look < looks; look += 1) expect(await store.sizeBytes(signal)).toBeGreaterThan(0);
  const told = expect(store.sizeBytes(signal)).rejects;
  await told.toThrow(/deleted while it was in use: (\d+\.ldb|[A-Z]+(-\*)?|\*\.log)\. Find .* "repair --yes"/);
});

it('several files that somebody else deletes are counted', async () => {
  const path = await freshPath();
  const tables = ['000005.ldb', '000007.ldb'];
  await mkdir(path);
  const others = ['CURRENT', 'LOCK', 'MANIFEST-1', '1.log'];
  for (const name of [...others, ...tables]) await writeFile(join(path, name), '');
  const weigh = fileWatch(path, () => Promise.resolve(new Set([5, 7])));
  expect(await weigh(signal)).toBe(0);
  for (const name of tables) await rm(join(path, name));
  const message = matching(/ in use: 000005\.ldb and 1 more\. Find out what deletes/);
  await expect(weigh(signal)).rejects.toMatchObject({ kind: 'corrupt', exit: 'storage', message });
});

it('a write that fails while the store is being closed does not keep it from closing', async () => {
  const path = await closedStore(chain.slice(0, 1));
  const failure = new StorageError('disk_full', 'full');
  let begun: (fail: (error: Error) => void) => void = () => undefined;
  const failOf = new Promise<(error: Error) => void>((resolve) => (begun = resolve));
  const store = await openOver(path, (database) => ({
    batch: () => ({ ...database.batch(), write: () => new Promise((_, reject) => begun(reject)) }),
  }));
  const commit = store.commit(batchOf(chain[1]!));
  const refused = expect(commit).rejects.toBe(failure);
  const closed = store.close();
  store.stage(chain[1]!);
  (await failOf)(failure);
  await refused;
  await closed;
  await expect(store.commit({ blocks: [], latestIndexedHeight: 1 })).rejects.toThrow('closed');
  expect((await open(path)).latestIndexedHeight()).toBe(1);
});

const key = Buffer.from('key');
const freshDatabase = async () => {
  const database = await levelDatabase(await freshPath(), { create: true });
  onTestFinished(() => database.close());
  return database;
};
const put = async (database: Database, name: Buffer, value = name): Promise<void> => {
  using batch = database.batch();
  batch.put(name, value);
  await batch.write();
};

it('batches are merged into new tables, and those that LevelDB deletes then are not missed', async () => {
  const database = await freshDatabase();
  for (let round = 0; round < 4; round += 1) {
    await put(database, key, Buffer.from([round]));
    await database.compact({ gte: Buffer.alloc(1), lt: Buffer.from([255]) });
    expect(await database.sizeBytes?.(signal)).toBeGreaterThan(0);
  }
});

// The database keeps each until then, with all that is in it. `MemoryDatabase.close` looks as well.
it('batches are all given back, whatever fails before, in or after a write', async () => {
  const database = new MemoryDatabase();
  const store = await begin(storeOver(database, false), 11);
  const blocks = plainChain(1, 20);
  const expectNoneOpen = () => expect(database.openBatches.size).toBe(0);
  await store.commit(batchOf(...blocks.slice(10, 15)));
  // A change that is refused, beside one that is not.
  const run = await store.ranges.run({ from: 5, to: 10 });
  const refused = expect(run.commit(batchOf(...chainWith(5, 6, () => [])))).rejects.toThrow('parent');
  store.stage(blocks[15]!);
  await store.commit(batchOf(blocks[15]!));
  await refused;
  expectNoneOpen();
  // What was staged is not what is committed.
  store.stage(blocks[17]!);
  await store.commit(batchOf(blocks[16]!));
  expectNoneOpen();
  await store.rewind(16);
  expectNoneOpen();
  // A write that fails while another range, and the live one, wait for the next.
  const failure = new StorageError('disk_full', 'full');
  let fail: (() => void) | undefined;
  database.beforeWrite = () => new Promise((_, reject) => (fail = () => reject(failure)));
  const other = expect(store.ranges.run({ from: 1, to: 4 })).rejects.toBe(failure);
  await expect.poll(() => fail).toBeDefined();
  const waiting = [
    run.commit(batchOf(...blocks.slice(4, 7))),
    store.commit(batchOf(...blocks.slice(16, 18))),
  ].map((commit) => expect(commit).rejects.toBe(failure));
  fail?.();
  await Promise.all([other, ...waiting]);
  expectNoneOpen();
  await store.close();

  database.beforeWrite = () => Promise.resolve();
  const again = await storeOver(database, true);
  again.stage(blocks[16]!);
  await again.close();
  await expect(again.commit(batchOf(blocks[16]!))).rejects.toThrow('closed');
  expectNoneOpen();
});

it('batches of LevelDB are lent once, and take nothing when they are over', async () => {
  const database = await freshDatabase();
  const batch = database.batch();
  batch.put(key, key);
  await batch.write();
  batch[Symbol.dispose]();
  batch[Symbol.dispose]();
  const [first, second] = [database.batch(), database.batch()];
  expect(() => batch.put(key, Buffer.from('late'))).toThrow('over');
  first.put(Buffer.from('one'), key);
  second[Symbol.dispose]();
  await first.write();
  expect(await database.get(Buffer.from('one'))).toEqual(key);
  expect(await database.get(key)).toEqual(key);
});

// LevelDB's lock is taken on the calling thread, and a write keeps it while it creates a file on a disk that hangs.
it('batches of LevelDB are over before any read begins', async () => {
  const database = await freshDatabase();
  const around = { gte: key, lt: Buffer.from('kez') };
  const reads: readonly (() => Promise<unknown>)[] = [
    () => database.get(key),
    async () => (await database.getMany([key]))[0],
    async () => (await database.first({}, 1))[0],
    () => database.lastKey(around),
    async () => (await database.pages({}).next()).value,
  ];
  for (const read of reads) {
    using removing = database.batch();
    removing.del(key);
    await removing.write();
    const written = put(database, key);
    // A read that began at once would not find it.
    expect(await read(), read.toString()).toBeDefined();
    await written;
  }
  // Reads have their turn although writes never end.
  let isOver = false;
  const writing = async (): Promise<void> => {
    while (!isOver) await put(database, key);
  };
  const writers = [writing(), writing()];
  for (const read of reads) expect(await read()).toBeDefined();
  isOver = true;
  await Promise.all(writers);
});

it.each<[string, (database: Database) => Promise<() => Promise<unknown>>]>([
  ['pages', (database) => afterFirst(database.pages({}))],
  ['the highest key', async (database) => () => database.lastKey({ gte: Buffer.of(0), lt: Buffer.of(255) })],
])('batches of LevelDB are over before a read ends that was open when they began: %s', async (_, begin) => {
  const database = await freshDatabase();
  const write = (name: string) => put(database, Buffer.from(name), Buffer.alloc(200_000));
  await write('a');
  for (let round = 0; round < 5; round += 1) {
    const order: string[] = [];
    const end = await begin(database);
    const ended = end().then(() => order.push('read'));
    const written = write(`b${round}`).then(() => order.push('written'));
    await Promise.all([written, ended]);
    expect(order).toEqual(['written', 'read']);
  }
});

/** Reads the first page; the result ends the reading. */
async function afterFirst<T>(pages: AsyncGenerator<T[], void>): Promise<() => Promise<unknown>> {
  await pages.next();
  return () => Promise.resolve().then(() => pages.return(undefined));
}

it('a rewind that overtakes a read has it find nothing, which is no damage', async () => {
  const path = await closedStore(chain);
  // Reads of records are held until the rewind is over; those of pointers are not.
  let isHeld = true;
  const held: (() => void)[] = [];
  const hold = (): Promise<void> => new Promise((resolve) => (isHeld ? held.push(resolve) : resolve()));
  const isRecord = (key: Buffer): boolean => key[0] === 0x10;
  const store = await openOver(path, (database) => ({
    get: async (key) => {
      if (isRecord(key) && held.length > 0) await hold();
      return database.get(key);
    },
    getMany: async (keys) => {
      if (keys.some(isRecord)) await hold();
      return database.getMany(keys);
    },
  }));
  const [collection] = chain[2]!.collections;
  const read: Promise<unknown>[] = [store.item('transaction', transactionIdsOf(collection!)[0]!)];
  read.push(store.item('collection', collection!.id));
  await vi.waitFor(() => expect(held).toHaveLength(2), PATIENCE);
  read.push(store.blockByHeight(3), store.blockById(chain[2]!.block.id));
  await vi.waitFor(() => expect(held).toHaveLength(4), PATIENCE);
  isHeld = false;
  // The rewind looks at what it forgets, so it passes; the four wait.
  await store.rewind(2);
  for (const go of held) go();
  expect(await Promise.all(read)).toEqual(read.map(() => undefined));
  await store.close();
});

const MAX_ABOVE = 4096;
// No one of them is the parent of another: nothing is asserted of neighbours that are not there.
const spaced = Array.from({ length: MAX_ABOVE + 1 }, (_, index) =>
  makeBlock(3 + 2 * index, chain[0]!.block.id, []),
);

it('blocks above the watermark are bounded, at the commit and at the open', async () => {
  const path = await freshPath();
  const store = await filled(chain.slice(0, 1), path);
  const tooMany = store.commit({ blocks: spaced, latestIndexedHeight: 1 });
  await expect(tooMany).rejects.toThrow('more than 4096 blocks would be above the watermark');
  await store.commit({ blocks: spaced.slice(0, MAX_ABOVE), latestIndexedHeight: 1 });
  await store.close();
  const again = await open(path);
  expect(again.blocksAboveWatermark()).toHaveLength(MAX_ABOVE);
  await again.close();

  const other = await freshPath();
  await (await begin(open(other), 1, [spaced[MAX_ABOVE]!], 0)).close();
  const records = (await rawEntries(other)).filter(([key]) => key[0] === 0x10);
  await withRawDatabase(path, async (database) => {
    for (const [key, value] of records) await database.put(key, value);
  });
  const error = fault('corrupt', 'more than 4096 blocks are stored above height 1');
  await expect(open(path)).rejects.toMatchObject(error);
});

it.each<[number[], number]>([
  [[3], 2],
  [[2], 1],
  [[3, 2, 1], 0],
])('damaged blocks above the watermark are taken back before any commit: %j', async (damaged, latest) => {
  const path = await freshPath();
  const store = await filled(chain.slice(0, 2), path);
  await store.commit({ blocks: [chain[2]!], latestIndexedHeight: 2 });
  await store.close();
  await withRawDatabase(path, async (database) => {
    for (const height of damaged) await database.put(keyOf(0x10, height), Buffer.alloc(9));
  });
  const again = await open(path);
  const batch = batchOf(chain[latest]!);
  await expect(again.commit(batch)).rejects.toThrow('what is damaged has not been taken back');
  // To forget what is above the watermark begins with that.
  await (damaged.length > 1 ? again.takeBackDamage() : again.forgetAbove());
  expect([again.latestIndexedHeight(), again.blocksAboveWatermark()]).toEqual([latest, []]);
  await again.commit(batch);
  expect(await digestOf(again)).toBe(await digestOf(await filled(chain.slice(0, latest + 1))));
});

it('a batch of many large blocks lets others have their turn, one of a few small ones does not', async () => {
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
  const store = await begin(open(await freshPath(), {}, new RecordingLogger(), counting), 1);
  const large = chainWith(1, 8, (index) => [seededCollection(`large ${index}`, 1, 100 * 1024)]);
  await store.commit(batchOf(large[0]!));
  expect(turns).toBe(0);
  await store.commit(batchOf(...large.slice(1)));
  expect(turns).toBe(3);
  expect((await store.check({ from: 1, to: 8 })).damages).toEqual([]);
});

it('LevelDB hands out transactions that pin no larger buffer', async () => {
  const collection = seededCollection('a', 50, 4 * 1024);
  const store = await filled(makeChain(1, [[collection]]));
  const { encoded } = (await store.item('transaction', transactionIdsOf(collection)[0]!))!;
  // Node.js 26 makes its pool a little larger than it says.
  const pool = Buffer.allocUnsafe(1).buffer;
  expect(encoded.buffer.byteLength).toBeLessThanOrEqual(Math.max(encoded.length, pool.byteLength));
});
