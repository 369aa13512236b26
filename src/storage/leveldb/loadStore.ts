import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '../../observability/index.js';
import { closed, opened } from '../records/accountCoverage.js';
import { settled, withoutEntries } from '../records/book/changeBook.js';
import { checkMeta } from '../records/book/checkMeta.js';
import { loadBook, putChanges, readMeta } from '../records/book/bookRecords.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import type { Database } from '../records/Database.js';
import { StorageError } from '../StorageError.js';
import { finishInterrupted } from './removal/rewind.js';

export interface LoadOptions {
  readonly path: string;
  /** A store of another chain is refused. */
  readonly chainId: string;
  /**
   * Default false. True: the store opens in spite of a damaged block at or above the watermark, so that a rewind can
   * remove it. Only `rewind` may be called then.
   */
  readonly forRewind?: boolean;
  /** Whether the account index is kept. Default: unchanged, for commands that index nothing. */
  readonly accounts?: boolean;
}

/**
 * Checks that this program may use the store, and reads its records. Finishes an interrupted rewind and the removal of a
 * dropped range, and switches the account index on or off if requested. Expected errors: `StorageError`; `OperatorError`
 * (`foreign`, `configuration`).
 */
export async function loadStore(
  database: Database,
  { accounts, forRewind = false, ...where }: LoadOptions,
  logger: Logger,
): Promise<StoreBook | undefined> {
  const meta = await readMeta(database);
  if (meta === undefined) {
    await checkEmpty(database, where.path);
    return undefined;
  }
  checkMeta(meta, where);
  await finishInterrupted(database, meta, logger);
  const book = await loadBook(database, meta, forRewind);
  return accounts === undefined ? book : switchAccounts(database, book, accounts);
}

/**
 * Switches the account index on or off, durably, before any block is committed: blocks committed without their entries
 * must never count as covered.
 */
async function switchAccounts(database: Database, book: StoreBook, isOn: boolean): Promise<StoreBook> {
  const { above, latestIndexedHeight } = book.live;
  const highest = Math.max(latestIndexedHeight, ...above.keys());
  const before = book.accounts;
  const accounts = isOn ? opened(before ?? [], highest + 1) : before && closed(before, latestIndexedHeight);
  if (accounts === undefined || (before !== undefined && isDeepStrictEqual(accounts, before))) return book;
  const open = isOn ? book.open : book.open.map(withoutEntries);
  const after = settled({ ...book, open, accounts });
  using batch = database.batch();
  putChanges(book, after, batch);
  await batch.write();
  return after;
}

/** A database with entries but no meta record is not ours. Expected errors: `StorageError`. */
async function checkEmpty(database: Database, path: string): Promise<void> {
  const [entry] = await database.first({}, 1);
  if (entry === undefined) return;
  throw new StorageError(
    'not_a_store',
    `${path} holds a LevelDB database without our meta record: it belongs to another program, or its meta record is ` +
      'lost. Choose another directory, or restore this one from a copy.',
  );
}
