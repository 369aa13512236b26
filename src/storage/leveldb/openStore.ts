import type { Logger } from '../../observability/index.js';
import { closed, opened } from '../records/accountCoverage.js';
import type { Coverage } from '../records/accountCoverage.js';
import type { Database } from '../records/Database.js';
import type { StoreMeta } from '../IndexStore.js';
import { encodeCoverage, encodeMeta } from '../records/codecs.js';
import { finishRewind } from './rewind.js';
import { ACCOUNTS_SCHEMA_VERSION, COVERAGE_KEY, META_KEY, seal } from '../records/schema.js';
import {
  checkEmpty,
  checkMeta,
  coverageOf,
  readMeta,
  readProgress,
  readRewind,
  readState,
} from '../records/storeState.js';
import type { StoreState } from '../records/storeState.js';
import { corruptRecord } from '../StorageError.js';

export interface LoadOptions {
  readonly path: string;
  readonly chainId: string;
  readonly forRewind?: boolean;
  readonly accounts?: boolean;
}

/** What the records of a store say. */
export interface LoadedStore {
  readonly state: StoreState | undefined;
  readonly coverage: Coverage | undefined;
}

/**
 * Reads the records, once they are known to be of a store that this program may touch. Finishes an interrupted rewind,
 * and switches the account index on or off where requested. Expected errors: `StorageError`; `OperatorError`
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
    return { state: undefined, coverage: undefined };
  }
  checkMeta(meta, options);
  const rewind = await readRewind(database);
  if (rewind !== undefined) {
    logger.info({ height: rewind.target, from: rewind.remaining }, 'finishing an interrupted rewind');
    await finishRewind(database, rewind, { logger, coverage: await coverageOf(database, meta) });
  }
  const state = await loadState(database, meta, forRewind);
  const coverage = await coverageOf(database, meta);
  if (accounts === undefined) return { state, coverage };
  return switchAccounts(database, { state, coverage }, accounts);
}

/** How far the store is. Expected errors: `StorageError` (`corrupt`). */
export async function loadState(
  database: Database,
  meta: StoreMeta,
  forRewind: boolean,
): Promise<StoreState> {
  const latestIndexedHeight = await readProgress(database);
  if (latestIndexedHeight === undefined) throw corruptRecord('progress record', undefined, 'it is missing');
  return readState(database, meta, latestIndexedHeight, forRewind);
}

/**
 * Switches the account index on or off, durably, before any block is committed: blocks committed without their entries
 * must never count as covered.
 */
async function switchAccounts(
  database: Database,
  { state, coverage }: { readonly state: StoreState; readonly coverage: Coverage | undefined },
  isOn: boolean,
): Promise<LoadedStore> {
  const { above, latestIndexedHeight, meta } = state;
  const highest = Math.max(latestIndexedHeight, ...above.keys());
  const next = isOn ? opened(coverage ?? [], highest + 1) : coverage && closed(coverage, latestIndexedHeight);
  if (
    next === undefined ||
    (coverage !== undefined && encodeCoverage(next).equals(encodeCoverage(coverage)))
  ) {
    return { state, coverage };
  }
  const begun = { ...meta, schemaVersion: ACCOUNTS_SCHEMA_VERSION };
  const batch = database.batch();
  batch.put(META_KEY, seal(META_KEY, encodeMeta(begun)));
  batch.put(COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(next)));
  await batch.write();
  return { state: { ...state, meta: begun }, coverage: next };
}
