import type { Logger } from '../../observability/index.js';
import { closed, opened } from '../records/accountCoverage.js';
import type { Coverage } from '../records/accountCoverage.js';
import { settled, withoutEntries } from '../records/book/changeBook.js';
import { checkEmpty, checkMeta } from '../records/book/checkStore.js';
import { coverageOf, loadBook, putChanges, readMeta, sealCoverage } from '../records/book/bookRecords.js';
import type { StoreBook } from '../records/book/StoreBook.js';
import { encodeCoverage } from '../records/coding/heightRecords.js';
import type { Database } from '../records/Database.js';
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

/** The content of a store's records. */
export interface LoadedStore {
  readonly book: StoreBook | undefined;
  /** Of the account index. */
  readonly coverage: Coverage | undefined;
}

/**
 * Checks that this program may use the store, and reads its records. Finishes an interrupted rewind and the removal of a
 * dropped range, and switches the account index on or off if requested. Expected errors: `StorageError`; `OperatorError`
 * (`foreign`, `configuration`).
 */
export async function loadStore(
  database: Database,
  options: LoadOptions,
  logger: Logger,
): Promise<LoadedStore> {
  const { path, forRewind = false, accounts } = options;
  const meta = await readMeta(database);
  if (meta === undefined) {
    await checkEmpty(database, path);
    return { book: undefined, coverage: undefined };
  }
  checkMeta(meta, options);
  await finishInterrupted(database, meta, logger);
  const loaded = {
    book: await loadBook(database, meta, forRewind),
    coverage: await coverageOf(database, meta),
  };
  return accounts === undefined ? loaded : switchAccounts(database, loaded, accounts);
}

/**
 * Switches the account index on or off, durably, before any block is committed: blocks committed without their entries
 * must never count as covered.
 */
async function switchAccounts(
  database: Database,
  { book, coverage }: LoadedStore,
  isOn: boolean,
): Promise<LoadedStore> {
  if (book === undefined) return { book, coverage };
  const { above, latestIndexedHeight } = book.live;
  const highest = Math.max(latestIndexedHeight, ...above.keys());
  const next = isOn ? opened(coverage ?? [], highest + 1) : coverage && closed(coverage, latestIndexedHeight);
  if (
    next === undefined ||
    (coverage !== undefined && encodeCoverage(next).equals(encodeCoverage(coverage)))
  ) {
    return { book, coverage };
  }
  const open = isOn ? book.open : book.open.map(withoutEntries);
  const after = settled({ ...book, open, hasAccounts: true });
  using batch = database.batch();
  putChanges(book, after, batch);
  batch.put(...sealCoverage(next));
  await batch.write();
  return { book: after, coverage: next };
}
