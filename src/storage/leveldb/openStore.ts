import type { Logger } from '../../observability/index.js';
import type { StoreMeta } from '../IndexStore.js';
import { closed, opened } from '../records/accountCoverage.js';
import type { Coverage } from '../records/accountCoverage.js';
import type { Database, WriteBatch } from '../records/Database.js';
import { encodeCoverage, encodeOpenRecord } from '../records/codecs.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  openKey,
  RANGES_SCHEMA_VERSION,
  seal,
} from '../records/schema.js';
import {
  checkEmpty,
  checkMeta,
  coverageOf,
  disorderOf,
  readCoverage,
  readLine,
  readMeta,
  readOpenRecords,
  readPlans,
  readProgress,
  readPublished,
  readRewind,
} from '../records/storeState.js';
import type { OpenState, StoreBook } from '../records/storeState.js';
import { corruptRecord } from '../StorageError.js';
import { putChanges, settled, withoutEntries } from './changeBook.js';
import { finishRewind, removeBlocks } from './rewind.js';

export interface LoadOptions {
  readonly path: string;
  readonly chainId: string;
  readonly forRewind?: boolean;
  readonly accounts?: boolean;
}

/** What the records of a store say. */
export interface LoadedStore {
  readonly book: StoreBook | undefined;
  /** Of the account index. */
  readonly coverage: Coverage | undefined;
}

/**
 * Reads the records, once they are known to be of a store that this program may touch. Finishes an interrupted rewind
 * and the removal of a dropped range, and switches the account index on or off if requested. Expected errors:
 * `StorageError`; `OperatorError` (`foreign`, `configuration`).
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

/** Finishes what an earlier process had begun to remove. Expected errors: `StorageError`. */
export async function finishInterrupted(database: Database, meta: StoreMeta, logger: Logger): Promise<void> {
  const rewind = await readRewind(database);
  if (rewind !== undefined) {
    logger.info({ height: rewind.target, from: rewind.remaining }, 'finishing an interrupted rewind');
    await finishRewind(database, rewind, { logger, coverage: await coverageOf(database, meta) });
  }
  if (meta.schemaVersion < RANGES_SCHEMA_VERSION) return;
  for (const record of await readOpenRecords(database)) {
    const { from, to, keep, isDropped } = record;
    if (keep === undefined) continue;
    logger.info({ from, to }, 'finishing the removal of a range');
    const coverage = await coverageOf(database, meta);
    const write = (batch: WriteBatch): Promise<void> => batch.write();
    await removeBlocks(database, { from: keep + 1, to }, { coverage, write });
    const batch = database.batch();
    const key = openKey(from);
    if (isDropped) batch.del(key);
    else batch.put(key, seal(key, encodeOpenRecord({ ...record, keep: undefined })));
    await batch.write();
  }
}

/**
 * Loads the book: all ranges of the store. If the last feature of its kind was removed, the schema version goes back.
 * Expected errors: `StorageError` (`corrupt`).
 */
export async function loadBook(database: Database, meta: StoreMeta, forRewind: boolean): Promise<StoreBook> {
  const { firstHeight, schemaVersion } = meta;
  const latestIndexedHeight = await readProgress(database);
  if (latestIndexedHeight === undefined) throw corruptRecord('progress record', undefined, 'it is missing');
  if (latestIndexedHeight < firstHeight - 1) {
    throw corruptRecord('progress record', undefined, `it lies below the first height, ${firstHeight}`);
  }
  const bounds = { firstHeight, latestIndexedHeight, to: Number.MAX_SAFE_INTEGER };
  const live = { ...(await readLine(database, bounds, forRewind)), meta };
  if (schemaVersion < RANGES_SCHEMA_VERSION) {
    const hasAccounts = schemaVersion === ACCOUNTS_SCHEMA_VERSION;
    return { live, published: [], plans: [], open: [], hasAccounts };
  }
  const hasAccounts = (await readCoverage(database)) !== undefined;
  const open: OpenState[] = [];
  for (const record of await readOpenRecords(database)) {
    const { from, to, next } = record;
    const line = await readLine(
      database,
      { firstHeight: from, latestIndexedHeight: next - 1, to },
      forRewind,
    );
    open.push({ record, line });
  }
  const published = await readPublished(database);
  const wrong = disorderOf({ firstHeight, published, open: open.map(({ record }) => record) });
  if (wrong !== undefined) throw corruptRecord('record of the ranges', undefined, wrong);
  const book = { live, published, plans: await readPlans(database), open, hasAccounts };
  const after = settled(book);
  if (after !== book) {
    const batch = database.batch();
    putChanges(book, after, batch);
    await batch.write();
  }
  return after;
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
  const batch = database.batch();
  putChanges(book, after, batch);
  batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(next)));
  await batch.write();
  return { book: after, coverage: next };
}
