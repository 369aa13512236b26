import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from '../../observability/index.js';
import { withSoundAccounts } from '../accounts/forgetAccounts.js';
import { damagedPathOf, prepareDirectory } from '../leveldb/storeDirectory.js';
import { inspectFiles } from '../files/inspection.js';
import { copyWithoutDamage } from '../files/mendedCopy.js';
import { syncDirectory } from '../files/syncDirectory.js';
import { assertUnused, defaultTuning, LevelDatabase, rebuildManifest } from '../leveldb/LevelDatabase.js';
import { emptyLine, putChanges } from '../leveldb/changeBook.js';
import { sweepOutside } from '../leveldb/rewind.js';
import type { StoreMeta } from '../IndexStore.js';
import { putAccounts } from '../accounts/accountEntries.js';
import { rewound } from '../records/accountCoverage.js';
import { readEntry } from '../records/assembleBlock.js';
import { putPointers } from '../records/BlockEntryWriter.js';
import type { Put } from '../records/BlockEntryWriter.js';
import type { Database } from '../records/Database.js';
import { encodeCoverage } from '../records/codecs.js';
import { contains, joined, upTo, without } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import {
  COVERAGE_KEY,
  heightRange,
  parseBlockKey,
  PLANS_KEY,
  Prefix,
  prefixRange,
  PUBLISHED_KEY,
  REWIND_KEY,
  seal,
} from '../records/schema.js';
import {
  coverageOf,
  coverageOfBook,
  disorderOf,
  readMeta,
  readOpenRecords,
  readPlans,
  readProgress,
  readPublished,
} from '../records/storeState.js';
import type { StoreBook } from '../records/storeState.js';
import { hasCode, isCorruption, StorageError, storageErrorFrom } from '../StorageError.js';
import { keeps, mendedBook } from './mendedBook.js';
import type { VerifyReport } from './verify/DamageList.js';
import { verifyStore } from './verify/verifyStore.js';

export interface RepairOptions {
  readonly path: string;
  readonly chainId: string;
  /** False: only report what would be kept. */
  readonly apply: boolean;
}

export interface RepairDependencies {
  readonly logger: Logger;
  readonly signal?: AbortSignal;
}

export interface RepairReport {
  /** Damaged files, and what is wrong with each. */
  readonly files: readonly { readonly file: string; readonly what: string }[];
  /** All damage, files included. 0: there was nothing to repair, and nothing was changed. */
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
 * Heights whose block is damaged become planned holes: the daemon fills them in after its next start. It works on a
 * copy beside the store, which takes only the space of the damaged files and replaces the store once `verifyStore`
 * finds no damage in it. Interrupted at any moment, it can be run again.
 *
 * Expected errors: `StorageError` (`corrupt` when nothing can be kept; `locked`, `missing`, `disk_full`, …);
 * `OperatorError` (`foreign`, `configuration`); the signal's abort reason.
 */
export async function repairStore(
  options: RepairOptions,
  dependencies: RepairDependencies,
): Promise<RepairReport> {
  const { path } = options;
  const copy = `${path}.repaired`;
  try {
    await undoCutShort(path, copy);
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
      await rm(copy, { recursive: true, force: true });
    }
  } catch (error) {
    throw storageErrorFrom(error, 'repair the store', path);
  }
}

/** Fills `copy` with what can be kept. */
async function repairAt(
  copy: string,
  { path, chainId }: RepairOptions,
  { logger, signal }: RepairDependencies,
): Promise<RepairReport> {
  const { damages, ...inspection } = await inspectFiles(path, { tableBytes: Infinity, contents: true });
  await mkdir(copy, { mode: 0o700 });
  if (await copyWithoutDamage(path, copy, { ...inspection, damages })) await rebuildManifest(copy);
  const verify = (): Promise<VerifyReport> =>
    verifyStore({ path: copy, chainId }, { logger, ...(signal === undefined ? {} : { signal }) });
  const found = await verify();
  const report = {
    files: damages,
    damageCount: damages.length + found.damageCount,
    firstHeight: found.range?.from,
    latestIndexedHeight: found.latestIndexedHeight,
    keptThrough: found.latestIndexedHeight,
    kept: [],
    holes: [],
    applied: false,
  };
  if (found.damageCount === 0) return report;
  const kept = await forgetDamage(copy, path, found);
  const [left] = (await verify()).damages;
  if (left !== undefined) throw beyondRepair(path, left.message);
  return { ...report, ...kept };
}

/** Removes every damaged height and everything that does not belong in the store, and plans the holes. */
async function forgetDamage(copy: string, path: string, found: VerifyReport) {
  const database = await LevelDatabase.open(copy, defaultTuning, { create: false });
  try {
    const stored = await soundly(() => readMeta(database));
    if (stored === undefined) throw beyondRepair(path, 'its meta record is lost');
    const meta = await withSoundAccounts(database, stored);
    const accounts = await coverageOf(database, meta);
    const before = await bookOf(database, meta, found.latestIndexedHeight);
    const lost = await lostHeights(database, found);
    const { book, holes } = mendedBook({ ...before, hasAccounts: accounts !== undefined }, lost);
    const { latestIndexedHeight } = book.live;
    const batch = database.batch();
    for (const keys of [[REWIND_KEY, PUBLISHED_KEY, PLANS_KEY], ...(await openKeys(database))]) {
      for (const key of keys) batch.del(key);
    }
    putChanges(undefined, book, batch);
    const coverage =
      accounts && without(rewound(accounts, latestIndexedHeight), upTo(lost, latestIndexedHeight));
    if (coverage !== undefined) batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(coverage)));
    await batch.write();
    const damaged = joined([...found.damagedHeights, ...lost]);
    await sweepOutside(
      database,
      (height, prefix) =>
        keeps(before, book, height) &&
        !contains(prefix === Prefix.block || prefix === Prefix.body ? lost : damaged, height),
    );
    const entered = book.open.filter(({ record }) => record.hasAccounts).map(({ record }) => record);
    const withAccounts = coverage === undefined ? [] : joined([...coverage, ...entered]);
    await restorePointers(database, without(damaged, lost), withAccounts);
    const { firstHeight } = before.live.meta;
    return { firstHeight, keptThrough: latestIndexedHeight, kept: coverageOfBook(book), holes };
  } finally {
    await database.close();
  }
}

/** Rebuilds every pointer to the blocks of these heights. */
async function restorePointers(database: Database, heights: HeightRanges, accounts: HeightRanges) {
  for (const { from, to } of heights) {
    for await (const keys of database.keyPages(heightRange(Prefix.block, from, to))) {
      for (const key of keys) {
        const height = parseBlockKey(key);
        const entry = height === undefined ? undefined : await readEntry(database, height);
        if (height === undefined || entry === undefined || entry === 'damaged') continue;
        const batch = database.batch();
        const put: Put = (pointer, value) => batch.put(pointer, value);
        putPointers(entry, put);
        if (contains(accounts, height)) putAccounts(height, entry.collections, put);
        await batch.write();
      }
    }
  }
}

/** Without the progress record it is unknown which of the blocks above a gap counted: none of them does. */
async function lostHeights(database: Database, found: VerifyReport): Promise<HeightRanges> {
  const progress = await soundly(() => readProgress(database));
  const { latestIndexedHeight = -1, lostHeights: lost } = found;
  if (progress !== undefined) return lost;
  return [{ from: lost[0]?.from ?? latestIndexedHeight + 1, to: Number.MAX_SAFE_INTEGER }];
}

/** What the records of a damaged store say, as far as they are readable. Nothing is known of the blocks. */
async function bookOf(database: Database, meta: StoreMeta, watermark?: number): Promise<StoreBook> {
  const { firstHeight } = meta;
  const latestIndexedHeight = Math.max(watermark ?? -1, firstHeight - 1);
  const published = (await soundly(() => readPublished(database))) ?? [];
  const records = (await soundly(() => readOpenRecords(database))) ?? [];
  const isInOrder = disorderOf({ firstHeight, published, open: records }) === undefined;
  return {
    live: { ...emptyLine(0), latestIndexedHeight, meta },
    published: isInOrder ? published : [],
    plans: (await soundly(() => readPlans(database))) ?? [],
    open: isInOrder ? records.map((record) => ({ record, line: emptyLine(record.from) })) : [],
    hasAccounts: false,
  };
}

/** `undefined` for a damaged record. */
async function soundly<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isCorruption(error)) throw error;
    return undefined;
  }
}

async function openKeys(database: Database): Promise<Buffer[][]> {
  const pages: Buffer[][] = [];
  for await (const keys of database.keyPages(prefixRange(Prefix.open))) pages.push(keys);
  return pages;
}

function beyondRepair(path: string, what: string): StorageError {
  return new StorageError(
    'corrupt',
    `The store at ${path} cannot be repaired: ${what}. Restore the data directory from a copy, or move it away and ` +
      'start again with the --start-height that it had: everything is fetched anew. And check the disk.',
  );
}

/** Replaces the store by the copy. There is never an empty directory in which a new store could begin unnoticed. */
async function exchange(path: string, copy: string): Promise<void> {
  const damaged = damagedPathOf(path);
  await rename(path, damaged);
  await rename(copy, path);
  await syncDirectory(dirname(path));
  await rm(damaged, { recursive: true, force: true });
}

/** Reverts an interrupted repair, or finishes it. */
async function undoCutShort(path: string, copy: string): Promise<void> {
  const damaged = damagedPathOf(path);
  if (await exists(damaged)) {
    if (await exists(path)) await rm(damaged, { recursive: true, force: true });
    else await rename(damaged, path);
  }
  await rm(copy, { recursive: true, force: true });
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
