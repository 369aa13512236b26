import type { Logger } from '../../../observability/index.js';
import type { SporkRecord, StoreMeta } from '../../IndexStore.js';
import { covers } from '../../records/accountCoverage.js';
import type { Coverage } from '../../records/accountCoverage.js';
import type { Database } from '../../records/Database.js';
import { encodeMeta } from '../../records/codecs.js';
import { finishRewind } from '../../leveldb/rewind.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  heightRange,
  META_KEY,
  parseBlockKey,
  POINTER_PREFIXES,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  REWIND_KEY,
  seal,
} from '../../records/schema.js';
import type { KeyRange } from '../../records/schema.js';
import {
  checkMeta,
  coverageOf,
  MAX_BLOCKS_ABOVE_WATERMARK,
  readCoverage,
  readMeta,
  readProgress,
  readRewind,
} from '../../records/storeState.js';
import type { DamageList } from './DamageList.js';

/** How far the store reaches, by its own records or, where those are damaged, by its block records. */
export interface Extent {
  readonly firstHeight: number;
  /** Every height up to here must be there. */
  readonly latestIndexedHeight: number;
  /** The highest block that may be there: the watermark, or a block made durable above a gap. */
  readonly highest: number;
  /** The sporks that the store has crossed. */
  readonly sporks: readonly SporkRecord[];
  /**
   * The heights whose account entries must be there; `undefined`: no entry may be there at all; `unknown`: the record
   * is damaged, and the index lost with it.
   */
  readonly coverage: Coverage | 'unknown' | undefined;
}

/** True for a height whose account entries must be there. */
export function isCovered({ coverage }: Extent, height: number): boolean {
  return coverage !== 'unknown' && covers(coverage, height);
}

/**
 * Checks the records of the store as a whole. An interrupted rewind is finished first: half a rewind is not damage.
 * `undefined` for a store that was never initialised.
 *
 * Expected errors: `OperatorError` (`foreign`, `configuration`) for a store that is not ours to judge.
 */
export async function checkStoreRecords(
  database: Database,
  where: { readonly path: string; readonly chainId: string },
  damages: DamageList,
  { logger }: { readonly logger: Logger },
): Promise<Extent | undefined> {
  const meta = await attempt(damages, () => readMeta(database));
  if (meta !== undefined) {
    checkMeta(meta, where);
    await attempt(damages, () => checkMetaForm(database, meta, damages));
  }
  const rewind = await attempt(damages, () => readRewind(database));
  if (rewind !== undefined) {
    await attempt(damages, async () => {
      const coverage = meta && (await coverageOf(database, meta));
      await finishRewind(database, rewind, { logger, coverage });
    });
  }
  const progress = await attempt(damages, () => readProgress(database));
  const [anything] = (await attempt(damages, () => database.first({}, 1))) ?? [];
  if (anything === undefined && damages.count === 0) return undefined;

  const present = (await attempt(damages, () => database.hasMany([META_KEY, PROGRESS_KEY]))) ?? [];
  if (present[0] === false) damages.add('store_record', undefined, 'meta record: it is missing');
  if (present[1] === false) damages.add('store_record', undefined, 'progress record: it is missing');
  const blocks = prefixRange(Prefix.block);
  const firstHeight = meta?.firstHeight ?? (await attempt(damages, () => lowestBlock(database, blocks))) ?? 0;
  const latestIndexedHeight =
    progress ?? (await attempt(damages, () => highestBlock(database, blocks))) ?? firstHeight - 1;
  if (latestIndexedHeight < firstHeight - 1) {
    damages.add('store_record', undefined, 'progress record: it lies below the first height');
  }
  const window = heightRange(
    Prefix.block,
    latestIndexedHeight + 1,
    latestIndexedHeight + MAX_BLOCKS_ABOVE_WATERMARK,
  );
  const coverage = await checkCoverage(database, meta, damages);
  const highest = (await attempt(damages, () => highestBlock(database, window))) ?? latestIndexedHeight;
  return { firstHeight, latestIndexedHeight, highest, sporks: meta?.sporks ?? [], coverage };
}

async function checkCoverage(
  database: Database,
  meta: StoreMeta | undefined,
  damages: DamageList,
): Promise<Coverage | 'unknown' | undefined> {
  const coverage = await attempt(damages, () => readCoverage(database));
  const isThere = (await attempt(damages, () => database.hasMany([COVERAGE_KEY])))?.[0] === true;
  if (meta !== undefined && isThere !== (meta.schemaVersion === ACCOUNTS_SCHEMA_VERSION)) {
    const message = 'record of the account index: it does not go with the meta record';
    damages.add('store_record', undefined, message);
    return 'unknown';
  }
  return isThere ? (coverage ?? 'unknown') : undefined;
}

async function checkMetaForm(database: Database, meta: StoreMeta, damages: DamageList): Promise<void> {
  const stored = await database.get(META_KEY);
  if (stored?.equals(seal(META_KEY, encodeMeta(meta))) !== true) {
    damages.add('store_record', undefined, 'meta record: it is not in canonical encoding');
  }
  let below = -1;
  for (const { rootHeight } of meta.sporks) {
    if (rootHeight <= below) damages.add('store_record', undefined, 'meta record: its sporks do not ascend');
    below = rootHeight;
  }
}

async function lowestBlock(database: Database, range: KeyRange): Promise<number | undefined> {
  const [entry] = await database.first(range, 1);
  return entry && parseBlockKey(entry[0]);
}

async function highestBlock(database: Database, range: KeyRange): Promise<number | undefined> {
  const key = await database.lastKey(range);
  return key && parseBlockKey(key);
}

/** Notes damage found by `action`; the result is then unknown. */
async function attempt<T>(damages: DamageList, action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    damages.addError('store_record', error);
    return undefined;
  }
}

/** Looks for keys outside the key space: between the known prefixes, and next to the single records. */
export async function checkUnknownKeys(database: Database, damages: DamageList): Promise<void> {
  const singles = [META_KEY, PROGRESS_KEY, REWIND_KEY, COVERAGE_KEY];
  const prefixes = [Prefix.block, Prefix.body, ...POINTER_PREFIXES, Prefix.account];
  const gaps: Partial<KeyRange>[] = [];
  let gte: Buffer | undefined;
  for (const prefix of prefixes) {
    const known = prefixRange(prefix);
    gaps.push(gte === undefined ? { lt: known.gte } : { gte, lt: known.gte });
    gte = known.lt;
  }
  if (gte !== undefined) gaps.push({ gte });
  for (const gap of gaps) {
    if (gap.gte !== undefined && gap.lt?.equals(gap.gte) === true) continue;
    await attempt(damages, async () => {
      for await (const keys of database.keyPages(gap)) {
        for (const key of keys) {
          if (singles.some((single) => single.equals(key))) continue;
          damages.add('unexpected', undefined, `key ${key.toString('hex')} is not one of ours`);
        }
      }
    });
  }
}
