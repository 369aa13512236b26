import { putAccounts } from '../accounts/accountEntries.js';
import type { AccountCoverage } from '../port/AccountIndex.js';
import type { HeightRange } from '../port/stored.js';
import { closed, heightsOf, isLive, missingBelow, OPEN_END, opened } from '../records/accountCoverage.js';
import { readSoundEntry } from '../records/blocks/assembleBlock.js';
import { single } from '../records/book/bookRecords.js';
import { settled, withoutEntries } from '../records/book/changeBook.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import type { Database, Entry } from '../records/Database.js';
import { joined } from '../records/heightRanges.js';
import { Prefix, prefixRange } from '../records/schema.js';
import { corruptRecord, isCorruption } from '../StorageError.js';
import type { BookWriter } from './writing/bookWriter.js';

/** The coverage in a store without blocks, which gets the index with its first block. */
const NOTHING: AccountCoverage = { from: 0, to: -1, missingHeights: 0 };

/** See `AccountReader`. `isWanted`: a store without blocks gets the index with its first block. */
export function accountCoverageOf(
  book: StoreBook | undefined,
  isWanted: boolean,
): AccountCoverage | undefined {
  if (book === undefined) return isWanted ? NOTHING : undefined;
  const { accounts = [], latestIndexedHeight: to, meta } = book;
  const live = accounts.at(-1);
  if (live === undefined || !isLive(accounts)) return undefined;
  const from = Math.min(live.from, to + 1);
  const missing = missingBelow(accounts, meta.firstHeight);
  return { from, to, missingHeights: missing.reduce((sum, range) => sum + heightsOf(range), 0) };
}

/**
 * Adds a step to the index (docs/architecture.md, "The account index"). If the index changes before the step is written,
 * because a range joins it or blocks are being removed, the step is void, damage included: the next step begins with the
 * new state. Expected errors: `StorageError`.
 */
export async function extendAccounts(queue: BookWriter): Promise<void> {
  const book = queue.book();
  if (book?.accounts === undefined || !isLive(book.accounts)) return;
  const { accounts, latestIndexedHeight, meta } = book;
  const hole = missingBelow(accounts, meta.firstHeight).at(-1);
  if (hole === undefined) return;
  try {
    const { entries: put, from } = await highestEntries(queue.database, hole, latestIndexedHeight);
    const next = joined([...accounts.slice(0, -1), { from, to: OPEN_END }]);
    await queue.record('range', (now) => {
      if (now.accounts !== accounts) return undefined;
      return { after: { ...now, accounts: next }, put };
    });
  } catch (error) {
    if (!isCorruption(error) || queue.initialised().accounts === accounts) throw error;
  }
}

/** Heights per step, and bytes of their collections; only a single larger block exceeds the latter. */
const MAX_STEP_HEIGHTS = 128;
const MAX_STEP_BYTES = 512 * 1024;

/** The entries of a step: from the top of a hole down to `from`. Blocks above the watermark may be missing. */
async function highestEntries(database: Database, hole: HeightRange, watermark: number) {
  const lowest = Math.max(hole.from, hole.to - MAX_STEP_HEIGHTS + 1);
  const entries: Entry[] = [];
  let [from, bytes] = [hole.to + 1, 0];
  for (; from > lowest; from -= 1) {
    const height = from - 1;
    const found = await readSoundEntry(database, height);
    if (found === undefined && height <= watermark)
      throw corruptRecord('block record', height, 'it is missing');
    if (found === undefined) continue;
    for (const { encoded } of found.collections) bytes += encoded.length;
    if (bytes > MAX_STEP_BYTES && entries.length > 0) break;
    putAccounts(found, (...entry) => entries.push(entry));
  }
  return { entries, from };
}

/** The book with the account index switched on or off: a block that is committed without its entries never counts as covered. */
export function switched(book: StoreBook, isOn: boolean): StoreBook {
  const { above, accounts, latestIndexedHeight, open } = book;
  const next = Math.max(latestIndexedHeight, ...above.keys()) + 1;
  if (isOn) return { ...book, accounts: opened(accounts ?? [], next) };
  return {
    ...book,
    accounts: accounts && closed(accounts, latestIndexedHeight),
    open: open.map(withoutEntries),
  };
}

/**
 * Removes the account index: first the coverage, durably, then the entries, a page at a time, and last the coverage
 * record. A process that ends in between leaves an index that claims nothing, and the next run continues. Returns how many
 * entries were removed. Expected errors: `StorageError`.
 */
export async function forgetAccounts(queue: BookWriter): Promise<number> {
  const { database } = queue;
  const entries = prefixRange(Prefix.account);
  await queue.record('live', (book) => ({ after: { ...switched(book, false), accounts: [] } }));
  let removed = 0;
  for await (const page of database.pages(entries)) {
    const del = page.map(([key]) => key);
    await queue.record('range', (after) => ({ after, del }));
    removed += page.length;
  }
  await database.compact(entries);
  const del = [single.coverage.key];
  await queue.record('live', (book) => ({ after: settled({ ...book, accounts: undefined }), del }));
  return removed;
}
