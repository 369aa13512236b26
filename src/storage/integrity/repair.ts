import { readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { copyFiles } from '../files/copyFiles.js';
import { exists, syncDirectory } from '../files/synced.js';
import { withDatabase } from '../leveldb/directory/levelDatabase.js';
import { assertUnused, repairLevel } from '../leveldb/directory/openLevel.js';
import { besideOf, DATABASE_FILE, holdsData, prepareDirectory } from '../leveldb/directory/storeDirectory.js';
import { repairedOf, replaceablePlace, runAlone } from '../leveldb/directory/storeDirectory.js';
import { readingOn } from '../leveldb/reading/readingOn.js';
import { isCorruption, storageErrorFrom, StorageError, unlessDamaged } from '../StorageError.js';
import type { VerifyReport } from '../verify/DamageList.js';
import { unknownKeys } from './verify/checkStoreRecords.js';
import { verifyStore, type VerifyDependencies } from './verify/verifyStore.js';
import { entriesOf } from '../accounts/accountEntries.js';
import { sweepOutside } from '../leveldb/removal/rewind.js';
import type { StoreMeta } from '../port/stored.js';
import { readSoundEntry } from '../records/blocks/assembleBlock.js';
import { isDamagedEvidence, readEvidence } from '../records/blocks/committeeEvidence.js';
import { withoutEntries } from '../records/book/changeBook.js';
import { keeps, repairedBook, type RepairedBook } from '../records/book/repairedBook.js';
import { putChanges, readOne } from '../records/book/bookRecords.js';
import { readRanges, readUnproven, single } from '../records/book/bookRecords.js';
import { coverageOfBook, emptyBook, NO_BLOCKS, type StoreBook } from '../records/book/StoreBook.js';
import type { Database } from '../records/Database.js';
import { contains, joined, without, type HeightRanges } from '../records/heightRanges.js';
import { agreesOnAccounts, heightRange, parseBlockKey, Prefix } from '../records/schema.js';

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
 * finds no damage in it. Where LevelDB cannot open or read its files, its own repair runs first, and everything is
 * rewritten. An interrupted repair can be run again.
 *
 * Expected errors: `StorageError` (`corrupt` when nothing can be kept; `locked`, `missing`, `disk_full`, …);
 * `OperatorError` (`foreign`, `configuration`); the signal's abort reason.
 */
export async function repairStore(
  options: RepairOptions,
  dependencies: VerifyDependencies,
): Promise<RepairReport> {
  const path = await replaceablePlace(options.path);
  const copy = repairedOf(path);
  const work = async (): Promise<RepairReport> => {
    await undoInterrupted(path, copy);
    await prepareDirectory(path, false);
    await assertUnused(path);
    const before = await currentOf(path);
    try {
      const report = await repairAt(copy, { ...options, path }, dependencies);
      if (report.damageCount === 0 || !options.apply) return report;
      // Checked again: the repair may have taken long.
      await assertUnused(path);
      if ((await currentOf(path)) !== before) {
        const what = `The store at ${path} was in use while it was repaired, and stays as it is now. Stop the process that uses it, and repair it again.`;
        throw new StorageError('locked', what);
      }
      await exchange(path, copy);
      return { ...report, applied: true };
    } finally {
      for (const left of [copy, `${copy}.new`]) await rm(left, { recursive: true, force: true });
    }
  };
  return runAlone('repair', path, work).catch((error: unknown) => {
    throw storageErrorFrom(error, 'repair the store', path);
  });
}

/** Differs after each opening of a database. */
const currentOf = (path: string): Promise<string | undefined> =>
  readFile(join(path, 'CURRENT'), 'latin1').catch(() => undefined);

/** Fills `copy` with what can be kept. */
async function repairAt(
  copy: string,
  { path, chainId }: RepairOptions,
  dependencies: VerifyDependencies,
): Promise<RepairReport> {
  await copyFiles(path, copy, dependencies);
  const verify = (): Promise<VerifyReport> => verifyStore({ path: copy, chainId }, dependencies);
  let found = await verify();
  const files = found.damages.filter(({ kind }) => kind === 'database').map(({ message }) => message);
  try {
    if (files.length > 0) {
      await repairLevel(copy);
      await rewrite(copy);
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
async function rewrite(path: string): Promise<void> {
  const fresh = `${path}.new`;
  await rm(fresh, { recursive: true, force: true });
  await prepareDirectory(fresh, true);
  const copying = async (from: Database, to: Database): Promise<void> => {
    for await (const page of readingOn(from, () => undefined).pages({})) {
      using batch = to.batch();
      for (const [key, value] of page) batch.put(key, value);
      await batch.write();
    }
  };
  await withDatabase(path, (from) => withDatabase(fresh, (to) => copying(from, to), true));
  await rm(path, { recursive: true });
  await rename(fresh, path);
}

/** The report while nothing is changed. */
export function unchanged(found: VerifyReport, files: RepairReport['files'] = []): RepairReport {
  return {
    files,
    damageCount: files.length + found.damageCount,
    latestIndexedHeight: found.latestIndexedHeight,
    keptThrough: found.latestIndexedHeight,
    kept: [],
    holes: [],
    applied: false,
  };
}

export function outcomeOf({ book, holes }: RepairedBook) {
  return { kept: coverageOfBook(book), holes, keptThrough: book.latestIndexedHeight };
}

/** Replaces the store by the copy. At no moment does `path` hold an empty directory, where a new store could begin. */
async function exchange(path: string, copy: string): Promise<void> {
  const damaged = besideOf(path, 'repair');
  await rename(path, damaged);
  await rename(copy, path);
  await syncDirectory(dirname(path));
  await discard(damaged, path);
}

/** Deletes the damaged store. Other files in its directory move to that of the repaired store. */
async function discard(damaged: string, path: string): Promise<void> {
  for (const name of await readdir(damaged))
    if (!DATABASE_FILE.test(name)) await rename(join(damaged, name), join(path, name));
  await rm(damaged, { recursive: true, force: true });
}

/** Reverts an interrupted repair, or finishes it. */
async function undoInterrupted(path: string, copy: string): Promise<void> {
  const damaged = besideOf(path, 'repair');
  if (await exists(damaged)) {
    if (await holdsData(path)) await discard(damaged, path);
    else await rename(damaged, path);
  }
  await rm(copy, { recursive: true, force: true });
}

/**
 * Removes every damaged height from a copy of the store at `path`, and everything that does not belong there, and adds
 * plans for the holes. Expected errors: `StorageError`, `corrupt` when nothing can be kept.
 */
function forgetDamage(copy: string, path: string, found: VerifyReport) {
  return withDatabase(copy, async (opened) => {
    const database = readingOn(opened, () => undefined);
    const meta = await unlessDamaged(() => readOne(database, single.meta));
    if (meta === undefined) throw beyondRepair(path, 'its meta record is lost');
    const before = await bookOf(database, meta, found.latestIndexedHeight);
    const lost = await lostHeights(database, found);
    const repaired = repairedBook(before, lost);
    const { book } = repaired;
    using batch = database.batch();
    // The records of the store as a whole are rewritten.
    for await (const page of database.pages({ lt: Buffer.of(Prefix.evidence) }))
      for (const [key] of page) batch.del(key);
    for await (const key of unknownKeys(database)) batch.del(key);
    // The daemon fetches damaged evidence again.
    for (const entry of await readEvidence(database)) if (await isDamagedEvidence(entry)) batch.del(entry[0]);
    putChanges(undefined, book, batch);
    await batch.write();
    const damaged = joined([...found.damagedHeights, ...lost]);
    await sweepOutside(
      database,
      (height, prefix) =>
        (prefix !== Prefix.account || book.accounts !== undefined) &&
        keeps(before, book, height) &&
        !contains(prefix === Prefix.block || prefix === Prefix.body ? lost : damaged, height),
    );
    const entered = book.open.filter(({ hasAccounts }) => hasAccounts);
    const withAccounts = book.accounts === undefined ? [] : joined([...book.accounts, ...entered]);
    await restorePointers(database, without(damaged, lost), withAccounts);
    return outcomeOf(repaired);
  });
}

/** Rebuilds every pointer to the blocks of these heights. */
async function restorePointers(database: Database, heights: HeightRanges, accounts: HeightRanges) {
  for (const { from, to } of heights) {
    for await (const page of database.pages(heightRange(Prefix.block, from, to))) {
      for (const [key] of page) {
        const height = parseBlockKey(key);
        const entry =
          height === undefined ? undefined : await unlessDamaged(() => readSoundEntry(database, height));
        if (entry === undefined || height === undefined) continue;
        using batch = database.batch();
        for (const pointer of entriesOf(entry, contains(accounts, height))) batch.put(...pointer);
        await batch.write();
      }
    }
  }
}

/** Without the progress record it is unknown which blocks above a gap counted: all of them are lost. */
async function lostHeights(database: Database, found: VerifyReport): Promise<HeightRanges> {
  const progress = await unlessDamaged(() => readOne(database, single.progress));
  const { latestIndexedHeight = -1, lostHeights: lost } = found;
  if (progress !== undefined) return lost;
  return [{ from: lost[0]?.from ?? latestIndexedHeight + 1, to: Number.MAX_SAFE_INTEGER }];
}

/** The book of a damaged store, from its readable records alone: no block is read. */
async function bookOf(database: Database, meta: StoreMeta, watermark?: number): Promise<StoreBook> {
  const { firstHeight } = meta;
  const latestIndexedHeight = Math.max(watermark ?? -1, firstHeight - 1);
  const { published, plans, open } = await readRanges(database, firstHeight, unlessDamaged);
  const coverage = await unlessDamaged(() => readOne(database, single.coverage));
  // Without what it covers, the daemon builds the whole index again.
  const accounts = agreesOnAccounts(meta, coverage !== undefined) ? coverage : undefined;
  const records = accounts === undefined ? open.map(withoutEntries) : open;
  return {
    ...emptyBook(meta),
    latestIndexedHeight,
    accounts,
    published,
    plans,
    open: records.map((record) => ({ ...record, ...NO_BLOCKS })),
    unproven: (await unlessDamaged(() => readUnproven(database))) ?? [{ from: 0, to: latestIndexedHeight }],
  };
}

function beyondRepair(path: string, what: string): StorageError {
  return new StorageError(
    'corrupt',
    `The store at ${path} cannot be repaired: ${what}. Restore the data directory from a copy, or move it away and ` +
      'start again with the same --start-height: everything is fetched again. Check the disk as well.',
    { damage: what },
  );
}
