import { decodeBlock, WireError } from '../../flow/index.js';
import type { BlockHead, StoredBlock } from '../IndexStore.js';
import type { Database, Entry } from './Database.js';
import { decodeBlockRecord } from './codecs.js';
import type { CollectionShape } from './codecs.js';
import type { AccountKey, AccountValue, PointerKey, PointerPrefix, Slice } from './schema.js';
import {
  blockKey,
  BODY_CHUNK_BYTES,
  bodyChunks,
  bodyKey,
  decodeAccountValue,
  decodeSlice,
  MAX_WHOLE_BODY_BYTES,
  parseAccountKey,
  parsePointerKey,
  Prefix,
  unseal,
} from './schema.js';
import { corruptRecord } from '../StorageError.js';

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
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord('block record', height, 'its checksum does not match');
  const record = decodeBlockRecord(payload);
  if (record === undefined) throw corruptRecord('block record', height, 'it cannot be read');
  const { encoded, collections, bodyLength } = record;
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
    },
    transactionCounts: collections.map(({ transactionCount }) => transactionCount),
    shapes: collections,
    bodyLength,
  };
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
 * A block record and part of the block's body, read at once although only the record says how the body is chunked: an
 * unneeded chunk costs less than a second round trip. The part may be a view of a larger buffer. `undefined` when there
 * is no such block. Expected errors: `StorageError` (`corrupt`).
 */
export async function readSlice(
  database: Values,
  height: number,
  slice: Slice,
): Promise<{ readonly read: ReadBlock; readonly encoded: Buffer } | undefined> {
  const recordKey = blockKey(height);
  const keys = [recordKey];
  const chunks = chunksThatMayHold(slice);
  for (const chunk of chunks) keys.push(bodyKey(height, chunk));
  const [record, ...values] = await database.getMany(keys);
  if (record === undefined) return undefined;
  const read = openBlockRecord(recordKey, record, height);
  const encoded = bodySlice(read, slice, (chunk) => values[chunks.indexOf(chunk)]);
  return { read, encoded };
}

/** The chunks to read, whether the body is one value or chunked. */
function chunksThatMayHold({ offset, length }: Slice): number[] {
  if (length === 0) return [];
  const end = offset + length;
  const chunks = offset < MAX_WHOLE_BODY_BYTES ? [0] : [];
  for (let chunk = Math.floor(offset / BODY_CHUNK_BYTES); chunk * BODY_CHUNK_BYTES < end; chunk += 1) {
    if (chunk > 0 || chunks.length === 0) chunks.push(chunk);
  }
  return chunks;
}

/**
 * Part of a block's body; of a chunked one only the chunks that hold it are read. The result may be a view of a larger
 * buffer. Expected errors: `StorageError` (`corrupt`).
 */
export async function readBody(database: Values, read: ReadBlock, slice: Slice): Promise<Buffer> {
  const { first, last } = chunksOf(read, slice);
  const keys: Buffer[] = [];
  for (let chunk = first; chunk <= last; chunk += 1) keys.push(bodyKey(read.block.height, chunk));
  const values = keys.length === 0 ? [] : await database.getMany(keys);
  return bodySlice(read, slice, (chunk) => values[chunk - first]);
}

/**
 * A block record and the block's whole body, in one read unless the body is chunked. The body may be a view of a larger
 * buffer. `undefined` when there is no such block. Expected errors: `StorageError` (`corrupt`).
 */
export async function readWhole(
  database: Values,
  height: number,
): Promise<{ readonly read: ReadBlock; readonly body: Buffer } | undefined> {
  const recordKey = blockKey(height);
  const [record, chunk] = await database.getMany([recordKey, bodyKey(height, 0)]);
  if (record === undefined) return undefined;
  const read = openBlockRecord(recordKey, record, height);
  const whole = { offset: 0, length: read.bodyLength };
  const isOneValue = chunksOf(read, whole).last <= 0;
  return {
    read,
    body: isOneValue ? bodySlice(read, whole, () => chunk) : await readBody(database, read, whole),
  };
}

/** The chunks that hold part of a body; none (`last` below `first`) for an empty part. */
function chunksOf({ bodyLength }: ReadBlock, { offset, length }: Slice) {
  const chunkBytes = bodyLength <= MAX_WHOLE_BODY_BYTES ? bodyLength : BODY_CHUNK_BYTES;
  if (length === 0) return { chunkBytes, first: 0, last: -1 };
  const last = Math.floor((offset + length - 1) / chunkBytes);
  return { chunkBytes, first: Math.floor(offset / chunkBytes), last };
}

function bodySlice(read: ReadBlock, slice: Slice, valueOf: (chunk: number) => Buffer | undefined): Buffer {
  const { height } = read.block;
  const { offset, length } = slice;
  if (offset + length > read.bodyLength) {
    throw corruptRecord('body', height, 'it ends before a collection or transaction that it should hold');
  }
  const { chunkBytes, first, last } = chunksOf(read, slice);
  const chunks: Buffer[] = [];
  for (let chunk = first; chunk <= last; chunk += 1) {
    const value = valueOf(chunk);
    if (value === undefined) throw corruptRecord('body', height, `chunk ${chunk} is missing`);
    chunks.push(openBodyChunk(bodyKey(height, chunk), value, height, chunk, read.bodyLength));
  }
  const [only] = chunks;
  const bytes = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
  const start = offset - first * chunkBytes;
  return bytes.subarray(start, start + length);
}

/** Checks one chunk of a body (or the whole of a small one). Expected errors: `StorageError` (`corrupt`). */
export function openBodyChunk(
  key: Buffer,
  value: Buffer,
  height: number,
  chunk: number,
  bodyLength: number,
): Buffer {
  const payload = unseal(key, value);
  const name = bodyChunks(bodyLength) === 1 ? 'body' : `body chunk ${chunk}`;
  if (payload === undefined) throw corruptRecord(name, height, 'its checksum does not match');
  const expected =
    bodyLength <= MAX_WHOLE_BODY_BYTES
      ? bodyLength
      : Math.min(BODY_CHUNK_BYTES, bodyLength - chunk * BODY_CHUNK_BYTES);
  if (payload.length !== expected) throw corruptRecord(name, height, 'it has the wrong length');
  return payload;
}

/** A place that an id leads to. */
export type ReadPlace = Omit<ReadPointer, 'prefix' | 'id'>;

export interface ReadPointer extends PointerKey {
  /** Zero and zero for a block id. */
  readonly slice: Slice;
}

const NO_SLICE: Slice = { offset: 0, length: 0 };

/** Checks and parses a pointer. Expected errors: `StorageError` (`corrupt`). */
export function openPointer([key, value]: Entry): ReadPointer {
  const parsed = parsePointerKey(key);
  if (parsed === undefined) {
    throw corruptRecord('pointer', undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const name = pointerNames[parsed.prefix];
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(name, parsed.height, 'its checksum does not match');
  if (parsed.prefix === Prefix.blockId) {
    if (payload.length !== 0) throw corruptRecord(name, parsed.height, 'it has the wrong length');
    return { ...parsed, slice: NO_SLICE };
  }
  const slice = decodeSlice(payload);
  if (slice === undefined) throw corruptRecord(name, parsed.height, 'it has the wrong length');
  return { ...parsed, slice };
}

const ACCOUNT_ENTRY = 'entry of the account index';

/** Checks and parses an entry of the account index. Expected errors: `StorageError` (`corrupt`). */
export function openAccountEntry([key, value]: Entry): AccountKey & AccountValue {
  const parsed = parseAccountKey(key);
  if (parsed === undefined) {
    throw corruptRecord(ACCOUNT_ENTRY, undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(ACCOUNT_ENTRY, parsed.height, 'its checksum does not match');
  const decoded = decodeAccountValue(payload);
  if (decoded === undefined) throw corruptRecord(ACCOUNT_ENTRY, parsed.height, 'it cannot be read');
  return { ...parsed, ...decoded };
}

/** For messages. */
export function describeAccountKey({ address, height }: AccountKey): string {
  return `${ACCOUNT_ENTRY} of height ${height}, address ${address}`;
}

export const pointerNames: Readonly<Record<PointerPrefix, string>> = {
  [Prefix.blockId]: 'block id pointer',
  [Prefix.collection]: 'collection pointer',
  [Prefix.transaction]: 'transaction pointer',
};
