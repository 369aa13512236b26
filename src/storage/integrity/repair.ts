import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { copyFiles } from '../files/copyFiles.js';
import { exists, syncDirectory } from '../files/synced.js';
import { LevelDatabase } from '../leveldb/directory/LevelDatabase.js';
import { assertUnused, defaultTuning, repairLevel } from '../leveldb/directory/openLevel.js';
import { damagedPathOf, prepareDirectory } from '../leveldb/directory/storeDirectory.js';
import { readingOn } from '../leveldb/reading/readingOn.js';
import type { HeightRanges } from '../records/heightRanges.js';
import { isCorruption, storageErrorFrom } from '../StorageError.js';
import { beyondRepair, forgetDamage } from './forgetDamage.js';
import type { VerifyReport } from '../verify/DamageList.js';
import { verifyStore } from './verify/verifyStore.js';
import type { VerifyDependencies } from './verify/verifyStore.js';

export interface RepairOptions {
  readonly path: string;
  readonly chainId: string;
  /** False: only report what would be kept. */
  readonly apply: boolean;
}

export interface RepairReport {
  /** What LevelDB says of its files. */
  readonly files: readonly string[];
  /** All damage, that of files included. 0: nothing was damaged, and nothing was changed. */
  readonly damageCount: number;
  readonly firstHeight: number | undefined;
  /** The watermark that the store claims, where readable. */
  readonly latestIndexedHeight: number | undefined;
  /** The watermark of the repaired store: first height - 1 when no height can be kept. */
  readonly keptThrough: number | undefined;
  /** What the repaired store holds; empty where nothing had to be repaired. */
  readonly kept: HeightRanges;
  /** Heights below the new watermark that were lost. A plan makes the daemon fill them in again. */
  readonly holes: HeightRanges;
  readonly applied: boolean;
}

/**
 * Repairs a damaged store: every sound block is kept unchanged, wherever it is, and its pointers are rebuilt from it.
 * Heights whose block is damaged become planned holes, which the daemon fills in after its next start. The repair works
 * on a copy beside the store, which shares its tables and replaces the store once `verifyStore`
 * finds no damage in it. Where LevelDB cannot open or read its files, its own repair comes first, which writes everything
 * anew. An interrupted repair can be run again.
 *
 * Expected errors: `StorageError` (`corrupt` when nothing can be kept; `locked`, `missing`, `disk_full`, …);
 * `OperatorError` (`foreign`, `configuration`); the signal's abort reason.
 */
export async function repairStore(
  options: RepairOptions,
  dependencies: VerifyDependencies,
): Promise<RepairReport> {
  const { path } = options;
  const copy = `${path}.repaired`;
  try {
    await undoInterrupted(path, copy);
    await prepareDirectory(path, false);
    await assertUnused(path);
    try {
      const report = await repairAt(copy, options, dependencies);
      if (report.damageCount === 0 || !options.apply) return report;
      // Checked again: the repair may have taken long.
      await assertUnused(path);
      await exchange(path, copy);
      return { ...report, applied: true };
    } finally {
      for (const left of [copy, `${copy}.new`]) await rm(left, { recursive: true, force: true });
    }
  } catch (error) {
    throw storageErrorFrom(error, 'repair the store', path);
  }
}

/** Fills `copy` with what can be kept. */
async function repairAt(
  copy: string,
  { path, chainId }: RepairOptions,
  dependencies: VerifyDependencies,
): Promise<RepairReport> {
  await copyFiles(path, copy);
  const verify = (): Promise<VerifyReport> => verifyStore({ path: copy, chainId }, dependencies);
  let found = await verify();
  const files = found.damages.filter(({ kind }) => kind === 'database').map(({ message }) => message);
  try {
    if (files.length > 0) {
      await repairLevel(copy);
      await writeAnew(copy);
      found = await verify();
    }
    const report = unchanged(found, files);
    if (report.damageCount === 0) return report;
    const kept = await forgetDamage(copy, path, found);
    const [left] = (await verify()).damages;
    if (left !== undefined) throw beyondRepair(path, left.message);
    return { ...report, ...kept };
  } catch (error) {
    if (!isCorruption(error) || error.damage !== undefined) throw error;
    throw beyondRepair(path, error.message);
  }
}

/** Writes everything that can be read of a database into a new one, which takes its place. */
async function writeAnew(path: string): Promise<void> {
  const fresh = `${path}.new`;
  await rm(fresh, { recursive: true, force: true });
  const from = await LevelDatabase.open(path, defaultTuning, { create: false });
  const to = await LevelDatabase.open(fresh, defaultTuning, { create: true });
  try {
    for await (const page of readingOn(from, () => undefined).pages({})) {
      using batch = to.batch();
      for (const [key, value] of page) batch.put(key, value);
      await batch.write();
    }
  } finally {
    await to.close();
    await from.close();
  }
  await rm(path, { recursive: true });
  await rename(fresh, path);
}

/** The report while nothing is changed. */
export function unchanged(found: VerifyReport, files: RepairReport['files'] = []): RepairReport {
  return {
    files,
    damageCount: files.length + found.damageCount,
    firstHeight: found.range?.from,
    latestIndexedHeight: found.latestIndexedHeight,
    keptThrough: found.latestIndexedHeight,
    kept: [],
    holes: [],
    applied: false,
  };
}

/** Replaces the store by the copy. At no moment does `path` hold an empty directory, where a new store could begin. */
async function exchange(path: string, copy: string): Promise<void> {
  const damaged = damagedPathOf(path);
  await rename(path, damaged);
  await rename(copy, path);
  await syncDirectory(dirname(path));
  await rm(damaged, { recursive: true, force: true });
}

/** Reverts an interrupted repair, or finishes it. */
async function undoInterrupted(path: string, copy: string): Promise<void> {
  const damaged = damagedPathOf(path);
  if (await exists(damaged)) {
    if (await exists(path)) await rm(damaged, { recursive: true, force: true });
    else await rename(damaged, path);
  }
  await rm(copy, { recursive: true, force: true });
}
