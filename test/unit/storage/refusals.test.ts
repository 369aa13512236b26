import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { logBytes, StorageError, syncDirectory, type StorageErrorKind } from '../../../src/storage/index.js';
import { storageErrorFrom } from '../../../src/storage/StorageError.js';
import { fault, flip, plainChain, rawEntries, RecordingLogger, refusal } from '../../support/index.js';
import { sealed, useStores, withRawDatabase } from '../../support/index.js';

const chain = plainChain(100, 3);

const { open, freshPath, closedStore, changedStore } = useStores();

/** In use by another process: test/e2e/commands.test.ts. */
it('a store is not opened for a newer schema, whatever else its meta record holds', async () => {
  const key = Buffer.of(1);
  const meta = Buffer.from('{"schemaVersion":99,"chainId":"flow-localnet","sporks":"moved elsewhere"}');
  const path = await changedStore(chain, (database) => database.put(key, sealed(key, meta)));
  const error = refusal('configuration', /newer version.*schema 99.*Upgrade/s);
  await expect(open(path)).rejects.toMatchObject(error);
});

it('a store is not opened at a link to nowhere, or where the file system takes no directory', async () => {
  const path = await freshPath();
  await symlink(`${path}.nowhere`, path);
  await expect(open(path)).rejects.toMatchObject(refusal('storage', /a link to nowhere/));
  const error = fault('missing', /takes no new directories\. Choose another directory/);
  await expect(open('/proc/fci/store')).rejects.toMatchObject(error);
});

it('a store is not opened whose logs are counted beforehand, where there are any', async () => {
  expect(await logBytes(await freshPath())).toBe(0);
  const path = await closedStore(chain);
  await writeFile(join(path, '999990.log'), 'four');
  await symlink('/nowhere', join(path, '999991.log'));
  expect(await logBytes(path)).toBeGreaterThanOrEqual(4);
});

it('a store is not opened in a directory of other files, or in the database of another program', async () => {
  const path = await freshPath();
  await mkdir(path);
  await writeFile(join(path, 'holiday.jpg'), '');
  await expect(open(path)).rejects.toMatchObject(fault('not_a_store', 'holiday.jpg'));
  expect(await readdir(path)).toEqual(['holiday.jpg']);
  const other = await freshPath();
  await withRawDatabase(other, (database) => database.put(Buffer.from('hello'), Buffer.from('world')));
  await expect(open(other)).rejects.toMatchObject({ kind: 'not_a_store' });
  expect(await rawEntries(other)).toHaveLength(1);
});

it.each<[string, Buffer, RegExp]>([
  ['meta', Buffer.of(1), /meta record: its checksum/],
  ['progress', Buffer.of(2), /progress record: its checksum/],
])('a store is not opened when a record is damaged or missing: %s', async (_, key, message) => {
  const path = await changedStore(chain, (database) => flip(database, key));
  await expect(open(path)).rejects.toMatchObject(fault('corrupt', message));
  await withRawDatabase(path, (database) => database.del(key));
  await expect(open(path)).rejects.toBeInstanceOf(StorageError);
});

it('a directory is made for its owner alone, with its parents', async () => {
  const path = join(await freshPath(), 'a', 'b');
  await open(path);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  expect((await stat(dirname(path))).mode & 0o777).toBe(0o700);
});

// As a folder that a virtual machine shares.
it('what cannot sync a directory may be written to', () =>
  expect(syncDirectory('/proc')).resolves.toBeUndefined());

const mapped = (error: unknown) => storageErrorFrom(error, 'open the store', '/data');

it.each<[string, StorageErrorKind, string?]>([
  ['IO error: /data/LOCK: Permission denied', 'permission'],
  ['IO error: lock /data/LOCK: Permission denied', 'permission'],
  ['IO error: lock /data/LOCK: Resource temporarily unavailable', 'locked'],
  ['IO error: /data/000007.log: No space left on device', 'disk_full'],
  ['IO error: /data/000007.log: Disk quota exceeded', 'disk_full'],
  ['IO error: /data/LOCK: Read-only file system', 'read_only'],
  ['IO error: /data/000012.ldb: Too many open files', 'too_many_files'],
  ['IO error: /data/000012.ldb: Input/output error', 'io', 'check the disk'],
  ['IO error: lock /data/LOCK: No locks available', 'io', 'a local disk'],
  ['IO error: /data/000012.ldb: No such device', 'io', 'a local disk'],
  ['IO error: /share/index: Invalid argument', 'io', 'a local disk'],
  ['IO error: /data/000007.log: File too large', 'io', 'ulimit -f'],
  ['IO error: /data/000012.ldb: Cannot allocate memory', 'io', 'vm.max_map_count'],
  ['Corruption: block checksum mismatch', 'corrupt'],
])('a write that fails %s is %s', (message, kind, advice = '') => {
  const inner = Object.assign(new Error(message), { code: 'LEVEL_IO_ERROR' });
  const outer = new Error('Database failed to open', { cause: inner });
  expect(mapped(outer)).toMatchObject(fault(kind, message));
  expect(mapped(outer)).toMatchObject(fault(kind, advice));
});

it.each(['EACCES', 'ENOENT', 'ENOTEMPTY', 'ENOSPC', 'EROFS', 'EMFILE', 'EIO'])(
  'a write that fails %s is known by code alone',
  (code) => {
    const error = Object.assign(new Error('no words'), { code });
    expect(mapped(error)).toMatchObject({ exit: 'storage', cause: error });
  },
);

it('a write that fails leaves an error that is none of the disk alone, and does not go round in a circle of causes', () => {
  const circle = new Error('outer');
  circle.cause = circle;
  const numbered = Object.assign(new Error('no words'), { code: 28 });
  const own = new StorageError('missing', 'there is none');
  for (const error of [new TypeError('no function'), numbered, 'EIO', own, circle])
    expect(mapped(error)).toBe(error);
});

it('a damaged write-ahead log in its last batch is cut short by the database, and the store says so', async () => {
  // A log with two batches, the last of which is damaged: it cannot be told from one that a crash cut short.
  const path = await changedStore(chain, async (database) => {
    await database.put(Buffer.from('zz1'), Buffer.alloc(100, 1));
    await database.put(Buffer.from('zz2'), Buffer.alloc(100, 2));
  });
  const log = (await readdir(path)).find((name) => name.endsWith('.log'))!;
  const bytes = await readFile(join(path, log));
  bytes[bytes.length - 1]! ^= 1;
  await writeFile(join(path, log), bytes);
  const logger = new RecordingLogger();
  await open(path, {}, logger);
  const damaged = 'the write-ahead log was damaged: what could not be read has been dropped';
  expect(logger.messages()).toContain(damaged);
});
