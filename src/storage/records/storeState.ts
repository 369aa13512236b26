import { OperatorError } from '../../runtime/index.js';
import type { BlockHead, StoreMeta } from '../IndexStore.js';
import type { Database } from './Database.js';
import { headOf, openBlockRecord, readBlock } from './readRecords.js';
import type { Coverage } from './accountCoverage.js';
import { decodeCoverage, decodeMeta, decodeProgress, decodeRewind } from './codecs.js';
import type { RewindIntent } from './codecs.js';
import {
  ACCOUNTS_SCHEMA_VERSION,
  COVERAGE_KEY,
  heightRange,
  META_KEY,
  parseBlockKey,
  Prefix,
  PROGRESS_KEY,
  REWIND_KEY,
  unseal,
} from './schema.js';
import { corruptRecord, isCorruption, StorageError } from '../StorageError.js';

/**
 * The most blocks that may be durable above the watermark. They all lie within one window of heights, and no window is
 * wider than this.
 */
export const MAX_BLOCKS_ABOVE_WATERMARK = 4096;

/** What an open store keeps in memory. */
export interface StoreState {
  readonly meta: StoreMeta;
  readonly latestIndexedHeight: number;
  readonly latestBlock: BlockHead | undefined;
  /** Blocks that are durable above the watermark, by height. */
  readonly above: ReadonlyMap<number, BlockHead>;
  /** The block at the watermark, or one above it, is unreadable; tolerated only in order to rewind it away. */
  readonly damaged: boolean;
}

export function readMeta(database: Database): Promise<StoreMeta | undefined> {
  return readRecord(database, META_KEY, 'meta record', (payload) =>
    decodeMeta(payload, ACCOUNTS_SCHEMA_VERSION),
  );
}

export function readProgress(database: Database): Promise<number | undefined> {
  return readRecord(database, PROGRESS_KEY, 'progress record', decodeProgress);
}

export function readRewind(database: Database): Promise<RewindIntent | undefined> {
  return readRecord(database, REWIND_KEY, 'rewind record', decodeRewind);
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
  if (coverage === undefined) throw corruptRecord(COVERAGE_RECORD, undefined, 'it is missing');
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
  if (meta.schemaVersion > ACCOUNTS_SCHEMA_VERSION) {
    throw new OperatorError(
      'configuration',
      `The store at ${path} was written by a newer version of this program (schema ${meta.schemaVersion}, ` +
        `this one knows ${ACCOUNTS_SCHEMA_VERSION}). Upgrade the program, or choose another data directory.`,
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
 * What is durable, from the records themselves: the block at the watermark, and the blocks above it. With
 * `tolerateDamage`, unreadable records are left to the rewind that follows.
 *
 * Expected errors: `StorageError` (`corrupt`).
 */
export async function readState(
  database: Database,
  meta: StoreMeta,
  latestIndexedHeight: number,
  tolerateDamage: boolean,
): Promise<StoreState> {
  const { firstHeight } = meta;
  if (latestIndexedHeight < firstHeight - 1) {
    throw corruptRecord('progress record', undefined, `it lies below the first height, ${firstHeight}`);
  }
  let damaged = false;
  const tolerate = (error: unknown): void => {
    if (!tolerateDamage || !isCorruption(error)) throw error;
    damaged = true;
  };
  let latestBlock: BlockHead | undefined;
  if (latestIndexedHeight >= firstHeight) {
    try {
      const stored = await readBlock(database, latestIndexedHeight);
      if (stored === undefined) throw corruptRecord('block record', latestIndexedHeight, 'it is missing');
      latestBlock = headOf(stored);
    } catch (error) {
      tolerate(error);
    }
  }
  const above = new Map<number, BlockHead>();
  const range = heightRange(Prefix.block, latestIndexedHeight + 1, Number.MAX_SAFE_INTEGER);
  for await (const page of database.pages(range)) {
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
  return { meta, latestIndexedHeight, latestBlock, above, damaged };
}

function openBlockAbove(key: Buffer, value: Buffer) {
  const height = parseBlockKey(key);
  if (height === undefined) {
    throw corruptRecord('block record', undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  return openBlockRecord(key, value, height);
}
