import type { Logger } from '../../../observability/index.js';
import { corruptRecord, unlessDamaged, type StorageError } from '../../StorageError.js';
import type { BlockHead, HeightRange, StoreMeta } from '../../port/stored.js';
import type { Database, Entry, WriteBatch } from '../Database.js';
import type { Coverage } from '../accountCoverage.js';
import { headOf, openBlockRecord, readHead } from '../blocks/readBlocks.js';
import { decodeCoverage, decodeProgress, decodeRewind, encodeCoverage } from '../coding/heightRecords.js';
import { encodeProgress, encodeRewind } from '../coding/heightRecords.js';
import { decodeMeta, decodeOpenRecord, decodePlans, encodeMeta } from '../coding/jsonRecords.js';
import { encodeOpenRecord, encodePlans } from '../coding/jsonRecords.js';
import type { OpenRecord } from '../coding/jsonRecords.js';
import { openKeyOf, openValue, seal } from '../coding/seal.js';
import { overlap, type HeightRanges } from '../heightRanges.js';
import { ACCOUNTS_SCHEMA_VERSION, PROOFS_SCHEMA_VERSION, Prefix, RANGES_SCHEMA_VERSION } from '../schema.js';
import { heightKey, heightRange, parseBlockKey, parseHeightKey, prefixRange } from '../schema.js';
import { emptyBook, MAX_BLOCKS_ABOVE_WATERMARK } from './StoreBook.js';
import type { OpenState, StoreBook, StoreState } from './StoreBook.js';
import { emptied } from './changeBook.js';

/** A record that a store has once, or not at all. */
interface Single<T> {
  readonly key: Buffer;
  /** Its name in messages. */
  readonly what: string;
  readonly encode: (content: T) => Buffer;
  readonly decode: (payload: Buffer) => T | undefined;
}

/** All single records: `schema.ts` describes each. */
export const single = {
  meta: one(Prefix.meta, 'meta record', encodeMeta, (each) => decodeMeta(each, PROOFS_SCHEMA_VERSION)),
  progress: one(Prefix.progress, 'progress record', encodeProgress, decodeProgress),
  rewind: one(Prefix.rewind, 'rewind record', encodeRewind, decodeRewind),
  coverage: one(Prefix.coverage, 'record of the account index', encodeCoverage, decodeCoverage),
  published: one(Prefix.published, 'record of the ranges', encodeCoverage, decodeCoverage),
  plans: one(Prefix.plans, 'record of the plans', encodePlans, decodePlans),
  unproven: one(Prefix.unproven, 'record of the unproven heights', encodeCoverage, decodeCoverage),
};

function one<T>(
  prefix: number,
  what: string,
  encode: Single<T>['encode'],
  decode: Single<T>['decode'],
): Single<T> {
  return { key: Buffer.of(prefix), what, encode, decode };
}

/** `undefined`: there is none. Expected errors: `StorageError` (`corrupt`). */
export async function readOne<T>(
  database: Database,
  { key, what, decode }: Single<T>,
): Promise<T | undefined> {
  const value = await database.get(key);
  return value && openValue({ what }, key, value, decode);
}

export function sealOne<T>({ key, encode }: Single<T>, content: T): Entry {
  return [key, seal(key, encode(content))];
}

export async function readUnproven(database: Database): Promise<HeightRanges> {
  return (await readOne(database, single.unproven)) ?? [];
}

/** Reads what is sound: damage is recorded, or ignored, and what it hides is `undefined`. */
export type Reading = <T>(read: () => T | Promise<T>) => Promise<T | undefined>;

/** Damage is an error. */
const strictly: Reading = async (read) => read();

/**
 * The ranges below a live one, and the plans. Ranges that contradict each other are damage. Expected errors: `StorageError`
 * (`corrupt`).
 */
export async function readRanges(database: Database, firstHeight: number, sound = strictly) {
  const published = (await sound(() => readOne(database, single.published))) ?? [];
  const plans = (await sound(() => readOne(database, single.plans))) ?? [];
  const open: OpenRecord[] = [];
  await sound(async () => {
    for await (const page of database.pages(prefixRange(Prefix.open)))
      for (const entry of page) open.push(...((await sound(() => [openOpenRecord(entry)])) ?? []));
  });
  const disorder = disorderOf(firstHeight, published, open);
  if (disorder === undefined) return { published, plans, open };
  await sound(() => {
    throw corruptRecord(single.published.what, undefined, disorder);
  });
  return { published: [], plans, open: [] };
}

/** Why the ranges of a store contradict each other; `undefined`: they do not. */
function disorderOf(
  firstHeight: number,
  published: HeightRanges,
  open: readonly OpenRecord[],
): string | undefined {
  const last = published.at(-1);
  if (last !== undefined && last.to >= firstHeight - 1)
    return `heights ${last.from} to ${last.to} reach the live range`;
  let below = -1;
  for (const range of open) {
    const { from, to } = range;
    const isFree = from > below && to < firstHeight && !published.some((other) => overlap(other, range));
    if (!isFree) return `the open range ${from} to ${to} lies in another range`;
    below = to;
  }
  return undefined;
}

/** Checks and parses the record of an open range. Expected errors: `StorageError` (`corrupt`). */
function openOpenRecord([key, value]: Entry): OpenRecord {
  const from = openKeyOf(OPEN_RECORD, key, (each) => parseHeightKey(Prefix.open, each));
  return openValue({ what: OPEN_RECORD, height: from }, key, value, (payload) =>
    decodeOpenRecord(from, payload),
  );
}

const OPEN_RECORD = 'record of an open range';

/**
 * What the account index of a store covers; `undefined` for a store that never had one, without a read. Expected
 * errors: `StorageError` (`corrupt`).
 */
export async function coverageOf(database: Database, meta: StoreMeta): Promise<Coverage | undefined> {
  if (meta.schemaVersion < ACCOUNTS_SCHEMA_VERSION) return undefined;
  const coverage = await readOne(database, single.coverage);
  if (coverage === undefined && meta.schemaVersion === ACCOUNTS_SCHEMA_VERSION) {
    throw corruptRecord(single.coverage.what, undefined, 'it is missing');
  }
  return coverage;
}

/**
 * What is durable of a run of heights up to `to`, from the records themselves: the block at the watermark, and the blocks
 * above it. Expected errors: `StorageError` (`corrupt`: too many blocks).
 */
async function readBlocksOf(
  database: Database,
  { from, to }: HeightRange,
  latestIndexedHeight: number,
): Promise<Pick<StoreState, 'latestBlock' | 'above' | 'damage'>> {
  let damage: StorageError | undefined;
  const sound: Reading = (read) => unlessDamaged(read, (error) => (damage ??= error));
  const hasLatest = latestIndexedHeight >= from;
  const latestBlock = hasLatest ? await sound(() => readHead(database, latestIndexedHeight)) : undefined;
  const above = new Map<number, BlockHead>();
  for await (const page of database.pages(heightRange(Prefix.block, latestIndexedHeight + 1, to))) {
    for (const [key, value] of page) {
      const read = (): BlockHead =>
        headOf(openBlockRecord(key, value, openKeyOf('block record', key, parseBlockKey)));
      const head = await sound(read);
      if (head !== undefined) above.set(head.height, head);
      if (above.size <= MAX_BLOCKS_ABOVE_WATERMARK) continue;
      const many = `more than ${MAX_BLOCKS_ABOVE_WATERMARK} blocks are stored above height ${latestIndexedHeight}`;
      throw corruptRecord(single.progress.what, undefined, many);
    }
  }
  return { latestBlock, above, damage };
}

/** Puts every record that changes with the book. `before` is `undefined` for a new store. */
export function putChanges(before: StoreBook | undefined, after: StoreBook, batch: WriteBatch): void {
  const put = <T>(record: Single<T>, content: T): void => batch.put(...sealOne(record, content));
  const putList = <T extends readonly unknown[]>(record: Single<T>, list: T, old: T | undefined): void => {
    if (list === old) return;
    if (list.length > 0) put(record, list);
    else if (before !== undefined) batch.del(record.key);
  };
  const { accounts, latestIndexedHeight, meta, open } = after;
  if (meta !== before?.meta) put(single.meta, meta);
  if (latestIndexedHeight !== before?.latestIndexedHeight) put(single.progress, latestIndexedHeight);
  putList(single.published, after.published, before?.published);
  putList(single.plans, after.plans, before?.plans);
  putList(single.unproven, after.unproven, before?.unproven);
  if (accounts !== undefined && accounts !== before?.accounts) put(single.coverage, accounts);
  if (open === before?.open) return;
  const left = new Set(open.map(({ from }) => from));
  const records = new Set(before?.open);
  for (const record of open)
    if (!records.has(record)) batch.put(openKey(record), seal(openKey(record), encodeOpenRecord(record)));
  for (const record of records) if (!left.has(record.from)) batch.del(openKey(record));
}

const openKey = ({ from }: HeightRange): Buffer => heightKey(Prefix.open, from);

/**
 * Loads the book: all ranges of the store. Marks an open range with a damaged block for removal, so that it starts over. The
 * caller must settle the book. Expected errors: `StorageError` (`corrupt`).
 */
export async function loadBook(database: Database, meta: StoreMeta, logger: Logger): Promise<StoreBook> {
  const { firstHeight, schemaVersion } = meta;
  const latestIndexedHeight = await readOne(database, single.progress);
  if (latestIndexedHeight === undefined) throw corruptRecord('progress record', undefined, 'it is missing');
  if (latestIndexedHeight < firstHeight - 1) {
    throw corruptRecord('progress record', undefined, `it lies below the first height, ${firstHeight}`);
  }
  const all = { from: firstHeight, to: Number.MAX_SAFE_INTEGER };
  const live = await readBlocksOf(database, all, latestIndexedHeight);
  const accounts = await coverageOf(database, meta);
  const begun = { ...emptyBook(meta), latestIndexedHeight, ...live, accounts };
  if (schemaVersion < RANGES_SCHEMA_VERSION) return begun;
  const { open: records, ...ranges } = await readRanges(database, firstHeight);
  const open: OpenState[] = [];
  for (const record of records) {
    // Blocks above `keep` are still to be removed.
    const { from, next, keep: to = record.to } = record;
    const { damage, ...blocks } = await readBlocksOf(database, { from, to }, next - 1);
    if (damage !== undefined) {
      const fields = { from, to: record.to, height: damage.height, damage: damage.damage };
      logger.warn(fields, 'a range begins anew');
    }
    open.push(damage === undefined ? { ...record, ...blocks } : emptied(record, true));
  }
  return { ...begun, ...ranges, open, unproven: await readUnproven(database) };
}
