import { OperatorError } from '../../runtime/index.js';
import type { BackfillPlan, BlockHead, StoreMeta } from '../IndexStore.js';
import type { Database, Entry } from './Database.js';
import { overlap } from './heightRanges.js';
import type { HeightRanges } from './heightRanges.js';
import { headOf, openBlockRecord, readBlock } from './readRecords.js';
import type { Coverage } from './accountCoverage.js';
import {
  decodeCoverage,
  decodeMeta,
  decodeOpenRecord,
  decodePlans,
  decodeProgress,
  decodeRewind,
} from './codecs.js';
import type { OpenRecord, RewindIntent } from './codecs.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  heightRange,
  META_KEY,
  parseBlockKey,
  parseOpenKey,
  PLANS_KEY,
  Prefix,
  prefixRange,
  PROGRESS_KEY,
  PUBLISHED_KEY,
  RANGES_SCHEMA_VERSION,
  REWIND_KEY,
  unseal,
} from './schema.js';
import { corruptRecord, isCorruption, StorageError } from '../StorageError.js';

/**
 * The most blocks that may be durable above the watermark. They all lie within one window of heights, and no window is
 * wider than this.
 */
export const MAX_BLOCKS_ABOVE_WATERMARK = 4096;

/** How far one run of heights is durable. */
export interface LineState {
  readonly latestIndexedHeight: number;
  readonly latestBlock: BlockHead | undefined;
  /** Blocks that are durable above the watermark, by height. */
  readonly above: ReadonlyMap<number, BlockHead>;
  /** The block at the watermark, or one above it, is unreadable; tolerated only in order to rewind it away. */
  readonly damaged: boolean;
}

/** A run of heights and its meta record, whose `firstHeight` is the beginning of the run. */
export interface StoreState extends LineState {
  readonly meta: StoreMeta;
}

/** An open range. The watermark is `record.next - 1`. */
export interface OpenState {
  readonly record: OpenRecord;
  readonly line: LineState;
}

/** What an open store keeps in memory: everything its records say except the account index. */
export interface StoreBook {
  /** The live range, which is the highest. */
  readonly live: StoreState;
  /** The covered ranges below the live one, ascending; they do not touch it or each other. */
  readonly published: HeightRanges;
  readonly plans: readonly BackfillPlan[];
  /** Ascending. */
  readonly open: readonly OpenState[];
  /** There is a record of the account index. */
  readonly hasAccounts: boolean;
}

/** The heights that can be read. */
export function coverageOfBook({ live, published }: StoreBook): HeightRanges {
  const range = { from: live.meta.firstHeight, to: live.latestIndexedHeight };
  return range.to < range.from ? published : [...published, range];
}

export function readMeta(database: Database): Promise<StoreMeta | undefined> {
  return readRecord(database, META_KEY, 'meta record', (payload) =>
    decodeMeta(payload, RANGES_SCHEMA_VERSION),
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

export async function readPlans(database: Database): Promise<readonly BackfillPlan[]> {
  return (await readRecord(database, PLANS_KEY, 'record of the plans', decodePlans)) ?? [];
}

/** The open ranges, ascending. Expected errors: `StorageError` (`corrupt`). */
export async function readOpenRecords(database: Database): Promise<OpenRecord[]> {
  const records: OpenRecord[] = [];
  for await (const page of database.pages(prefixRange(Prefix.open))) {
    for (const entry of page) records.push(openOpenRecord(entry));
  }
  return records;
}

/** Checks and parses the record of an open range. Expected errors: `StorageError` (`corrupt`). */
export function openOpenRecord([key, value]: Entry): OpenRecord {
  const from = parseOpenKey(key);
  if (from === undefined) {
    throw corruptRecord(OPEN_RECORD, undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(OPEN_RECORD, from, 'its checksum does not match');
  const record = decodeOpenRecord(from, payload);
  if (record === undefined) throw corruptRecord(OPEN_RECORD, from, 'it cannot be read');
  return record;
}

/** What is wrong with how the ranges of a store lie to each other; `undefined`: nothing. */
export function disorderOf({
  firstHeight,
  published,
  open,
}: {
  readonly firstHeight: number;
  readonly published: HeightRanges;
  readonly open: readonly OpenRecord[];
}): string | undefined {
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

const OPEN_RECORD = 'record of an open range';

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
  if (value === undefined) return undefined;
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(name, undefined, 'its checksum does not match');
  const record = decode(payload);
  if (record === undefined) throw corruptRecord(name, undefined, 'it cannot be read');
  return record;
}

/**
 * Refuses a store that this program may not touch. Expected errors: `OperatorError`: `foreign` for another chain's,
 * `configuration` for one that a newer version wrote.
 */
export function checkMeta(meta: StoreMeta, { path, chainId }: { path: string; chainId: string }): void {
  if (meta.schemaVersion > RANGES_SCHEMA_VERSION) {
    throw new OperatorError(
      'configuration',
      `The store at ${path} was written by a newer version of this program (schema ${meta.schemaVersion}, ` +
        `this one knows ${RANGES_SCHEMA_VERSION}). Upgrade the program, or choose another data directory.`,
    );
  }
  if (meta.chainId !== chainId) {
    throw new OperatorError(
      'foreign',
      `The store at ${path} belongs to chain ${meta.chainId}, not to ${chainId}. ` +
        'Choose the matching network, or another data directory.',
    );
  }
}

/** A database with entries but no meta record is not ours. Expected errors: `StorageError`. */
export async function checkEmpty(database: Database, path: string): Promise<void> {
  const [entry] = await database.first({}, 1);
  if (entry === undefined) return;
  throw new StorageError(
    'not_a_store',
    `${path} holds a LevelDB database without our meta record: it belongs to another program, or its meta record is ` +
      'lost. Choose another directory, or restore this one from a copy.',
  );
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
        const head = headOf(openBlockAbove(key, value));
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

/** A block that must be there. Expected errors: `StorageError` (`corrupt`). */
export async function readHead(database: Database, height: number): Promise<BlockHead> {
  const stored = await readBlock(database, height);
  if (stored === undefined) throw corruptRecord('block record', height, 'it is missing');
  return headOf(stored);
}

function openBlockAbove(key: Buffer, value: Buffer) {
  const height = parseBlockKey(key);
  if (height === undefined) {
    throw corruptRecord('block record', undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  return openBlockRecord(key, value, height);
}
