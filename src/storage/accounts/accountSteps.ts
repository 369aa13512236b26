import { WireError } from '../../flow/index.js';
import type { CoveredRange } from '../records/accountCoverage.js';
import type { Put } from '../records/blocks/BlockEntryWriter.js';
import { openBlockRecord } from '../records/blocks/readBlocks.js';
import type { ReadBlock } from '../records/blocks/readBlocks.js';
import { readBody } from '../records/blocks/readBodies.js';
import type { Database } from '../records/Database.js';
import { heightRange, parseBlockKey, Prefix } from '../records/schema.js';
import { corruptRecord } from '../StorageError.js';
import { locate, putAccounts } from './accountEntries.js';
import type { LocatedCollection } from './accountEntries.js';

/** Heights per step, and bytes of their collections; only a single larger block exceeds the latter. */
const MAX_STEP_HEIGHTS = 128;
const MAX_STEP_BYTES = 512 * 1024;

/**
 * Puts the account entries of the highest blocks of a hole, and returns the height down to which it is now complete.
 * Blocks above the watermark may be missing. Expected errors: `StorageError`.
 */
export async function putStep(
  database: Database,
  hole: CoveredRange,
  { watermark, put }: { readonly watermark: number; readonly put: Put },
): Promise<number> {
  const lowest = Math.max(hole.from, hole.to - MAX_STEP_HEIGHTS + 1);
  const entries = await database.first(heightRange(Prefix.block, lowest, hole.to), MAX_STEP_HEIGHTS);
  const blocks = new Map<number, ReadBlock>();
  for (const [key, value] of entries) {
    const height = parseBlockKey(key);
    if (height !== undefined) blocks.set(height, openBlockRecord(key, value, height));
  }
  let bytes = 0;
  for (let height = hole.to; height >= lowest; height -= 1) {
    const block = blocks.get(height);
    if (block === undefined) {
      if (height <= watermark) throw corruptRecord('block record', height, 'it is missing');
      continue;
    }
    bytes += block.bodyLength;
    if (bytes > MAX_STEP_BYTES && bytes > block.bodyLength) return height + 1;
    if (block.bodyLength > 0) putAccounts(height, await collectionsOf(database, block), put);
  }
  return lowest;
}

async function collectionsOf(database: Database, read: ReadBlock): Promise<LocatedCollection[]> {
  const body = await readBody(database, read, { offset: 0, length: read.bodyLength });
  let offset = 0;
  return read.shapes.map(({ length }, index) => {
    const encoded = body.subarray(offset, offset + length);
    offset += length;
    try {
      return locate(encoded);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      throw corruptRecord(`collection ${index}`, read.block.height, error.message, { cause: error });
    }
  });
}
