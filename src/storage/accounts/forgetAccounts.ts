import type { StoreMeta } from '../port/stored.js';
import { readCoverage, sealCoverage } from '../records/book/bookRecords.js';
import { encodeMeta } from '../records/coding/jsonRecords.js';
import { seal } from '../records/coding/seal.js';
import type { Database } from '../records/Database.js';
import {
  agreesOnAccounts,
  COVERAGE_KEY,
  META_KEY,
  Prefix,
  prefixRange,
  RANGES_SCHEMA_VERSION,
  SCHEMA_VERSION,
} from '../records/schema.js';
import { unlessDamaged } from '../StorageError.js';

/** The result of forgetting the account index. */
export interface ForgottenAccounts {
  readonly meta: StoreMeta;
  /** Number of entries removed. */
  readonly entries: number;
}

/**
 * Removes the account index: first the coverage, durably, then the entries, a page at a time, and last the coverage
 * record. A process that ends in between leaves an index that claims nothing, and the next run continues. Expected
 * errors: `StorageError`.
 */
export async function forgetAccounts(database: Database, meta: StoreMeta): Promise<ForgottenAccounts> {
  using first = database.batch();
  first.put(...sealCoverage([]));
  await first.write();
  let entries = 0;
  for await (const keys of database.keyPages(prefixRange(Prefix.account))) {
    using batch = database.batch();
    for (const key of keys) batch.del(key);
    await batch.write();
    entries += keys.length;
  }
  const isOld = meta.schemaVersion < RANGES_SCHEMA_VERSION;
  const without = { ...meta, schemaVersion: isOld ? SCHEMA_VERSION : meta.schemaVersion };
  using last = database.batch();
  last.del(COVERAGE_KEY);
  last.put(META_KEY, seal(META_KEY, encodeMeta(without)));
  await last.write();
  return { meta: without, entries };
}

/**
 * The meta record of a store whose account index has a readable coverage. Where it has none, the whole index is removed
 * first; the daemon rebuilds it from what is stored. For `repair`. Expected errors: `StorageError`.
 */
export async function withSoundAccounts(database: Database, meta: StoreMeta): Promise<StoreMeta> {
  const coverage = await unlessDamaged(async () => ({ is: await readCoverage(database) }));
  if (coverage !== undefined && agreesOnAccounts(meta, coverage.is !== undefined)) return meta;
  return (await forgetAccounts(database, meta)).meta;
}
