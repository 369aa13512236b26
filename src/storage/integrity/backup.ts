import { readdir } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import type { Clock } from '../../runtime/index.js';
import { copyFiles, type CopiedFiles } from '../files/copyFiles.js';
import { CoverageNote } from '../leveldb/directory/CoverageNote.js';
import { makeBeside, prepareDirectory } from '../leveldb/directory/storeDirectory.js';
import { LevelIndexStore } from '../leveldb/LevelIndexStore.js';
import { without, type HeightRanges } from '../records/heightRanges.js';
import { hasCode, StorageError, storageErrorFrom } from '../StorageError.js';
import type { VerifyDependencies } from './verify/verifyStore.js';

export interface BackupReport extends CopiedFiles {
  /** The heights that the copy holds. */
  readonly coverage: HeightRanges;
  /** Heights that were durable in the store before, and are not in the copy: files have been lost, or were while it was made. */
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
  await refuseTaken(to);
  return makeBeside('backup', to, 'copy the store', async (partial) => {
    const durable = await CoverageNote.read(path);
    const copied = await copyFiles(path, partial, dependencies);
    const store = await LevelIndexStore.open({ path: partial, chainId, create: false }, dependencies);
    const coverage = store.coverage();
    await store.close();
    // What a daemon has taken out meanwhile, to heal it, is not lost.
    const takenOut = without(durable, await CoverageNote.read(path));
    return { ...copied, coverage, lost: without(without(durable, takenOut), coverage) };
  });
}

async function refuseTaken(to: string): Promise<void> {
  let names: readonly string[];
  try {
    names = await readdir(to);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return;
    throw storageErrorFrom(error, 'write a copy of the store', to);
  }
  if (names.length === 0) return;
  const what = `${to} is not empty, and a backup never replaces anything. Name a directory that does not exist yet.`;
  throw new StorageError('not_a_store', what);
}
