import type { Logger } from '../../../observability/index.js';
import { finishInterrupted } from '../../leveldb/removal/rewind.js';
import type { StoreMeta } from '../../port/stored.js';
import { covers } from '../../records/accountCoverage.js';
import type { Coverage } from '../../records/accountCoverage.js';
import { openEvidence, readEvidence } from '../../records/blocks/committeeEvidence.js';
import { checkMeta, disorderOf } from '../../records/book/checkStore.js';
import {
  openOpenRecord,
  readCoverage,
  readMeta,
  readPlans,
  readProgress,
  readPublished,
  readUnproven,
} from '../../records/book/bookRecords.js';
import { MAX_BLOCKS_ABOVE_WATERMARK } from '../../records/book/StoreBook.js';
import { encodeMeta } from '../../records/coding/jsonRecords.js';
import type { OpenRecord } from '../../records/coding/jsonRecords.js';
import { seal } from '../../records/coding/seal.js';
import type { Database } from '../../records/Database.js';
import { joined } from '../../records/heightRanges.js';
import {
  agreesOnAccounts,
  COVERAGE_KEY,
  heightRange,
  META_KEY,
  parseBlockKey,
  PLANS_KEY,
  POINTER_PREFIXES,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  PROOFS_SCHEMA_VERSION,
  PUBLISHED_KEY,
  RANGES_SCHEMA_VERSION,
  REWIND_KEY,
  UNPROVEN_KEY,
} from '../../records/schema.js';
import type { KeyRange } from '../../records/schema.js';
import { extentOf } from '../../verify/checkHeights.js';
import type { Extent } from '../../verify/checkHeights.js';
import type { DamageList } from '../../verify/DamageList.js';

export interface LevelExtent extends Extent {
  /**
   * The heights whose account entries must exist; `undefined`: no entry may exist; `unknown`: the record is damaged,
   * and the index lost with it.
   */
  readonly coverage: Coverage | 'unknown' | undefined;
}

/** True for a height whose account entries must exist. */
export function isCovered({ coverage }: LevelExtent, height: number): boolean {
  return coverage !== 'unknown' && covers(coverage, height);
}

/**
 * Checks the records of the store as a whole. It finishes an interrupted rewind first: half a rewind is not damage.
 * `undefined` for a store that was never initialised.
 *
 * Expected errors: `OperatorError` (`foreign`, `configuration`) for a store that is not ours to judge.
 */
export async function checkStoreRecords(
  database: Database,
  where: { readonly path: string; readonly chainId: string },
  damages: DamageList,
  { logger }: { readonly logger: Logger },
): Promise<LevelExtent | undefined> {
  const meta = await damages.unlessIn('store_record', () => readMeta(database));
  if (meta !== undefined) {
    checkMeta(meta, where);
    await damages.unlessIn('store_record', () => checkMetaForm(database, meta, damages));
    await damages.unlessIn('store_record', () => finishInterrupted(database, meta, logger));
  }
  const progress = await damages.unlessIn('store_record', () => readProgress(database));
  const [anything] = (await damages.unlessIn('store_record', () => database.first({}, 1))) ?? [];
  if (anything === undefined && damages.count === 0) return undefined;

  const present =
    (await damages.unlessIn('store_record', () => database.hasMany([META_KEY, PROGRESS_KEY]))) ?? [];
  if (present[0] === false) damages.add('store_record', undefined, 'meta record: it is missing');
  if (present[1] === false) damages.add('store_record', undefined, 'progress record: it is missing');
  const blocks = prefixRange(Prefix.block);
  const firstHeight =
    meta?.firstHeight ?? (await damages.unlessIn('store_record', () => lowestBlock(database, blocks))) ?? 0;
  const latestIndexedHeight =
    progress ??
    (await damages.unlessIn('store_record', () => highestBlock(database, blocks))) ??
    firstHeight - 1;
  if (latestIndexedHeight < firstHeight - 1) {
    damages.add('store_record', undefined, 'progress record: it lies below the first height');
  }
  const window = heightRange(
    Prefix.block,
    latestIndexedHeight + 1,
    latestIndexedHeight + MAX_BLOCKS_ABOVE_WATERMARK,
  );
  const coverage = await checkCoverage(database, meta, damages);
  const highest =
    (await damages.unlessIn('store_record', () => highestBlock(database, window))) ?? latestIndexedHeight;
  const { published, open } = await checkRanges(database, meta, { firstHeight, damages });
  for (const entry of (await damages.unlessIn('store_record', () => readEvidence(database))) ?? [])
    await damages.unlessIn('store_record', () => openEvidence(entry));
  const live = { from: firstHeight, to: latestIndexedHeight };
  const entered = open.filter(({ hasAccounts }) => hasAccounts);
  return {
    ...extentOf({ live, published, open }, highest),
    sporks: [...(meta?.sporks ?? []), ...open.flatMap(({ sporks }) => sporks)],
    coverage: typeof coverage === 'object' ? joined([...coverage, ...entered]) : coverage,
    unproven: await damages.unlessIn('store_record', () => readUnprovenOf(database, meta)),
  };
}

async function readUnprovenOf(database: Database, meta: StoreMeta | undefined) {
  return meta?.schemaVersion === PROOFS_SCHEMA_VERSION ? readUnproven(database) : undefined;
}

/** The ranges besides the live one, as far as their records are sound. */
async function checkRanges(
  database: Database,
  meta: StoreMeta | undefined,
  { firstHeight, damages }: { readonly firstHeight: number; readonly damages: DamageList },
): Promise<Pick<Extent, 'published'> & { readonly open: readonly OpenRecord[] }> {
  const published = (await damages.unlessIn('store_record', () => readPublished(database))) ?? [];
  const plans = (await damages.unlessIn('store_record', () => readPlans(database))) ?? [];
  const open: OpenRecord[] = [];
  for await (const page of database.pages(prefixRange(Prefix.open))) {
    for (const entry of page) {
      const record = await damages.unlessIn('store_record', () => openOpenRecord(entry));
      if (record !== undefined) open.push(record);
    }
  }
  const wrong = disorderOf({ firstHeight, published, open });
  if (wrong !== undefined) {
    damages.add('store_record', undefined, `record of the ranges: ${wrong}`);
    return { published: [], open: [] };
  }
  const isAny = published.length + plans.length + open.length > 0;
  if (isAny && meta !== undefined && meta.schemaVersion < RANGES_SCHEMA_VERSION) {
    damages.add('store_record', undefined, 'record of the ranges: it does not go with the meta record');
  }
  return { published, open };
}

async function checkCoverage(
  database: Database,
  meta: StoreMeta | undefined,
  damages: DamageList,
): Promise<Coverage | 'unknown' | undefined> {
  const coverage = await damages.unlessIn('store_record', () => readCoverage(database));
  const isThere =
    (await damages.unlessIn('store_record', () => database.hasMany([COVERAGE_KEY])))?.[0] === true;
  if (meta !== undefined && !agreesOnAccounts(meta, isThere)) {
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

/** Looks for keys outside the key space: between the known prefixes, and next to the single records. */
export async function checkUnknownKeys(database: Database, damages: DamageList): Promise<void> {
  const singles = [META_KEY, PROGRESS_KEY, REWIND_KEY, COVERAGE_KEY, PUBLISHED_KEY, PLANS_KEY, UNPROVEN_KEY];
  const prefixes = [
    Prefix.open,
    Prefix.evidence,
    Prefix.block,
    Prefix.body,
    ...POINTER_PREFIXES,
    Prefix.account,
  ];
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
    await damages.unlessIn('store_record', async () => {
      for await (const keys of database.keyPages(gap)) {
        for (const key of keys) {
          if (singles.some((single) => single.equals(key))) continue;
          damages.add('unexpected', undefined, `key ${key.toString('hex')} is not one of ours`);
        }
      }
    });
  }
}
