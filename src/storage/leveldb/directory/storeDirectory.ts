import { lchown, mkdir, readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { lockNamed } from '../../lockHolder.js';
import { hasCode, StorageError, storageErrorFrom } from '../../StorageError.js';

/** LevelDB's own files, `coverageNote` beside them, and a note that earlier versions left. */
export const DATABASE_FILE =
  /^(?:CURRENT|LOCK|LOG(?:\.old)?|MANIFEST-\d+|\d+\.(?:ldb|sst|log|dbtmp)|COVERAGE(?:\.new)?|SUSPECTS)$/;
const DATA_FILE = /^\d+\.(?:ldb|sst|log)$/;

/** What a killed command leaves beside a store, and the advice. */
const unfinished = {
  /** The damaged store, until the repaired one takes its place. */
  repair: ['.damaged', 'corrupt', 'Nothing is lost: run "repair --yes" again'],
  /** The restored one, until it is verified. */
  restore: ['.restored', 'not_a_store', 'Run it again, or delete what it left, for a new store'],
  /** The copy, until it could be opened. */
  backup: ['.partial', 'not_a_store', 'Make it again, or delete what it left'],
} as const;
type Unfinished = keyof typeof unfinished;

/** Where a command keeps what is not yet, or no longer, the store at `path`. */
export function besideOf(path: string, command: Unfinished): string {
  return path + unfinished[command][0];
}

/** Where a link to a store leads: what is made beside it, to take its place, must be on the same disk. */
export const realPlace = (path: string): Promise<string> => realpath(path).catch(() => path);

/** `realPlace` of a store that another is to replace. Expected errors: `StorageError` (`io`) where none can. */
export async function replaceablePlace(place: string): Promise<string> {
  const path = await realPlace(place);
  const [own, above] = await Promise.all([path, dirname(path)].map((at) => stat(at).catch(() => undefined)));
  if (own === undefined || own.dev === above?.dev) return path;
  throw new StorageError(
    'io',
    `${path} is where a disk is mounted, and cannot be replaced. Move what is on that disk to a folder ${basename(path)} of it, ` +
      `mount the disk at ${dirname(path)} instead, and try again.`,
  );
}

/**
 * Makes sure that `path` may be a store: creates a missing directory (`create`), and refuses one that holds something
 * else, in which LevelDB would create a new database.
 *
 * Expected errors: `StorageError` (`missing`, `not_a_store`, `corrupt`, `permission`, …).
 */
export async function prepareDirectory(path: string, create: boolean): Promise<void> {
  const names = await namesIn(path);
  if (names?.includes('CURRENT') === true) return refuseUnderRepair(path);
  const foreign = (names ?? []).filter((name) => !DATABASE_FILE.test(name));
  if (foreign.length > 0) {
    throw new StorageError(
      'not_a_store',
      `${path} is not a store: it holds other files (${foreign.slice(0, 3).join(', ')}${foreign.length > 3 ? ', …' : ''}). ` +
        'Choose another directory, or an empty one.',
    );
  }
  // Possibly a store that lost its CURRENT file: LevelDB must open it, not create one.
  if (names?.some((name) => DATA_FILE.test(name)) === true) return;
  await refuseUnfinished(path);
  const above = dirname(path);
  if (names === undefined && (await namesIn(above))?.includes('CURRENT') === true) {
    throw new StorageError(
      'not_a_store',
      `${above} is the folder of a store itself. Name the data directory that it is in: ${dirname(above)}.`,
    );
  }
  if (!create) {
    throw new StorageError(
      'missing',
      `There is no store at ${path}. Check the network and the data directory, or run "start" first.`,
    );
  }
  if (names === undefined) await makeDirectory(path);
}

/** Where a repair builds the repaired store. */
export const repairedOf = (path: string): string => `${path}.repaired`;

/** Refuses a store under repair, which would give up, after hours perhaps, once the store was opened. A killed repair does not count. */
async function refuseUnderRepair(place: string): Promise<void> {
  const path = await realPlace(place);
  const copy = await stat(repairedOf(path)).catch(() => undefined);
  if (copy !== undefined) await runAlone('repair', path, () => Promise.resolve());
}

/** A new store would hide that a command was killed. */
async function refuseUnfinished(path: string): Promise<void> {
  for (const command of Object.keys(unfinished) as Unfinished[]) {
    const [, kind, advice] = unfinished[command];
    const beside = besideOf(path, command);
    if ((await namesIn(beside)) === undefined) continue;
    const what = `A ${command} of the store at ${path} was cut short. ${advice} (${beside}).`;
    await runAlone(command, path, () => Promise.reject(new StorageError(kind, what)));
  }
}

/**
 * Runs a command that makes or replaces the store at `path`, unless another process runs it there: each would delete what the
 * other has made so far. Expected errors: `StorageError` (`locked`); those of `work`.
 */
export async function runAlone<T>(command: Unfinished, path: string, work: () => Promise<T>): Promise<T> {
  const folder = await stat(dirname(path), { bigint: true }).catch(() => undefined);
  const place = folder === undefined ? path : `${folder.dev}-${folder.ino}-${basename(path)}`;
  const unlock = await lockNamed(`${command}-${place}`);
  const what = `A ${command} of the store at ${path} is under way. Wait until it ends.`;
  if (unlock === undefined) throw new StorageError('locked', what);
  return work().finally(unlock);
}

/**
 * Creates a directory for its owner only, with its parents, one by one: with `recursive`, Node reports a read-only file system as
 * a missing path. Expected errors: `StorageError`.
 */
export async function makeDirectory(path: string): Promise<void> {
  try {
    await makeAll(path);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw storageErrorFrom(error, 'create the directory', path);
    throw new StorageError(
      'missing',
      `The directory ${path} cannot be created: its file system takes no new directories. Choose another directory.`,
      { cause: error },
    );
  }
}

async function makeAll(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (!hasCode(error, 'ENOENT') || dirname(path) === path) throw error;
    await makeAll(dirname(path));
    await makeOne(path);
  }
}

/** Another process may create it first, which is fine. */
async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() === true) return;
    throw new StorageError(
      'missing',
      `${path} is a file, or a link to nowhere (a disk that is not mounted?). ` +
        'Fix it, or choose another directory.',
    );
  }
}

/**
 * Gives what root has written in another user's store to that user, whose daemon could not read it otherwise. Where the file system
 * keeps no owners, it does nothing. Only files of a database: that user may have put a link to other files here.
 */
export async function giveToOwner(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const places = [path, dirname(path)].map((at) => stat(at).catch(() => undefined));
  const owner = (await Promise.all(places)).find((found) => found !== undefined && found.uid !== 0);
  if (owner === undefined) return;
  const names = ((await namesIn(path)) ?? []).filter((name) => DATABASE_FILE.test(name));
  await Promise.allSettled(['', ...names].map((name) => lchown(join(path, name), owner.uid, owner.gid)));
}

/** The names in a directory; `undefined` when there is none. `doing` completes "Cannot …". Expected errors: `StorageError`. */
export async function namesIn(path: string, doing = 'read the directory of the store') {
  try {
    return await readdir(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw storageErrorFrom(error, doing, path);
  }
}

/** Bytes of the write-ahead logs, which hold the newest heights after a crash. Expected errors: `StorageError`. */
export async function logBytes(path: string): Promise<number> {
  const logs = ((await namesIn(path)) ?? []).filter((name) => name.endsWith('.log'));
  let bytes = 0;
  // One that LevelDB deletes meanwhile counts as 0.
  for (const name of logs) bytes += (await stat(join(path, name)).catch(() => undefined))?.size ?? 0;
  return bytes;
}

/** False for a directory in which nothing was ever stored. */
export async function holdsData(path: string): Promise<boolean> {
  return (await namesIn(path))?.some((name) => name === 'CURRENT' || DATA_FILE.test(name)) === true;
}

/**
 * What LevelDB dropped from a damaged write-ahead log at this open, which it reports in its own log file only. Empty
 * after a clean stop, and after a crash as well (a record that a crash cut short is not damage).
 */
export async function droppedAtOpen(path: string): Promise<readonly string[]> {
  // A missing log file is not a fault of the data.
  const log = await readFile(join(path, 'LOG'), 'utf8').catch(() => '');
  return log.split('\n').filter((line) => /dropping \d+ bytes/.test(line));
}
