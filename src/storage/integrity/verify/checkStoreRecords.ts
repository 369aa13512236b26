import type { Logger } from '../../../observability/index.js';
import { finishInterrupted } from '../../leveldb/removal/rewind.js';
import type { StoreMeta } from '../../port/stored.js';
import { covers, type Coverage } from '../../records/accountCoverage.js';
import { openEvidence, readEvidence } from '../../records/blocks/committeeEvidence.js';
import { checkMeta } from '../../records/book/checkMeta.js';
import { readOne, readRanges, readUnproven, sealOne, single } from '../../records/book/bookRecords.js';
import type { Reading } from '../../records/book/bookRecords.js';
import { MAX_BLOCKS_ABOVE_WATERMARK, NO_BLOCKS } from '../../records/book/StoreBook.js';
import type { Database } from '../../records/Database.js';
import { joined } from '../../records/heightRanges.js';
import { agreesOnAccounts, heightRange, parseBlockKey, POINTER_PREFIXES } from '../../records/schema.js';
import { Prefix, prefixRange, RANGES_SCHEMA_VERSION, SCHEMA_VERSION } from '../../records/schema.js';
import type { KeyRange } from '../../records/schema.js';
import { extentOf, type Extent } from '../../verify/checkHeights.js';
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
 * `undefined` for a store that was never initialised. `database`: one whose reads skip damage (`readingOn`).
 *
 * Expected errors: `OperatorError` (`foreign`, `configuration`) for a store that is not ours to judge.
 */
export async function checkStoreRecords(
  database: Database,
  where: { readonly path: string; readonly chainId: string },
  damages: DamageList,
  { logger }: { readonly logger: Logger },
): Promise<LevelExtent | undefined> {
  const sound: Reading = (read) => damages.unlessIn('store_record', read);
  const wrong = (message: string): void => damages.add('store_record', undefined, message);
  const isThere = async (name: keyof typeof single): Promise<boolean> =>
    (await database.get(single[name].key)) !== undefined;
  const meta = await sound(() => readOne(database, single.meta));
  if (meta !== undefined) {
    checkMeta(meta, where);
    for (const message of await metaFaults(database, meta)) wrong(message);
    await sound(() => finishInterrupted(database, meta, logger));
  }
  const progress = await sound(() => readOne(database, single.progress));
  if (damages.count === 0 && (await database.first({}, 1)).length === 0) return undefined;

  for (const name of ['meta', 'progress'] as const)
    if (!(await isThere(name))) wrong(`${single[name].what}: it is missing`);
  const blocks = prefixRange(Prefix.block);
  const [lowest] = await database.first(blocks, 1);
  const highestIn = async (range: KeyRange): Promise<number | undefined> => {
    const key = await database.lastKey(range);
    return key && parseBlockKey(key);
  };
  const firstHeight = meta?.firstHeight ?? (lowest && parseBlockKey(lowest[0])) ?? 0;
  const latestIndexedHeight = progress ?? (await highestIn(blocks)) ?? firstHeight - 1;
  if (latestIndexedHeight < firstHeight - 1) wrong('progress record: it lies below the first height');

  const stored = await sound(() => readOne(database, single.coverage));
  const hasAccounts = await isThere('coverage');
  const agrees = meta === undefined || agreesOnAccounts(meta, hasAccounts);
  if (!agrees) wrong('record of the account index: it does not go with the meta record');
  const claimed = hasAccounts ? (stored ?? 'unknown') : undefined;
  const coverage = agrees ? claimed : 'unknown';

  const top = latestIndexedHeight + MAX_BLOCKS_ABOVE_WATERMARK;
  const highest =
    (await highestIn(heightRange(Prefix.block, latestIndexedHeight + 1, top))) ?? latestIndexedHeight;
  const { published, plans, open } = await readRanges(database, firstHeight, sound);
  const hasRanges = published.length + plans.length + open.length > 0;
  if (hasRanges && meta !== undefined && meta.schemaVersion < RANGES_SCHEMA_VERSION)
    wrong('record of the ranges: it does not go with the meta record');
  for (const entry of await readEvidence(database)) await sound(() => openEvidence(entry));
  const entered = open.filter((record) => record.hasAccounts);
  const found = { schemaVersion: SCHEMA_VERSION, chainId: where.chainId, createdBy: '', sporks: [], ...meta };
  const book = {
    meta: { ...found, firstHeight },
    latestIndexedHeight,
    published,
    open: open.map((record) => ({ ...record, ...NO_BLOCKS })),
    // If the record is damaged, any block may be without a proof.
    unproven: (await sound(() => readUnproven(database))) ?? [{ from: 0, to: Number.MAX_SAFE_INTEGER }],
  };
  return {
    ...extentOf(book, highest),
    coverage: typeof coverage === 'object' ? joined([...coverage, ...entered]) : coverage,
  };
}

async function metaFaults(database: Database, meta: StoreMeta): Promise<readonly string[]> {
  const [key, canonical] = sealOne(single.meta, meta);
  const stored = await database.get(key);
  const roots = meta.sporks.map(({ rootHeight }) => rootHeight);
  const ascend = roots.every((root, index) => root > (roots[index - 1] ?? -1));
  return [
    ...(stored?.equals(canonical) === false ? ['meta record: it is not in canonical encoding'] : []),
    ...(ascend ? [] : ['meta record: its sporks do not ascend']),
  ];
}

/** Prefixes with any number of keys, ascending. */
const MANY = [Prefix.open, Prefix.evidence, Prefix.block, Prefix.body, ...POINTER_PREFIXES, Prefix.account];

/** Keys outside the key space: between the prefixes with many keys, and next to the single records. */
export async function* unknownKeys(database: Database): AsyncGenerator<Buffer, void> {
  const singles = Object.values(single).map((record) => record.key);
  for (const [index, prefix] of [-1, ...MANY].entries()) {
    const next = MANY[index];
    const gap = { gte: Buffer.of(prefix + 1), ...(next !== undefined && { lt: Buffer.of(next) }) };
    for await (const page of database.pages(gap))
      for (const [key] of page) if (!singles.some((known) => known.equals(key))) yield key;
  }
}
