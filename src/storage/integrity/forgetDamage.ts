import { putAccounts } from '../accounts/accountEntries.js';
import { withDatabase } from '../leveldb/directory/LevelDatabase.js';
import { withSoundAccounts } from '../leveldb/LevelAccountIndex.js';
import { readingOn } from '../leveldb/reading/readingOn.js';
import { sweepOutside } from '../leveldb/removal/rewind.js';
import type { StoreMeta } from '../port/stored.js';
import { readSoundEntry } from '../records/blocks/assembleBlock.js';
import { isDamagedEvidence, readEvidence } from '../records/blocks/committeeEvidence.js';
import { putPointers } from '../records/blocks/BlockEntryWriter.js';
import type { Put } from '../records/blocks/BlockEntryWriter.js';
import { emptyLine } from '../records/book/changeBook.js';
import { keeps, repairedBook } from '../records/book/repairedBook.js';
import {
  coverageOf,
  putChanges,
  readMeta,
  readProgress,
  readRanges,
  readUnproven,
} from '../records/book/bookRecords.js';
import { coverageOfBook } from '../records/book/StoreBook.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import type { Database } from '../records/Database.js';
import { contains, joined, without } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import {
  heightRange,
  parseBlockKey,
  PLANS_KEY,
  Prefix,
  prefixRange,
  PUBLISHED_KEY,
  REWIND_KEY,
  UNPROVEN_KEY,
} from '../records/schema.js';
import { StorageError, unlessDamaged } from '../StorageError.js';
import type { VerifyReport } from '../verify/DamageList.js';

/**
 * Removes every damaged height from a copy of the store at `path`, and everything that does not belong there, and adds
 * plans for the holes. Expected errors: `StorageError`, `corrupt` when nothing can be kept.
 */
export function forgetDamage(copy: string, path: string, found: VerifyReport) {
  return withDatabase(copy, async (opened) => {
    const database = readingOn(opened, () => undefined);
    const stored = await unlessDamaged(() => readMeta(database));
    if (stored === undefined) throw beyondRepair(path, 'its meta record is lost');
    const meta = await withSoundAccounts(database, stored);
    const before = await bookOf(database, meta, found.latestIndexedHeight);
    const lost = await lostHeights(database, found);
    const { book, holes } = repairedBook(before, lost);
    const { latestIndexedHeight } = book.live;
    using batch = database.batch();
    for (const key of [REWIND_KEY, PUBLISHED_KEY, PLANS_KEY, UNPROVEN_KEY]) batch.del(key);
    for await (const keys of database.keyPages(prefixRange(Prefix.open)))
      for (const key of keys) batch.del(key);
    // Nodes are asked again.
    for (const entry of await readEvidence(database)) if (await isDamagedEvidence(entry)) batch.del(entry[0]);
    putChanges(undefined, book, batch);
    await batch.write();
    const damaged = joined([...found.damagedHeights, ...lost]);
    await sweepOutside(
      database,
      (height, prefix) =>
        keeps(before, book, height) &&
        !contains(prefix === Prefix.block || prefix === Prefix.body ? lost : damaged, height),
    );
    const entered = book.open.filter(({ record }) => record.hasAccounts).map(({ record }) => record);
    const withAccounts = book.accounts === undefined ? [] : joined([...book.accounts, ...entered]);
    await restorePointers(database, without(damaged, lost), withAccounts);
    const { firstHeight } = before.live.meta;
    return { firstHeight, keptThrough: latestIndexedHeight, kept: coverageOfBook(book), holes };
  });
}

/** Rebuilds every pointer to the blocks of these heights. */
async function restorePointers(database: Database, heights: HeightRanges, accounts: HeightRanges) {
  for (const { from, to } of heights) {
    for await (const keys of database.keyPages(heightRange(Prefix.block, from, to))) {
      for (const key of keys) {
        const height = parseBlockKey(key);
        const entry =
          height === undefined ? undefined : await unlessDamaged(() => readSoundEntry(database, height));
        if (entry === undefined || height === undefined) continue;
        using batch = database.batch();
        const put: Put = (pointer, value) => batch.put(pointer, value);
        putPointers(entry, put);
        if (contains(accounts, height)) putAccounts(height, entry.collections, put);
        await batch.write();
      }
    }
  }
}

/** Without the progress record nobody knows which of the blocks above a gap counted: all of them are lost. */
async function lostHeights(database: Database, found: VerifyReport): Promise<HeightRanges> {
  const progress = await unlessDamaged(() => readProgress(database));
  const { latestIndexedHeight = -1, lostHeights: lost } = found;
  if (progress !== undefined) return lost;
  return [{ from: lost[0]?.from ?? latestIndexedHeight + 1, to: Number.MAX_SAFE_INTEGER }];
}

/** The book of a damaged store, from its readable records alone: no block is read. */
async function bookOf(database: Database, meta: StoreMeta, watermark?: number): Promise<StoreBook> {
  const { firstHeight } = meta;
  const latestIndexedHeight = Math.max(watermark ?? -1, firstHeight - 1);
  const { published, plans, open } = await readRanges(database, firstHeight, unlessDamaged);
  return {
    live: { ...emptyLine(0), latestIndexedHeight, meta },
    accounts: await coverageOf(database, meta),
    published,
    plans,
    open: open.map((record) => ({ record, line: emptyLine(record.from) })),
    unproven: (await unlessDamaged(() => readUnproven(database))) ?? [{ from: 0, to: latestIndexedHeight }],
  };
}

export function beyondRepair(path: string, what: string): StorageError {
  return new StorageError(
    'corrupt',
    `The store at ${path} cannot be repaired: ${what}. Restore the data directory from a copy, or move it away and ` +
      'start again with the same --start-height: everything is fetched again. Check the disk as well.',
    { damage: what },
  );
}
