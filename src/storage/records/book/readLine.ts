import type { BlockHead } from '../../port/stored.js';
import { corruptRecord, isCorruption } from '../../StorageError.js';
import { headOf, openBlockRecord, readBlock } from '../blocks/readBlocks.js';
import type { Database } from '../Database.js';
import { heightRange, parseBlockKey, Prefix } from '../schema.js';
import { MAX_BLOCKS_ABOVE_WATERMARK } from './StoreBook.js';
import type { LineState } from './StoreBook.js';

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
