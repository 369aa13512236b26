import { decodeBlock, isSameBlock, WireError, type FinalizedBlock } from '../../../flow/index.js';
import type { BlockHead, StoredBlock } from '../../port/stored.js';
import { corruptRecord } from '../../StorageError.js';
import { decodeBlockRecord, encodeBlockRecord } from '../coding/blockRecord.js';
import type { CollectionShape, Slice } from '../coding/blockRecord.js';
import { openValue, seal } from '../coding/seal.js';
import type { Database } from '../Database.js';
import { blockKey, BODY_CHUNK_BYTES, bodyChunks, bodyKey, MAX_WHOLE_BODY_BYTES } from '../schema.js';

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

/**
 * A block record and the block's body, or part of it, in one read unless the body is chunked: an unneeded first chunk costs
 * less than a second round trip. The bytes may be a view of a larger buffer. `undefined` when there is no such block.
 * Expected errors: `StorageError` (`corrupt`).
 */
export async function readBody(database: Values, height: number, part?: Slice) {
  const recordKey = blockKey(height);
  const [record, first] = await database.getMany([recordKey, bodyKey(height, 0)]);
  if (record === undefined) return undefined;
  const read = openBlockRecord(recordKey, record, height);
  const { bodyLength } = read;
  const slice = part ?? { offset: 0, length: bodyLength };
  const end = Math.min(slice.offset + slice.length, bodyLength);
  const from = Math.max(1, Math.floor(slice.offset / BODY_CHUNK_BYTES));
  const others = bodyChunks(bodyLength) > 1 ? Math.max(0, Math.ceil(end / BODY_CHUNK_BYTES) - from) : 0;
  const keys = Array.from({ length: others }, (_, index) => bodyKey(height, from + index));
  const values = others === 0 ? [] : await database.getMany(keys);
  return { read, bytes: bodySlice(read, slice, (chunk) => (chunk === 0 ? first : values[chunk - from])) };
}

/** The body of a block from its values. Expected errors: `StorageError` (`corrupt`). */
export function wholeBody(read: ReadBlock, valueOf: (chunk: number) => Buffer | undefined): Buffer {
  return bodySlice(read, { offset: 0, length: read.bodyLength }, valueOf);
}

/** The collections in a whole body, in guarantee order. */
export function collectionsIn({ shapes }: ReadBlock, body: Buffer): Buffer[] {
  let end = 0;
  return shapes.map(({ length }) => body.subarray(end, (end += length)));
}

/** Part of a body, from the chunks that hold it. Expected errors: `StorageError` (`corrupt`). */
function bodySlice(
  { block: { height }, bodyLength }: ReadBlock,
  { offset, length }: Slice,
  valueOf: (chunk: number) => Buffer | undefined,
): Buffer {
  const end = offset + length;
  if (end > bodyLength)
    throw corruptRecord('body', height, 'it ends before a collection or transaction that it should hold');
  if (length === 0) return Buffer.alloc(0);
  const isWhole = bodyLength <= MAX_WHOLE_BODY_BYTES;
  const chunkBytes = isWhole ? bodyLength : BODY_CHUNK_BYTES;
  const first = Math.floor(offset / chunkBytes);
  const chunks: Buffer[] = [];
  for (let chunk = first; chunk * chunkBytes < end; chunk += 1) {
    const value = valueOf(chunk);
    if (value === undefined) throw corruptRecord('body', height, `chunk ${chunk} is missing`);
    const bytes = Math.min(chunkBytes, bodyLength - chunk * chunkBytes);
    const named = { what: isWhole ? 'body' : `body chunk ${chunk}`, height };
    const sized = (payload: Buffer): Buffer | undefined => (payload.length === bytes ? payload : undefined);
    chunks.push(openValue(named, bodyKey(height, chunk), value, sized, 'it has the wrong length'));
  }
  const [only] = chunks;
  const bytes = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
  return bytes.subarray(offset - first * chunkBytes, end - first * chunkBytes);
}

/**
 * The record of a stored block with the proof that came later; the same where it has one. `undefined`: another block stands
 * there, or one with another parent or other guarantees than its id proves. Expected errors: `StorageError`.
 */
export function provenRecord(value: Buffer, proven: FinalizedBlock): Buffer | undefined {
  const { height, encoded, parentId, proof } = proven;
  const key = blockKey(height);
  const { block, shapes, bodyLength } = openBlockRecord(key, value, height);
  if (!isSameBlock(block, proven) || block.parentId !== parentId) return undefined;
  if (block.proof !== undefined) return value;
  return seal(key, encodeBlockRecord({ encoded, proof, collections: shapes, bodyLength }));
}
