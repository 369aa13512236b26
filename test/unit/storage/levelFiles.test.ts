import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observability/index.js';
import { repairStore, verifyStore } from '../../../src/storage/index.js';
import type { VerifyReport } from '../../../src/storage/index.js';
import type { TableBlock } from '../../support/levelFiles.js';
import {
  LOG_BLOCK_BYTES,
  logFile,
  logPart,
  logParts,
  logRecords,
  PLAIN,
  sealedBlock,
  SNAPPY,
  tableBlocks,
  varint,
  withIndex,
} from '../../support/levelFiles.js';
import { snappyOf, unsnappyOf } from '../../support/snappy.js';
import { heal } from '../../support/ranges.js';
import { makeChain, seededCollection } from '../../support/storeBlocks.js';
import { TEST_CHAIN, useStores } from '../../support/storeDirectory.js';
import { digestOf } from '../../support/storeDigest.js';

/** Files of the database that match all their checksums, and are wrong nevertheless; or right, and of unusual make. */

const LAST = 40;
const chain = makeChain(
  1,
  Array.from({ length: LAST }, (_, index) => [seededCollection(`f${index}`, 1 + (index % 3), 300)]),
);
const { filled, freshPath, open, closedStore } = useStores();

const fileOf = async (path: string, kind: RegExp): Promise<string> => {
  const name = (await readdir(path))
    .filter((each) => kind.test(each))
    .sort()
    .at(-1);
  return join(path, name ?? expect.unreachable(`no file like ${String(kind)}`));
};
const verify = (path: string): Promise<VerifyReport> =>
  verifyStore({ path, chainId: TEST_CHAIN }, { logger: silentLogger });
const messagesOf = ({ damages }: VerifyReport): string[] => damages.map(({ message }) => message);

/** The store is refused with these words, a repair loses nothing, and afterwards it opens. */
async function expectRefusedAndMended(path: string, words: string): Promise<void> {
  await expect(open(path)).rejects.toMatchObject({
    kind: 'corrupt',
    message: expect.stringContaining(words) as string,
  });
  expect(messagesOf(await verify(path)).join('\n')).toContain(words);
  const repaired = await repairStore({ path, chainId: TEST_CHAIN, apply: true }, { logger: silentLogger });
  expect(repaired).toMatchObject({ keptThrough: LAST, applied: true });
  const store = await open(path);
  expect(store.latestIndexedHeight()).toBe(LAST);
  await store.close();
}

describe('a manifest', () => {
  const words = 'its records do not match their checksums, or are not all there';
  const [LOG_NUMBER, NEXT_FILE, LAST_SEQUENCE, COMPACTION] = [2, 3, 4, 5];

  it.each<[string, readonly number[]]>([
    ['of a field that there is not', [99]],
    ['of a number that does not end', [LOG_NUMBER, 0x80]],
    ['of a key that goes on beyond its record', [COMPACTION, 0, 0x7f]],
  ])('with a record %s is refused', async (_, record) => {
    const path = await closedStore(chain);
    const file = await fileOf(path, /^MANIFEST/);
    const sound = await readFile(file);
    await writeFile(file, logFile(...logRecords(sound), Buffer.from(record)));
    await expectRefusedAndMended(path, words);
  });

  it.each<[string, readonly number[]]>([
    ['log', [NEXT_FILE, 100, LAST_SEQUENCE, 0]],
    ['next file', [LOG_NUMBER, 0, LAST_SEQUENCE, 0]],
    ['last sequence number', [LOG_NUMBER, 0, NEXT_FILE, 100]],
  ])('that names no %s is refused', async (_, record) => {
    const path = await closedStore(chain);
    await writeFile(await fileOf(path, /^MANIFEST/), logFile(Buffer.from(record)));
    await expectRefusedAndMended(path, words);
  });

  it('that names a table which was deleted later on is right', async () => {
    const path = await closedStore(chain);
    const file = await fileOf(path, /^MANIFEST/);
    const sound = await readFile(file);
    const [NEW_FILE, DELETED_FILE, TABLE] = [7, 6, 90];
    // Internal keys end with eight bytes of sequence number and kind.
    const key = Buffer.concat([Buffer.from([9]), Buffer.alloc(9, 1)]);
    const made = Buffer.concat([Buffer.of(NEW_FILE, 3, TABLE, 50), key, key]);
    await writeFile(file, logFile(...logRecords(sound), made, Buffer.of(DELETED_FILE, 3, TABLE)));
    const store = await open(path);
    expect(store.latestIndexedHeight()).toBe(LAST);
  });
});

describe('a write-ahead log', () => {
  /** A batch without entries. */
  const batch = (sequence: number): Buffer => {
    const header = Buffer.alloc(12);
    header.writeBigUInt64LE(BigInt(sequence));
    return header;
  };

  it.each<[string, Buffer, string]>([
    ['with a record that is too short for a batch', logFile(Buffer.alloc(5)), 'a batch that cannot be read'],
    ['that begins later than the tables end', logFile(batch(1e9)), 'batches that came before are missing'],
    ['with a hole', logFile(batch(1), batch(7)), 'batches that came before are missing'],
  ])('%s is refused', async (_, content, words) => {
    const path = await closedStore(chain);
    await writeFile(await fileOf(path, /\.log$/), content);
    await expectRefusedAndMended(path, words);
  });
});

describe('a write-ahead log of several blocks', () => {
  /** As much as fits beside the header of its part, and then less than a header. */
  const part = (type: number, left = 0): Buffer =>
    Buffer.concat([logPart(type, Buffer.alloc(LOG_BLOCK_BYTES - 7 - left, 7)), Buffer.alloc(left)]);
  const nonsense = Buffer.alloc(LOG_BLOCK_BYTES, 0xff);
  const { first, last, middle, whole } = logParts;

  it.each<[string, readonly Buffer[]]>([
    ['the first part of a record', [part(first)]],
    ['parts of one record without its end', [part(first, 3), part(middle)]],
    [
      'parts of a record whose beginning was not written',
      [nonsense, part(middle), part(last).subarray(0, 500)],
    ],
    ['nothing that was written whole', [nonsense, nonsense.subarray(0, 700)]],
  ])('that ends with %s is that of a crash: the store opens', async (_, parts) => {
    const path = await closedStore(chain);
    await (await open(path)).close();
    await writeFile(await fileOf(path, /\.log$/), Buffer.concat(parts));
    for (const message of messagesOf(await verify(path)))
      expect(message).toMatch(/^the end of the write-ahead log was torn and has been dropped/);
    expect((await open(path)).latestIndexedHeight()).toBe(LAST);
  });

  it.each<[string, readonly Buffer[]]>([
    ['a record', [nonsense, part(whole)]],
    [
      'the end of one and the beginning of the next',
      [nonsense, logPart(last, nonsense.subarray(0, 9)), logPart(first, Buffer.alloc(900))],
    ],
  ])('in which %s follows on damage is refused', async (_, parts) => {
    const path = await closedStore(chain);
    await (await open(path)).close();
    await writeFile(await fileOf(path, /\.log$/), Buffer.concat(parts).subarray(0, 2 * LOG_BLOCK_BYTES));
    await expectRefusedAndMended(path, '.log: ');
  });
});

describe('a block of a table that matches its checksum and cannot be read', () => {
  const words =
    /^file \d+\.ldb: the block at offset \d+ \(\d+ bytes\) cannot be read though its checksum is right; heights that may be affected: .+$/;

  /** A closed store, its table, and those of the table's blocks that hold entries. */
  const storeWithTable = async () => {
    const path = await closedStore(chain);
    const name = await fileOf(path, /\.ldb$/);
    const table = await readFile(name);
    // Behind those with entries come filter, metaindex and index.
    return { path, name, table, blocks: tableBlocks(table).slice(0, -3) };
  };

  /** The damage is named, and a repair keeps what it did not hit. Gives the number of heights that are left. */
  const expectMended = async (path: string): Promise<number> => {
    const { damages, lowestDamagedHeight } = await verify(path);
    expect(lowestDamagedHeight).toBeDefined();
    expect(damages[0]).toMatchObject({ kind: 'database', message: expect.stringMatching(words) as string });
    const repaired = await repairStore({ path, chainId: TEST_CHAIN, apply: true }, { logger: silentLogger });
    expect(repaired.applied).toBe(true);
    expect(await verify(path)).toMatchObject({ damageCount: 0 });
    const store = await open(path);
    expect(store.coverage()).toEqual(repaired.kept);
    const left = repaired.kept.reduce((sum, { from, to }) => sum + to - from + 1, 0);
    await heal(store, chain);
    const sound = await filled(chain);
    expect(await digestOf(store)).toBe(await digestOf(sound));
    return left;
  };

  it('is damage of named heights, wherever it stands', async () => {
    const { blocks, name, path, table } = await storeWithTable();
    expect(blocks.length).toBeGreaterThan(5);
    const every = Math.ceil(blocks.length / 8);
    for (const [index, { offset, size }] of blocks.entries()) {
      if (index % every !== 0) continue;
      const changed = Buffer.from(table);
      // No length of something compressed begins so.
      sealedBlock(Buffer.alloc(size, 0xff), SNAPPY).copy(changed, offset);
      await writeFile(name, changed);
      const report = await verify(path);
      expect(messagesOf(report)[0], `block ${index}`).toMatch(words);
      // What other blocks hold was looked at all the same.
      expect(report.heights, `block ${index}`).toBeGreaterThan(LAST / 2);
    }
    await writeFile(name, table);
    expect(await verify(path)).toMatchObject({ damageCount: 0, heights: LAST });
  });

  /** A number in a form that is longer than it need be, which LevelDB takes. */
  const longVarint = (value: number, bytes: number): Buffer =>
    Buffer.from(
      Array.from({ length: bytes }, (_, nth) => ((value >> (7 * nth)) & 127) | (nth < bytes - 1 ? 128 : 0)),
    );
  const LENGTH_BYTES = 3;
  /** The beginning of an entry that needs no other one before it. */
  const entry = (key: Buffer, valueBytes: number, lengthBytes = LENGTH_BYTES): Buffer =>
    Buffer.concat([varint(0), varint(key.length), longVarint(valueBytes, lengthBytes), key]);
  /** So many bytes: the beginning, the last entry with a value that takes all the room, and one restart point. */
  const block = (size: number, before: Buffer, last: (valueBytes: number) => Buffer, restart = 0): Buffer => {
    const end = Buffer.alloc(8);
    end.writeUInt32LE(restart, 0);
    end.writeUInt32LE(1, 4);
    const valueBytes = size - before.length - last(0).length - end.length;
    return Buffer.concat([before, last(valueBytes), Buffer.alloc(valueBytes), end]);
  };
  const NOTHING = Buffer.alloc(0);
  const changedAt = (key: Buffer, fromEnd: number, value: number): Buffer => {
    const changed = Buffer.from(key);
    changed[key.length - fromEnd] = value;
    return changed;
  };

  /** Bodies stand under ascending heights, of eight bytes. */
  const BODY_PREFIX = 0x11;
  /** The first key of a block: its entry shares nothing with one before, and the length of its value may be long. */
  const firstKeyOf = (table: Buffer, { offset, size }: TableBlock): Buffer => {
    const stored = table.subarray(offset, offset + size);
    const plain = table[offset + size] === SNAPPY ? unsnappyOf(stored) : stored;
    let keyAt = 2;
    while (plain.readUInt8(keyAt++) >= 128);
    return Buffer.from(plain.subarray(keyAt, keyAt + plain.readUInt8(1)));
  };

  it.each<[string, (size: number, key: Buffer) => Buffer, number]>([
    [
      'has a compression that there is not',
      (size, key) => block(size, NOTHING, (rest) => entry(key, rest)),
      7,
    ],
    ['has more restart points than bytes', (size) => Buffer.alloc(size, 0x3f), PLAIN],
    ['begins within an entry', (size, key) => block(size, NOTHING, (rest) => entry(key, rest), 2), PLAIN],
    ['ends within an entry', (size, key) => block(size, NOTHING, (rest) => entry(key, rest + 1)), PLAIN],
    ['has a long length', (size, key) => block(size, NOTHING, (rest) => entry(key, rest, 6)), PLAIN],
    [
      'begins with the end of a key',
      (size) => block(size, NOTHING, (rest) => Buffer.from([9, 0, ...longVarint(rest, 3)])),
      PLAIN,
    ],
    [
      'has a short key',
      (size, key) => block(size, NOTHING, (rest) => entry(key.subarray(0, 7), rest)),
      PLAIN,
    ],
    [
      'has a kind of entry that there is not',
      (size, key) => block(size, NOTHING, (rest) => entry(changedAt(key, 8, 2), rest)),
      PLAIN,
    ],
    [
      'has a key of another place',
      (size, key) => block(size, NOTHING, (rest) => entry(changedAt(key, key.length, 255), rest)),
      PLAIN,
    ],
    ['has a key twice', (size, key) => block(size, entry(key, 0), (rest) => entry(key, rest)), PLAIN],
    [
      'has an older entry first',
      (size, key) => block(size, entry(key, 0), (rest) => entry(changedAt(key, 1, 9), rest)),
      PLAIN,
    ],
  ])('and %s: a repair keeps what it did not hit', async (_, contents, compression) => {
    const { blocks, name, path, table } = await storeWithTable();
    const [{ offset, size }, key] =
      blocks
        .map((each) => [each, firstKeyOf(table, each)] as const)
        .find(([, [prefix, ...rest]]) => prefix === BODY_PREFIX && (rest[7] ?? 0) > LAST / 2) ??
      expect.unreachable('no block begins with such a body');
    sealedBlock(contents(size, key), compression).copy(table, offset);
    await writeFile(name, table);
    const left = await expectMended(path);
    expect(left).toBeGreaterThanOrEqual(LAST / 2);
    expect(left).toBeLessThan(LAST);
  });
});

describe('the index of a table', () => {
  /** A store without a manifest, in which tables count whatever their size; the index of its table is another one. */
  const storeWith = async (indexOf: (contents: Buffer) => readonly [Buffer, number]): Promise<string> => {
    const path = await closedStore(chain);
    const tables = (await readdir(path)).filter((name) => name.endsWith('.ldb'));
    expect(tables).toHaveLength(1);
    const name = join(path, tables[0]!);
    const table = await readFile(name);
    const { offset, size } = tableBlocks(table).at(-1)!;
    const stored = table.subarray(offset, offset + size);
    const contents = table[offset + size] === SNAPPY ? unsnappyOf(stored) : stored;
    await writeFile(name, withIndex(table, ...indexOf(contents)));
    for (const other of await readdir(path)) {
      if (/^(?:CURRENT|MANIFEST)/.test(other)) await rm(join(path, other));
    }
    return path;
  };
  const ofTables = (report: VerifyReport): string[] =>
    messagesOf(report).filter((message) => /^file \d+\.ldb/.test(message));

  it('is understood however it is compressed', async () => {
    const makes: readonly ((contents: Buffer) => readonly [Buffer, number])[] = [
      (contents) => [contents, PLAIN],
      (contents) => [snappyOf(contents, { lengthBytes: 0 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 1 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 2 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 4 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 0, copies: 1 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 1, copies: 2 }), SNAPPY],
      (contents) => [snappyOf(contents, { lengthBytes: 1, copies: 3 }), SNAPPY],
    ];
    for (const [index, make] of makes.entries()) {
      const report = await verify(await storeWith(make));
      expect(messagesOf(report), `make ${index}`).toEqual(['file CURRENT: it is missing']);
      expect(report.heights).toBe(LAST);
    }
  });

  const ONE_RESTART = Buffer.of(0, 0, 0, 0, 1, 0, 0, 0);
  /** An entry without a key, whose value is all that counts. */
  const entry = (value: Buffer): Buffer =>
    Buffer.concat([Buffer.of(0, 0), varint(value.length), value, ONE_RESTART]);

  it.each<[string, Buffer, number]>([
    ['promises more than can be in it', Buffer.concat([varint(1e6), Buffer.of(0, 65)]), SNAPPY],
    ['copies what was not there yet', Buffer.of(20, 0, 65, 0b1_01, 9), SNAPPY],
    ['copies from where it writes', Buffer.of(20, 0, 65, 0b1_01, 0), SNAPPY],
    ['copies beyond its end', Buffer.of(3, 0, 65, 0b111_01, 1), SNAPPY],
    ['ends in a copy', Buffer.of(20, 0, 65, 0b1_10, 1), SNAPPY],
    ['ends in a literal', Buffer.of(20, 19 << 2, 65), SNAPPY],
    ['is shorter than it says', Buffer.of(20, 0, 65), SNAPPY],
    ['has a length without end', Buffer.alloc(12, 0x80), SNAPPY],
    ['is too short for its last number', Buffer.of(0, 0), PLAIN],
    ['has more restart points than bytes', Buffer.of(0xff, 0, 0, 0), PLAIN],
    ['locates a block outside the file', entry(Buffer.concat([varint(2 ** 40), varint(9)])), PLAIN],
    ['locates nothing', entry(Buffer.alloc(0)), PLAIN],
    ['has an entry that goes on behind its end', Buffer.concat([Buffer.of(0, 90, 3), ONE_RESTART]), PLAIN],
  ])('that %s is one of which nothing can be found', async (_, contents, compression) => {
    const report = await verify(await storeWith(() => [contents, compression]));
    expect(ofTables(report)).toEqual([expect.stringContaining('none of its entries can be found') as string]);
    expect(report.heights).toBe(0);
  });

  it('without entries, or only with lost ones, is one of a table that is left out', async () => {
    const empty = await verify(await storeWith(() => [Buffer.alloc(4), PLAIN]));
    expect(ofTables(empty)).toEqual([]);
    expect(empty.heights).toBe(0);

    const path = await storeWith((contents) => [contents, PLAIN]);
    const name = await fileOf(path, /\.ldb$/);
    const table = await readFile(name);
    for (const { offset } of tableBlocks(table).slice(0, -3))
      table.writeUInt8(table.readUInt8(offset) ^ 1, offset);
    await writeFile(name, table);
    const lost = await verify(path);
    expect(ofTables(lost)).not.toEqual([]);
    expect(lost.heights).toBe(0);
  });
});

describe('the directory of a store', () => {
  it('names some of the files that do not belong there, not thousands', async () => {
    const path = await freshPath();
    await mkdir(path);
    for (const name of ['a', 'b', 'c', 'd', 'e']) await writeFile(join(path, name), '');
    await expect(open(path)).rejects.toThrow('it holds other files (a, b, c, …)');
  });

  it('says how many more files are damaged', async () => {
    const path = await closedStore(chain);
    await writeFile(join(path, 'CURRENT'), '');
    await expect(open(path)).rejects.toThrow('file CURRENT: it does not name the manifest. ');
    await writeFile(await fileOf(path, /\.ldb$/), '');
    await expect(open(path)).rejects.toThrow('file CURRENT: it does not name the manifest (and 1 more). ');
  });

  it('is made beneath a new one by any number of stores at once', async () => {
    const parent = await freshPath();
    const paths = Array.from({ length: 6 }, (_, index) => join(parent, 'deep', 'down', `${index}`));
    const stores = await Promise.all(paths.map((path) => open(path)));
    expect(await readdir(join(parent, 'deep', 'down'))).toHaveLength(paths.length);
    for (const store of stores) expect(store.meta()).toBeUndefined();
  });

  it('is not made behind a link that leads nowhere: a disk may not be mounted', async () => {
    const link = await freshPath();
    await symlink(`${link}.elsewhere`, link);
    for (const path of [link, join(link, 'below')]) {
      await expect(open(path)).rejects.toMatchObject({
        name: 'StorageError',
        kind: 'missing',
        message: expect.stringContaining('not mounted') as string,
      });
    }
  });
});
