import { rename, rm } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import type { Clock } from '../../runtime/index.js';
import { copyFiles, type CopiedFiles } from '../files/copyFiles.js';
import { syncDirectory } from '../files/synced.js';
import { readCoverageNote } from '../leveldb/directory/coverageNote.js';
import { besideOf, makeDirectory, namesIn } from '../leveldb/directory/storeDirectory.js';
import { prepareDirectory, runAlone } from '../leveldb/directory/storeDirectory.js';
import { LevelIndexStore } from '../leveldb/LevelIndexStore.js';
import { without, type HeightRanges } from '../records/heightRanges.js';
import { StorageError, storageErrorFrom } from '../StorageError.js';
import type { VerifyDependencies } from './verify/verifyStore.js';

export interface BackupReport extends CopiedFiles {
  /** The heights that the copy holds. */
  readonly coverage: HeightRanges;
  /** Heights that were durable in the store and are not in the copy: files were lost before it was made, or meanwhile. */
  readonly lost: HeightRanges;
}

/**
 * Copies a store that may be in use. To the same file system this takes seconds, whatever the size. The copy counts as whole once it
 * could be opened.
 *
 * Expected errors: `StorageError` (`missing`, `corrupt`, `disk_full`, …; `not_a_store` when something is there already);
 * `OperatorError` (`foreign`, `configuration`); the signal's abort reason.
 */
export async function backupStore(
  { path, to, chainId }: { readonly path: string; readonly to: string; readonly chainId: string },
  dependencies: VerifyDependencies & { readonly clock: Clock },
): Promise<BackupReport> {
  await prepareDirectory(path, false);
  // A repair, which puts another directory in its place, would take the copy with it.
  if (resolve(to).startsWith(resolve(path) + sep))
    throw new StorageError(
      'not_a_store',
      `${to} is in the folder of the store itself. Name a directory outside of it.`,
    );
  if (((await namesIn(to, 'write a copy of the store')) ?? []).length > 0) {
    const what = `${to} is not empty, and a backup never replaces anything. Name a directory that does not exist yet.`;
    throw new StorageError('not_a_store', what);
  }
  return makeBeside('backup', to, 'copy the store', async (partial) => {
    const durable = await readCoverageNote(path);
    const copied = await copyFiles(path, partial, dependencies);
    const store = await LevelIndexStore.open({ path: partial, chainId, create: false }, dependencies);
    const coverage = store.coverage();
    await store.close();
    // Heights that a daemon took out meanwhile, to heal them, are not lost.
    const takenOut = without(durable, await readCoverageNote(path));
    return { ...copied, coverage, lost: without(without(durable, takenOut), coverage) };
  });
}

/**
 * Makes a store beside its final place, with its parent directories, and renames it once it is whole. The next command replaces
 * what a killed one left. `doing` completes "Cannot …". Expected errors: those of `runAlone` and `make`.
 */
export async function makeBeside<T>(
  command: 'backup' | 'restore',
  path: string,
  doing: string,
  make: (partial: string) => Promise<T>,
): Promise<T> {
  const partial = besideOf(path, command);
  await makeDirectory(dirname(path));
  return runAlone(command, path, async () => {
    try {
      await rm(partial, { recursive: true, force: true });
      const made = await make(partial);
      await rename(partial, path);
      await syncDirectory(dirname(path));
      return made;
    } catch (error) {
      // Files of a failed archive may still be arriving. The next attempt removes what cannot be removed now.
      await rm(partial, { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined);
      throw storageErrorFrom(error, doing, path);
    }
  });
}
