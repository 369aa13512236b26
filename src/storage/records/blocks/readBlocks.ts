import { decodeBlock, WireError } from '../../../flow/index.js';
import type { BlockHead, StoredBlock } from '../../port/stored.js';
import { corruptRecord } from '../../StorageError.js';
import { decodeBlockRecord } from '../coding/blockRecord.js';
import type { CollectionShape } from '../coding/blockRecord.js';
import { openValue } from '../coding/seal.js';
import type { Database } from '../Database.js';
import { blockKey } from '../schema.js';

/** Where records and bodies are read from, by their keys. */
export type Values = Pick<Database, 'get' | 'getMany'>;

/** A block record, checked and decoded. */
export interface ReadBlock extends StoredBlock {
  /** One per guarantee, in guarantee order. */
  readonly shapes: readonly CollectionShape[];
  readonly bodyLength: number;
}

/** The block record of a height, or `undefined` when there is none. Expected errors: `StorageError` (`corrupt`). */
export async function readBlock(database: Values, height: number): Promise<ReadBlock | undefined> {
  const key = blockKey(height);
  const value = await database.get(key);
  return value && openBlockRecord(key, value, height);
}

/** Checks a block record against its key and decodes it. Expected errors: `StorageError` (`corrupt`). */
export function openBlockRecord(key: Buffer, value: Buffer, height: number): ReadBlock {
  const named = { what: 'block record', height };
  const { encoded, proof, collections, bodyLength } = openValue(named, key, value, decodeBlockRecord);
  const block = tryDecode(encoded, height);
  if (block.height !== height) {
    throw corruptRecord('block record', height, `it holds the block of height ${block.height}`);
  }
  if (block.guarantees.length !== collections.length) {
    throw corruptRecord('block record', height, 'it does not have one collection per guarantee');
  }
  return {
    block: {
      id: block.id,
      parentId: block.parentId,
      height,
      collectionIds: block.guarantees.map(({ collectionId }) => collectionId),
      encoded,
      ...(proof === undefined ? {} : { proof }),
    },
    transactionCounts: collections.map(({ transactionCount }) => transactionCount),
    shapes: collections,
    bodyLength,
  };
}

/** A block that must be there. Expected errors: `StorageError` (`corrupt`). */
export async function readHead(database: Values, height: number): Promise<BlockHead> {
  const stored = await readBlock(database, height);
  if (stored === undefined) throw corruptRecord('block record', height, 'it is missing');
  return headOf(stored);
}

function tryDecode(encoded: Uint8Array, height: number) {
  try {
    return decodeBlock(encoded);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw corruptRecord('block record', height, error.message, { cause: error });
  }
}

export function headOf({ block: { height, id, parentId } }: StoredBlock): BlockHead {
  return { height, id, parentId };
}
