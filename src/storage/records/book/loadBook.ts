import type { StoreMeta } from '../../port/stored.js';
import { corruptRecord } from '../../StorageError.js';
import type { Database } from '../Database.js';
import { ACCOUNTS_SCHEMA_VERSION, RANGES_SCHEMA_VERSION } from '../schema.js';
import { settled } from './changeBook.js';
import { disorderOf } from './checkStore.js';
import { putChanges } from './putChanges.js';
import { readLine } from './readLine.js';
import {
  readCoverage,
  readOpenRecords,
  readPlans,
  readProgress,
  readPublished,
  readUnproven,
} from './readState.js';
import type { OpenState, StoreBook } from './StoreBook.js';

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
    return { live, published: [], plans: [], open: [], hasAccounts, unproven: [] };
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
  const unproven = await readUnproven(database);
  const book = { live, published, plans: await readPlans(database), open, hasAccounts, unproven };
  const after = settled(book);
  if (after !== book) {
    using batch = database.batch();
    putChanges(book, after, batch);
    await batch.write();
  }
  return after;
}
