import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, storageErrorFrom } from '../StorageError.js';

/**
 * A note in the directory of the database, one file name per line: tables found damaged while the database was in use.
 * The next open checks these again, however old they are, and refuses the store while they are damaged. Without the
 * note a restart would serve the store until the damage is found again.
 */
export const SUSPECTS_FILE = 'SUSPECTS';

/** Empty where there is no note. Lines that name no table are ignored. Expected errors: `StorageError`. */
export async function readSuspects(path: string): Promise<ReadonlySet<string>> {
  try {
    const note = await readFile(join(path, SUSPECTS_FILE), 'utf8');
    return new Set(note.split('\n').filter((line) => line !== ''));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return new Set();
    throw storageErrorFrom(error, 'read the note of damaged tables', path);
  }
}

export async function noteSuspect(path: string, file: string): Promise<void> {
  const names = new Set([...(await readSuspects(path)), file]);
  await writeFile(join(path, SUSPECTS_FILE), [...names].map((name) => `${name}\n`).join(''), { mode: 0o600 });
}

export async function clearSuspects(path: string): Promise<void> {
  try {
    await rm(join(path, SUSPECTS_FILE), { force: true });
  } catch (error) {
    throw storageErrorFrom(error, 'remove the note of damaged tables', path);
  }
}
