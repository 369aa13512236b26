import { crc32 } from 'node:zlib';

/**
 * Version of everything in this file. A store with a higher one is refused; a lower one would be migrated at open
 * (there is none yet).
 */
export const SCHEMA_VERSION = 1;

/**
 * The whole key space, one line per prefix: key → value. Integers are big-endian, heights are u64 (safe integers only),
 * every value ends with the CRC-32 of key and value. A prefix that is given up keeps its line, marked "retired", and is
 * never used again.
 *
 * Bodies stand under ascending heights (append-like, cheap to compact); under the hashes stand pointers only. The
 * position is part of a pointer's key, so a repeated id needs no read before its write, and a rewind no merge.
 */
export const Prefix = {
  /** `meta` → JSON of StoreMeta */
  meta: 0x01,
  /** `progress` → u64 lowest height not indexed yet (the watermark + 1) */
  progress: 0x02,
  /** `rewind` → RewindIntent; only while a rewind is under way */
  rewind: 0x03,
  /** `block, height` → BlockRecord: canonical light block, length and transaction count per collection, body length */
  block: 0x10,
  /** `body, height, u32 chunk` → the block's collections in guarantee order, each in its wire form, or a chunk of that */
  body: 0x11,
  /** `blockId, 32-byte id, height` → nothing */
  blockId: 0x20,
  /** `collection, 32-byte id, height, u32 collection index` → u32 offset in the body, u32 length */
  collection: 0x21,
  /** `transaction, 32-byte id, height, u32 collection index, u32 transaction index` → u32 offset in the body, u32 length */
  transaction: 0x22,
} as const;

/** A body up to this size is one value; a larger one is cut into chunks. */
export const MAX_WHOLE_BODY_BYTES = 256 * 1024;
export const BODY_CHUNK_BYTES = 64 * 1024;

export const CHECKSUM_BYTES = 4;
const ID_BYTES = 32;
const HEIGHT_BYTES = 8;
const INDEX_BYTES = 4;

export const META_KEY = Buffer.of(Prefix.meta);
export const PROGRESS_KEY = Buffer.of(Prefix.progress);
export const REWIND_KEY = Buffer.of(Prefix.rewind);

export const BLOCK_KEY_BYTES = 1 + HEIGHT_BYTES;
export const BODY_KEY_BYTES = 1 + HEIGHT_BYTES + INDEX_BYTES;
export const BLOCK_ID_KEY_BYTES = 1 + ID_BYTES + HEIGHT_BYTES;
export const COLLECTION_KEY_BYTES = BLOCK_ID_KEY_BYTES + INDEX_BYTES;
export const TRANSACTION_KEY_BYTES = COLLECTION_KEY_BYTES + INDEX_BYTES;

/** A half-open range of keys: `gte` ≤ key < `lt`. */
export interface KeyRange {
  readonly gte: Buffer;
  readonly lt: Buffer;
}

/** Every key of a prefix. */
export function prefixRange(prefix: number): KeyRange {
  return { gte: Buffer.of(prefix), lt: Buffer.of(prefix + 1) };
}

/** Block records, or bodies, of the heights `from … to`. */
export function heightRange(
  prefix: typeof Prefix.block | typeof Prefix.body,
  from: number,
  to: number,
): KeyRange {
  const gte = Buffer.allocUnsafe(1 + HEIGHT_BYTES);
  gte[0] = prefix;
  writeHeight(gte, from, 1);
  if (to === Number.MAX_SAFE_INTEGER) return { gte, lt: Buffer.of(prefix + 1) };
  const lt = Buffer.allocUnsafe(1 + HEIGHT_BYTES);
  lt[0] = prefix;
  writeHeight(lt, to + 1, 1);
  return { gte, lt };
}

/** Every pointer of an id under a pointer prefix. */
export function idRange(prefix: number, id: Uint8Array): KeyRange {
  const gte = Buffer.allocUnsafe(1 + ID_BYTES);
  gte[0] = prefix;
  gte.set(id, 1);
  // Heights are safe integers, so their first byte is 0: nothing of this id sorts above id + 0xff.
  const lt = Buffer.concat([gte, Buffer.of(0xff)]);
  return { gte, lt };
}

export function blockKey(height: number): Buffer {
  const key = Buffer.allocUnsafe(BLOCK_KEY_BYTES);
  key[0] = Prefix.block;
  writeHeight(key, height, 1);
  return key;
}

export function bodyKey(height: number, chunk: number): Buffer {
  const key = Buffer.allocUnsafe(BODY_KEY_BYTES);
  key[0] = Prefix.body;
  writeHeight(key, height, 1);
  key.writeUInt32BE(chunk, 1 + HEIGHT_BYTES);
  return key;
}

/** The height of a block record's key; `undefined` for a key that is none. */
export function parseBlockKey(key: Buffer): number | undefined {
  if (key[0] !== Prefix.block || key.length !== BLOCK_KEY_BYTES) return undefined;
  return tryReadHeight(key, 1);
}

/** Height and chunk of a body's key; `undefined` for a key that is none. */
export function parseBodyKey(key: Buffer): { readonly height: number; readonly chunk: number } | undefined {
  if (key[0] !== Prefix.body || key.length !== BODY_KEY_BYTES) return undefined;
  const height = tryReadHeight(key, 1);
  return height === undefined ? undefined : { height, chunk: key.readUInt32BE(1 + HEIGHT_BYTES) };
}

/** A pointer key taken apart. The indexes are 0 where the kind of pointer has none. */
export interface PointerKey {
  readonly prefix: PointerPrefix;
  readonly id: Buffer;
  readonly height: number;
  readonly collectionIndex: number;
  readonly transactionIndex: number;
}

/** Prefixes of pointers, ascending. */
export const POINTER_PREFIXES = [Prefix.blockId, Prefix.collection, Prefix.transaction] as const;
export type PointerPrefix = (typeof POINTER_PREFIXES)[number];

const pointerKeyBytes: Readonly<Record<PointerPrefix, number>> = {
  [Prefix.blockId]: BLOCK_ID_KEY_BYTES,
  [Prefix.collection]: COLLECTION_KEY_BYTES,
  [Prefix.transaction]: TRANSACTION_KEY_BYTES,
};

function isPointerPrefix(byte: number | undefined): byte is PointerPrefix {
  return byte === Prefix.blockId || byte === Prefix.collection || byte === Prefix.transaction;
}

/** `undefined` for a key that is no pointer key (wrong prefix, length or height). */
export function parsePointerKey(key: Buffer): PointerKey | undefined {
  const prefix = key[0];
  if (!isPointerPrefix(prefix) || key.length !== pointerKeyBytes[prefix]) return undefined;
  const height = tryReadHeight(key, 1 + ID_BYTES);
  if (height === undefined) return undefined;
  return {
    prefix,
    id: key.subarray(1, 1 + ID_BYTES),
    height,
    collectionIndex: prefix === Prefix.blockId ? 0 : key.readUInt32BE(BLOCK_ID_KEY_BYTES),
    transactionIndex: prefix === Prefix.transaction ? key.readUInt32BE(COLLECTION_KEY_BYTES) : 0,
  };
}

/** Where a collection or transaction stands in its block's body. */
export interface Slice {
  readonly offset: number;
  readonly length: number;
}

export const SLICE_BYTES = 8;

export function decodeSlice(payload: Buffer): Slice | undefined {
  if (payload.length !== SLICE_BYTES) return undefined;
  return { offset: payload.readUInt32BE(0), length: payload.readUInt32BE(4) };
}

/** How many chunks a body of this length is stored in; none for an empty one. */
export function bodyChunks(bodyLength: number): number {
  if (bodyLength === 0) return 0;
  return bodyLength <= MAX_WHOLE_BODY_BYTES ? 1 : Math.ceil(bodyLength / BODY_CHUNK_BYTES);
}

/** The value to store: the payload and the checksum of key and payload. */
export function seal(key: Uint8Array, payload: Uint8Array): Buffer {
  const value = Buffer.allocUnsafe(payload.length + CHECKSUM_BYTES);
  value.set(payload);
  value.writeUInt32BE(crc32(payload, crc32(key)), payload.length);
  return value;
}

/** The payload of a stored value, or `undefined` when its checksum does not match. */
export function unseal(key: Uint8Array, value: Buffer): Buffer | undefined {
  const end = value.length - CHECKSUM_BYTES;
  if (end < 0) return undefined;
  const payload = value.subarray(0, end);
  return crc32(payload, crc32(key)) === value.readUInt32BE(end) ? payload : undefined;
}

export function writeHeight(target: Buffer, height: number, offset: number): void {
  if (!Number.isSafeInteger(height) || height < 0) {
    throw new RangeError(`not a height: ${height}`);
  }
  target.writeUInt32BE(Math.floor(height / 2 ** 32), offset);
  target.writeUInt32BE(height % 2 ** 32, offset + 4);
}

/** `undefined` when the eight bytes are not a safe integer. */
export function tryReadHeight(source: Buffer, offset: number): number | undefined {
  const height = source.readUInt32BE(offset) * 2 ** 32 + source.readUInt32BE(offset + 4);
  return Number.isSafeInteger(height) ? height : undefined;
}
