import type { Database } from '../Database.js';
import type { StoreMeta } from '../IndexStore.js';
import { encodeMeta } from '../records.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  META_KEY,
  Prefix,
  prefixRange,
  SCHEMA_VERSION,
  seal,
} from '../schema.js';
import { readCoverage } from '../state.js';
import { isCorruption } from '../StorageError.js';

/**
 * The meta record of a store whose account index says what it covers. Where it does not any more, the whole index is
 * forgotten first: the daemon makes it anew, from what is stored. For `repair`: not atomic. Expected errors: `StorageError`.
 */
export async function withSoundAccounts(database: Database, meta: StoreMeta): Promise<StoreMeta> {
  if (await isSound(database, meta)) return meta;
  for await (const keys of database.keyPages(prefixRange(Prefix.account))) {
    const batch = database.batch();
    for (const key of keys) batch.del(key);
    await batch.write();
  }
  const without = { ...meta, schemaVersion: SCHEMA_VERSION };
  const batch = database.batch();
  batch.del(COVERAGE_KEY);
  batch.put(META_KEY, seal(META_KEY, encodeMeta(without)));
  await batch.write();
  return without;
}

async function isSound(database: Database, meta: StoreMeta): Promise<boolean> {
  try {
    const coverage = await readCoverage(database);
    return (coverage !== undefined) === (meta.schemaVersion === ACCOUNTS_SCHEMA_VERSION);
  } catch (error) {
    if (!isCorruption(error)) throw error;
    return false;
  }
}
