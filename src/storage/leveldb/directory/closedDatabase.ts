import { Level } from 'level';
import { causesOf, StorageError, storageErrorFrom } from '../../StorageError.js';

/** LevelDB's answer when the options forbid opening: it has taken the lock, and has not touched a file. */
const OPENING_FORBIDDEN = /exists \(error_if_exists is true\)|does not exist \(create_if_missing is false\)/;

/**
 * Makes sure that no other process uses a database, without opening it: opening a damaged one may delete what could
 * still be saved. Expected errors: `StorageError`.
 */
export async function assertUnused(path: string): Promise<void> {
  const level = new Level(path, { createIfMissing: false, errorIfExists: true });
  try {
    await level.open();
  } catch (error) {
    const fault = storageErrorFrom(error, 'open the store', path);
    if (fault instanceof StorageError) throw fault;
    if (!causesOf(error).some(({ message }) => OPENING_FORBIDDEN.test(message))) throw error;
  }
}

/** Builds a manifest for a directory of tables and logs that has none. Expected errors: `StorageError`. */
export async function rebuildManifest(path: string): Promise<void> {
  try {
    // The types cover only what Node and browsers share; this exists in Node's implementation alone.
    await (Level as unknown as { repair(location: string): Promise<void> }).repair(path);
  } catch (error) {
    throw storageErrorFrom(error, 'rebuild the manifest of the store', path);
  }
}
