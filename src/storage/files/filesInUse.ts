import { copyFile, link, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, StorageError, storageErrorFrom } from '../StorageError.js';
import { LOG_FILE, MANIFEST_FILE, numberOf, TABLE_FILE, tableName } from './format/fileNames.js';
import { parseManifest } from './format/manifest.js';
import type { Manifest } from './format/manifest.js';
import { readIfThere } from './format/readIfThere.js';
import { syncDirectory } from './syncDirectory.js';
import { syncFile, writeSynced } from './syncedFiles.js';

/** How often a compaction may delete files before they are linked. */
const ATTEMPTS_MAX = 50;
/** Files linked at once. */
const LINKS_AT_ONCE = 32;
/** Errors of `link` after which the bytes are copied instead: links are not possible here. */
const NO_LINK = ['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK', 'ENOSYS'];

const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EROFS'];

/** What a copy consists of. */
export interface CopiedFiles {
  readonly tables: number;
  /** Bytes of the tables that are hard links, which take no space. */
  readonly linkedBytes: number;
  /** Bytes of everything else. */
  readonly copiedBytes: number;
}

/** The manifest of the database at one moment. */
interface Moment {
  readonly current: Buffer;
  readonly manifestFile: string;
  readonly manifestBytes: Buffer;
  readonly manifest: Manifest;
}

/**
 * Fills a new directory with a copy of a database that may be in use, by this process or another. The copy is the
 * database as a crash during the call would have left it: whole batches, with none missing before the last.
 *
 * Tables never change and become hard links where the file system allows it. The logs are read after the manifest, so
 * they hold everything that its tables lack; the copy of a log that is being written ends at some batch. When a
 * compaction deletes a file first, the copy begins again with the new manifest. Expected errors: `StorageError`.
 */
export async function copyFilesInUse(path: string, copy: string): Promise<CopiedFiles> {
  try {
    await mkdir(copy, { mode: 0o700 });
    const done = new Map<number, 'linked' | 'copied'>();
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const copied = await tryCopy(path, copy, done);
      if (copied !== undefined) return copied;
    }
  } catch (error) {
    // Only writes to the copy can fail like this.
    if (NO_ROOM.some((code) => hasCode(error, code)))
      throw storageErrorFrom(error, 'write a copy of the store', copy);
    throw storageErrorFrom(error, 'copy the files of the store', path);
  }
  throw new StorageError(
    'io',
    `The files of ${path} change faster than they can be linked. Try again later.`,
  );
}

/** `undefined` when a file was deleted meanwhile. `done`: the tables that are in the copy already. */
async function tryCopy(
  path: string,
  copy: string,
  done: Map<number, 'linked' | 'copied'>,
): Promise<CopiedFiles | undefined> {
  const moment = await readMoment(path);
  if (moment === undefined) return undefined;
  const { tables } = moment.manifest;
  const logs = await copyLogs(path, copy, moment.manifest.logNumber);
  if (logs === undefined || !(await linkTables(path, copy, [...tables.keys()], done))) return undefined;
  await removeOthers(copy, tables);
  await writeSynced(join(copy, moment.manifestFile), moment.manifestBytes, 'w');
  await writeSynced(join(copy, 'CURRENT'), moment.current, 'w');
  await syncDirectory(copy);
  let [linkedBytes, copiedBytes] = [0, logs + moment.manifestBytes.length];
  for (const [number, bytes] of tables) {
    if (done.get(number) === 'linked') linkedBytes += bytes;
    else copiedBytes += bytes;
  }
  return { tables: tables.size, linkedBytes, copiedBytes };
}

/** `undefined` when a manifest was replaced while it was read. Expected errors: `StorageError` (`corrupt`). */
async function readMoment(path: string): Promise<Moment | undefined> {
  const current = await readFile(join(path, 'CURRENT'));
  const manifestFile = current.toString('latin1').trimEnd();
  const manifestBytes = MANIFEST_FILE.test(manifestFile) && (await readIfThere(join(path, manifestFile)));
  if (manifestBytes === undefined) return undefined;
  const manifest = manifestBytes === false ? undefined : parseManifest(manifestBytes);
  if (manifest === undefined || manifestBytes === false) {
    const what = `The manifest of the store at ${path} is damaged: nothing can be copied. Run "verify".`;
    throw new StorageError('corrupt', what);
  }
  return { current, manifestFile, manifestBytes, manifest };
}

/** Returns the bytes of the logs; `undefined` when one that the manifest needs has been deleted. */
async function copyLogs(path: string, copy: string, from: number): Promise<number | undefined> {
  const numbers = (await readdir(path))
    .map((name) => numberOf(LOG_FILE, name))
    .filter((number) => number >= from)
    .sort((left, right) => left - right);
  if (from > 0 && numbers[0] !== from) return undefined;
  let bytes = 0;
  for (const number of numbers) {
    const name = `${String(number).padStart(6, '0')}.log`;
    const content = await readIfThere(join(path, name));
    if (content === undefined) return undefined;
    await writeSynced(join(copy, name), content, 'w');
    bytes += content.length;
  }
  return bytes;
}

/** False when one of them has been deleted. */
async function linkTables(
  path: string,
  copy: string,
  tables: readonly number[],
  done: Map<number, 'linked' | 'copied'>,
): Promise<boolean> {
  const missing = tables.filter((number) => !done.has(number));
  for (let at = 0; at < missing.length; at += LINKS_AT_ONCE) {
    const some = missing.slice(at, at + LINKS_AT_ONCE);
    const ways = await Promise.all(some.map((number) => linkOrCopy(path, copy, tableName(number))));
    for (const [index, way] of ways.entries()) {
      if (way === undefined) return false;
      done.set(some[index] ?? -1, way);
    }
  }
  return true;
}

async function linkOrCopy(path: string, copy: string, name: string) {
  const [from, to] = [join(path, name), join(copy, name)];
  try {
    await link(from, to);
    return 'linked';
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return 'linked';
    if (hasCode(error, 'ENOENT')) return undefined;
    if (!NO_LINK.some((code) => hasCode(error, code))) throw error;
  }
  try {
    await copyFile(from, to);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
  await syncFile(to);
  return 'copied';
}

/** Removes the tables of an earlier attempt that the manifest no longer names. */
async function removeOthers(copy: string, tables: ReadonlyMap<number, number>): Promise<void> {
  for (const name of await readdir(copy)) {
    const number = numberOf(TABLE_FILE, name);
    if (number >= 0 && !tables.has(number)) await rm(join(copy, name));
  }
}
