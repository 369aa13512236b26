import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StorageError, storageErrorFrom } from './StorageError.js';

/** What a store contains may be read by its owner alone. */
const DIRECTORY_MODE = 0o700;

/** LevelDB's own files. */
const DATABASE_FILE = /^(?:CURRENT|LOCK|LOG(?:\.old)?|MANIFEST-\d+|\d+\.(?:ldb|sst|log|dbtmp))$/;
const DATA_FILE = /^\d+\.(?:ldb|sst)$/;

/**
 * Makes sure that LevelDB may open `path`: it makes the directory when there is none (`create`), and refuses one that
 * holds something else. LevelDB by itself would make a new database in it, and would delete the tables of an old one
 * whose `CURRENT` file is lost.
 *
 * Expected errors: `StorageError` (`missing`, `not_a_store`, `corrupt`, `permission`, …).
 */
export async function prepareDirectory(path: string, create: boolean): Promise<void> {
  const names = await list(path);
  if (names?.includes('CURRENT') === true) return;
  const foreign = (names ?? []).filter((name) => !DATABASE_FILE.test(name));
  if (foreign.length > 0) {
    throw new StorageError(
      'not_a_store',
      `${path} is not a store: it holds other files (${foreign.slice(0, 3).join(', ')}${foreign.length > 3 ? ', …' : ''}). ` +
        'Choose another directory, or an empty one.',
    );
  }
  if (names?.some((name) => DATA_FILE.test(name)) === true) {
    throw new StorageError(
      'corrupt',
      `The store at ${path} is damaged: its CURRENT file is lost while its tables are there. ` +
        'Restore the directory from a copy, or remove it and index anew.',
    );
  }
  if (!create) {
    throw new StorageError(
      'missing',
      `There is no store at ${path}. Check the network and the data directory, or run "start" first.`,
    );
  }
  if (names !== undefined) return;
  try {
    await mkdir(path, { recursive: true, mode: DIRECTORY_MODE });
  } catch (error) {
    throw storageErrorFrom(error, 'make the directory of the store', path);
  }
}

/** The names in a directory; `undefined` when there is none. */
async function list(path: string): Promise<string[] | undefined> {
  try {
    return await readdir(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw storageErrorFrom(error, 'read the directory of the store', path);
  }
}

/**
 * What LevelDB threw away of a damaged write-ahead log when it was opened just now: it tells nobody but its own log
 * file. Empty after any clean stop, and after a crash as well (a record cut short by a crash is no damage).
 */
export async function droppedAtOpen(path: string): Promise<readonly string[]> {
  try {
    const log = await readFile(join(path, 'LOG'), 'utf8');
    return log.split('\n').filter((line) => /dropping \d+ bytes/.test(line));
  } catch {
    // Without the file nothing is known, which is no fault of the data.
    return [];
  }
}
