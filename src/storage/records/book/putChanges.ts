import { encodeCoverage, encodeProgress } from '../coding/heightRecords.js';
import { encodeMeta, encodeOpenRecord, encodePlans } from '../coding/jsonRecords.js';
import { seal } from '../coding/seal.js';
import type { WriteBatch } from '../Database.js';
import { META_KEY, openKey, PLANS_KEY, PROGRESS_KEY, PUBLISHED_KEY, UNPROVEN_KEY } from '../schema.js';
import type { StoreBook } from './StoreBook.js';

/** Puts every record that changes with the book. `before` is `undefined` for a new store. */
export function putChanges(before: StoreBook | undefined, after: StoreBook, batch: WriteBatch): void {
  const { live, published, plans, open } = after;
  const put = (key: Buffer, payload: Buffer): void => batch.put(key, seal(key, payload));
  const putList = (key: Buffer, list: readonly unknown[], payload: Buffer): void => {
    if (list.length > 0) put(key, payload);
    else if (before !== undefined) batch.del(key);
  };
  if (live.meta !== before?.live.meta) put(META_KEY, encodeMeta(live.meta));
  if (live.latestIndexedHeight !== before?.live.latestIndexedHeight) {
    put(PROGRESS_KEY, encodeProgress(live.latestIndexedHeight));
  }
  if (published !== before?.published) putList(PUBLISHED_KEY, published, encodeCoverage(published));
  if (plans !== before?.plans) putList(PLANS_KEY, plans, encodePlans(plans));
  const { unproven } = after;
  if (unproven !== before?.unproven) putList(UNPROVEN_KEY, unproven, encodeCoverage(unproven));
  if (open === before?.open) return;
  const records = new Set(before?.open.map(({ record }) => record));
  for (const { record } of open)
    if (!records.has(record)) put(openKey(record.from), encodeOpenRecord(record));
  const left = new Set(open.map(({ record }) => record.from));
  for (const { from } of records) if (!left.has(from)) batch.del(openKey(from));
}
