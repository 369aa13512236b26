import { corruptRecord, isCorruption } from '../../StorageError.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { BlockHead, StoreMeta } from '../../port/stored.js';
import type { Database, Entry, WriteBatch } from '../Database.js';
import type { Coverage } from '../accountCoverage.js';
import { headOf, openBlockRecord, readHead } from '../blocks/readBlocks.js';
import {
  decodeCoverage,
  decodeProgress,
  decodeRewind,
  encodeCoverage,
  encodeProgress,
} from '../coding/heightRecords.js';
import type { RewindIntent } from '../coding/heightRecords.js';
import {
  decodeMeta,
  decodeOpenRecord,
  decodePlans,
  encodeMeta,
  encodeOpenRecord,
  encodePlans,
} from '../coding/jsonRecords.js';
import type { OpenRecord } from '../coding/jsonRecords.js';
import { openKeyOf, openValue, seal } from '../coding/seal.js';
import { overlap } from '../heightRanges.js';
import type { HeightRanges } from '../heightRanges.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  META_KEY,
  PLANS_KEY,
  PROGRESS_KEY,
  PROOFS_SCHEMA_VERSION,
  PUBLISHED_KEY,
  Prefix,
  RANGES_SCHEMA_VERSION,
  REWIND_KEY,
  UNPROVEN_KEY,
  heightKey,
  heightRange,
  parseBlockKey,
  parseHeightKey,
  prefixRange,
} from '../schema.js';
import { MAX_BLOCKS_ABOVE_WATERMARK } from './StoreBook.js';
import type { LineState, OpenState, StoreBook } from './StoreBook.js';
import { settled } from './changeBook.js';

export function readMeta(database: Database): Promise<StoreMeta | undefined> {
  return readRecord(database, META_KEY, 'meta record', (payload) =>
    decodeMeta(payload, PROOFS_SCHEMA_VERSION),
  );
}

export function readProgress(database: Database): Promise<number | undefined> {
  return readRecord(database, PROGRESS_KEY, 'progress record', decodeProgress);
}

export function readRewind(database: Database): Promise<RewindIntent | undefined> {
  return readRecord(database, REWIND_KEY, 'rewind record', decodeRewind);
}

export async function readPublished(database: Database): Promise<HeightRanges> {
  return (await readRecord(database, PUBLISHED_KEY, 'record of the ranges', decodeCoverage)) ?? [];
}

export async function readUnproven(database: Database): Promise<HeightRanges> {
  return (await readRecord(database, UNPROVEN_KEY, 'record of the unproven heights', decodeCoverage)) ?? [];
}

export async function readPlans(database: Database): Promise<readonly BackfillPlan[]> {
  return (await readRecord(database, PLANS_KEY, 'record of the plans', decodePlans)) ?? [];
}

/** Reads what is sound: damage is noted, or ignored, and what it hides is `undefined`. */
export type Reading = <T>(read: () => T | Promise<T>) => Promise<T | undefined>;

/** Damage is an error. */
const strictly: Reading = async (read) => read();

/** The open ranges, ascending. Expected errors: `StorageError` (`corrupt`). */
export async function readOpenRecords(database: Database, sound = strictly): Promise<OpenRecord[]> {
  const records: OpenRecord[] = [];
  await sound(async () => {
    for await (const page of database.pages(prefixRange(Prefix.open)))
      for (const entry of page) records.push(...((await sound(() => [openOpenRecord(entry)])) ?? []));
  });
  return records;
}

/** The ranges below a live one, and the plans. Ranges that contradict each other are damage. */
export async function readRanges(database: Database, firstHeight: number, sound = strictly) {
  const published = (await sound(() => readPublished(database))) ?? [];
  const plans = (await sound(() => readPlans(database))) ?? [];
  const open = await readOpenRecords(database, sound);
  const disorder = disorderOf(firstHeight, published, open);
  if (disorder === undefined) return { published, plans, open };
  await sound(() => {
    throw corruptRecord('record of the ranges', undefined, disorder);
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

/** The coverage record of an account index. */
export function sealCoverage(coverage: Coverage): Entry {
  return [COVERAGE_KEY, seal(COVERAGE_KEY, encodeCoverage(coverage))];
}

/** The coverage record, whether or not the meta record claims an account index. */
export function readCoverage(database: Database): Promise<Coverage | undefined> {
  return readRecord(database, COVERAGE_KEY, COVERAGE_RECORD, decodeCoverage);
}

/**
 * What the account index of a store covers; `undefined` for a store that never had one, without a read. Expected
 * errors: `StorageError` (`corrupt`).
 */
export async function coverageOf(database: Database, meta: StoreMeta): Promise<Coverage | undefined> {
  if (meta.schemaVersion < ACCOUNTS_SCHEMA_VERSION) return undefined;
  const coverage = await readCoverage(database);
  if (coverage === undefined && meta.schemaVersion === ACCOUNTS_SCHEMA_VERSION) {
    throw corruptRecord(COVERAGE_RECORD, undefined, 'it is missing');
  }
  return coverage;
}

const COVERAGE_RECORD = 'record of the account index';

async function readRecord<T>(
  database: Database,
  key: Buffer,
  name: string,
  decode: (payload: Buffer) => T | undefined,
): Promise<T | undefined> {
  const value = await database.get(key);
  return value && openValue({ what: name }, key, value, decode);
}

/**
 * What is durable of a run, from the records themselves: the block at the watermark, and the blocks above it, up to
 * `to`. With `tolerateDamage`, unreadable records are left to the rewind that follows.
 *
 * Expected errors: `StorageError` (`corrupt`).
 */
export async function readLine(
  database: Database,
  { firstHeight, latestIndexedHeight, to }: LineBounds,
  tolerateDamage: boolean,
): Promise<LineState> {
  let damaged = false;
  const tolerate = (error: unknown): void => {
    if (!tolerateDamage || !isCorruption(error)) throw error;
    damaged = true;
  };
  let latestBlock: BlockHead | undefined;
  if (latestIndexedHeight >= firstHeight) {
    try {
      latestBlock = await readHead(database, latestIndexedHeight);
    } catch (error) {
      tolerate(error);
    }
  }
  const above = new Map<number, BlockHead>();
  for await (const page of database.pages(heightRange(Prefix.block, latestIndexedHeight + 1, to))) {
    for (const [key, value] of page) {
      try {
        const head = headOf(openBlockRecord(key, value, openKeyOf('block record', key, parseBlockKey)));
        above.set(head.height, head);
      } catch (error) {
        tolerate(error);
      }
      if (above.size > MAX_BLOCKS_ABOVE_WATERMARK) {
        throw corruptRecord(
          'progress record',
          undefined,
          `more than ${MAX_BLOCKS_ABOVE_WATERMARK} blocks are stored above height ${latestIndexedHeight}`,
        );
      }
    }
  }
  return { latestIndexedHeight, latestBlock, above, damaged };
}

/** The heights of a run. */
export interface LineBounds {
  readonly firstHeight: number;
  readonly latestIndexedHeight: number;
  /** The highest height that may be durable. */
  readonly to: number;
}

/** Puts every record that changes with the book. `before` is `undefined` for a new store. */
export function putChanges(before: StoreBook | undefined, after: StoreBook, batch: WriteBatch): void {
  const { accounts, live, published, plans, open } = after;
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
  if (accounts !== undefined && accounts !== before?.accounts) batch.put(...sealCoverage(accounts));
  const { unproven } = after;
  if (unproven !== before?.unproven) putList(UNPROVEN_KEY, unproven, encodeCoverage(unproven));
  if (open === before?.open) return;
  const records = new Set(before?.open.map(({ record }) => record));
  for (const { record } of open)
    if (!records.has(record)) put(heightKey(Prefix.open, record.from), encodeOpenRecord(record));
  const left = new Set(open.map(({ record }) => record.from));
  for (const { from } of records) if (!left.has(from)) batch.del(heightKey(Prefix.open, from));
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
  const accounts = await coverageOf(database, meta);
  if (schemaVersion < RANGES_SCHEMA_VERSION)
    return { live, accounts, published: [], plans: [], open: [], unproven: [] };
  const { published, plans, open: records } = await readRanges(database, firstHeight);
  const open: OpenState[] = [];
  for (const record of records) {
    const { from: first, to, next } = record;
    const run = { firstHeight: first, latestIndexedHeight: next - 1, to };
    open.push({ record, line: await readLine(database, run, forRewind) });
  }
  const unproven = await readUnproven(database);
  const book = { live, accounts, published, plans, open, unproven };
  const after = settled(book);
  if (after !== book) {
    using batch = database.batch();
    putChanges(book, after, batch);
    await batch.write();
  }
  return after;
}
