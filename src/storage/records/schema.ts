import { ADDRESS_BYTES, addressBytes, toAddress, type Address } from '../../flow/index.js';
import { tryReadHeight, writeHeight } from './coding/heightRecords.js';

/** Version of a store without an account index: everything in this file except what is marked version 2. */
export const SCHEMA_VERSION = 1;

/**
 * Version of a store that has an account index, or part of one, so that no older program continues it without
 * maintaining the index.
 */
export const ACCOUNTS_SCHEMA_VERSION = 2;

/**
 * Version of a store that has a range besides its live one, an open range or a plan, so that no program that knows only
 * one range reads or continues it. It may have an account index.
 */
export const RANGES_SCHEMA_VERSION = 3;

/**
 * Version of a store some of whose blocks carry a proof, which an older program would take for damage. It may have ranges
 * and an account index. The version of a store without proofs is as low as it can be. A store with a higher one is refused.
 */
export const PROOFS_SCHEMA_VERSION = 4;

/** The lowest version for the features that a store has: it falls when the last use of one is gone, except for proofs. */
export function schemaVersionOf(has: {
  readonly accounts: boolean;
  readonly ranges: boolean;
  readonly proofs: boolean;
}): number {
  if (has.proofs) return PROOFS_SCHEMA_VERSION;
  if (has.ranges) return RANGES_SCHEMA_VERSION;
  return has.accounts ? ACCOUNTS_SCHEMA_VERSION : SCHEMA_VERSION;
}

/** True when the schema version fits a store with an account index (`hasAccounts`), or one without. */
export function agreesOnAccounts(
  { schemaVersion }: { readonly schemaVersion: number },
  hasAccounts: boolean,
): boolean {
  return (
    schemaVersion >= RANGES_SCHEMA_VERSION || hasAccounts === (schemaVersion === ACCOUNTS_SCHEMA_VERSION)
  );
}

/**
 * The whole key space, one line per prefix: key → value. Integers are big-endian, heights are u64 (safe integers only),
 * every value ends with the CRC-32 of key and value; `coding/` defines the payload before it. An abandoned prefix keeps
 * its line, marked "retired", and is never reused.
 *
 * Bodies are stored under ascending heights (append-like, cheap to compact); under hashes there are only pointers. The
 * position is part of a pointer's key, so a repeated id needs no read before its write, and a rewind no merge.
 */
export const Prefix = {
  /** `meta` → JSON of StoreMeta */
  meta: 0x01,
  /** `progress` → u64 lowest height not indexed yet (the watermark + 1) */
  progress: 0x02,
  /** `rewind` → RewindIntent; only while a rewind is under way */
  rewind: 0x03,
  /** `coverage` → the heights that the account index covers; version 2, absent if there never was such an index */
  coverage: 0x04,
  /** `published` → the covered ranges below the live one; version 3, absent if there are none */
  published: 0x05,
  /** `plans` → JSON of the plans; version 3, absent if there are none */
  plans: 0x06,
  /** `open, height` → JSON of OpenRecord: the open range that begins at this height; version 3 */
  open: 0x07,
  /** `unproven` → ranges of heights whose blocks have no proof; version 4, absent if there are none */
  unproven: 0x08,
  /** `evidence, height` → evidence of who signs from this block on (CommitteeEvidence, RLP); version 4 */
  evidence: 0x09,
  /** `block, height` → BlockRecord: canonical light block, its proof, length and transaction count per collection, body length */
  block: 0x10,
  /** `body, height, u32 chunk` → the block's collections in guarantee order, each in its wire form, or a chunk of that */
  body: 0x11,
  /** `blockId, 32-byte id, height` → nothing */
  blockId: 0x20,
  /** `collection, 32-byte id, height, u32 collection index` → u32 offset in the body, u32 length */
  collection: 0x21,
  /** `transaction, 32-byte id, height, u32 collection index, u32 transaction index` → u32 offset in the body, u32 length */
  transaction: 0x22,
  /**
   * `account, 8-byte address, ~height, ~u32 collection index, ~u32 transaction index` → u8 roles, u32 offset in the
   * body, u32 length; version 2. `~`: all bits inverted, so that the newest come first
   */
  account: 0x23,
} as const;

/** A body up to this size is one value; a larger one is cut into chunks. */
export const MAX_WHOLE_BODY_BYTES = 256 * 1024;
export const BODY_CHUNK_BYTES = 64 * 1024;
const ID_BYTES = 32;
const HEIGHT_BYTES = 8;
const INDEX_BYTES = 4;

const HEIGHT_KEY_BYTES = 1 + HEIGHT_BYTES;
const BODY_KEY_BYTES = HEIGHT_KEY_BYTES + INDEX_BYTES;
export const BLOCK_ID_KEY_BYTES = 1 + ID_BYTES + HEIGHT_BYTES;
export const COLLECTION_KEY_BYTES = BLOCK_ID_KEY_BYTES + INDEX_BYTES;
export const TRANSACTION_KEY_BYTES = COLLECTION_KEY_BYTES + INDEX_BYTES;
const ACCOUNT_KEY_BYTES = 1 + ADDRESS_BYTES + HEIGHT_BYTES + 2 * INDEX_BYTES;

/** A half-open range of keys: `gte` ≤ key < `lt`. */
export interface KeyRange {
  readonly gte: Buffer;
  readonly lt: Buffer;
}

export function keyAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

export function prefixRange(prefix: number): KeyRange {
  return { gte: Buffer.of(prefix), lt: Buffer.of(prefix + 1) };
}

/** Prefixes whose keys begin with a height. */
type HeightPrefix = typeof Prefix.open | typeof Prefix.evidence | typeof Prefix.block | typeof Prefix.body;

/** Block records, bodies or evidence, of the heights `from … to`. */
export function heightRange(prefix: HeightPrefix, from: number, to: number): KeyRange {
  const gte = heightKey(prefix, from);
  return { gte, lt: to === Number.MAX_SAFE_INTEGER ? Buffer.of(prefix + 1) : heightKey(prefix, to + 1) };
}

/** The key of a record of a height, or the beginning of one of `bytes`. */
export function heightKey(prefix: HeightPrefix, height: number, bytes = HEIGHT_KEY_BYTES): Buffer {
  const key = Buffer.allocUnsafe(bytes);
  key[0] = prefix;
  writeHeight(key, height, 1);
  return key;
}

/** The height in a key of a prefix; `undefined` for any other key. */
export function parseHeightKey(
  prefix: HeightPrefix,
  key: Buffer,
  bytes = HEIGHT_KEY_BYTES,
): number | undefined {
  return key[0] === prefix && key.length === bytes ? tryReadHeight(key, 1) : undefined;
}

/** Every pointer of an id under a pointer prefix. */
export function idRange(prefix: number, id: Uint8Array): KeyRange {
  const gte = idKey(prefix, id, 0);
  // Heights are safe integers, so their first byte is 0: nothing of this id sorts above id + 0xff.
  return { gte, lt: Buffer.concat([gte.subarray(0, 1 + ID_BYTES), Buffer.of(0xff)]) };
}

/** The first key of an id's pointers at or above a height. */
export function idKey(prefix: number, id: Uint8Array, height: number): Buffer {
  const key = Buffer.allocUnsafe(BLOCK_ID_KEY_BYTES);
  key[0] = prefix;
  key.set(id, 1);
  writeHeight(key, height, 1 + ID_BYTES);
  return key;
}

export function blockKey(height: number): Buffer {
  return heightKey(Prefix.block, height);
}

/** The height in a block record's key; `undefined` for any other key. */
export function parseBlockKey(key: Buffer): number | undefined {
  return parseHeightKey(Prefix.block, key);
}

export function bodyKey(height: number, chunk: number): Buffer {
  const key = heightKey(Prefix.body, height, BODY_KEY_BYTES);
  key.writeUInt32BE(chunk, HEIGHT_KEY_BYTES);
  return key;
}

/** Height and chunk in a body's key; `undefined` for any other key. */
export function parseBodyKey(key: Buffer): { readonly height: number; readonly chunk: number } | undefined {
  const height = parseHeightKey(Prefix.body, key, BODY_KEY_BYTES);
  return height === undefined ? undefined : { height, chunk: key.readUInt32BE(HEIGHT_KEY_BYTES) };
}

/** The number of a block record among the chunks of its body. */
export const RECORD = -1;

/** Height and chunk in the key of a block record or a body; `undefined` for any other key. */
export function parseValueKey(key: Buffer): ReturnType<typeof parseBodyKey> {
  const height = parseBlockKey(key);
  return height === undefined ? parseBodyKey(key) : { height, chunk: RECORD };
}

/** A parsed pointer key. The indexes are 0 where the kind of pointer has none. */
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

/** `undefined` for any other key (wrong prefix, length or height). */
export function parsePointerKey(key: Buffer): PointerKey | undefined {
  const prefix = POINTER_PREFIXES.find((each) => each === key[0]);
  if (prefix === undefined || key.length !== pointerKeyBytes[prefix]) return undefined;
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

export interface AccountKey {
  readonly address: Address;
  readonly height: number;
  readonly collectionIndex: number;
  readonly transactionIndex: number;
}

const ALL_ONES = 0xffff_ffff;

export function accountKey({ address, height, collectionIndex, transactionIndex }: AccountKey): Buffer {
  const key = Buffer.allocUnsafe(ACCOUNT_KEY_BYTES);
  key[0] = Prefix.account;
  key.set(addressBytes(address), 1);
  writeHeight(key, height, 1 + ADDRESS_BYTES);
  key.writeUInt32BE(collectionIndex, 1 + ADDRESS_BYTES + HEIGHT_BYTES);
  key.writeUInt32BE(transactionIndex, 1 + ADDRESS_BYTES + HEIGHT_BYTES + INDEX_BYTES);
  for (let at = 1 + ADDRESS_BYTES; at < ACCOUNT_KEY_BYTES; at += 1) key[at] = ~(key[at] as number) & 0xff;
  return key;
}

/** `undefined` for any other key (wrong prefix, length or height). */
export function parseAccountKey(key: Buffer): AccountKey | undefined {
  if (key[0] !== Prefix.account || key.length !== ACCOUNT_KEY_BYTES) return undefined;
  const at = 1 + ADDRESS_BYTES;
  const inverted = (offset: number): number => ALL_ONES - key.readUInt32BE(at + offset);
  const height = inverted(0) * 2 ** 32 + inverted(4);
  if (!Number.isSafeInteger(height)) return undefined;
  return {
    address: toAddress(key.subarray(1, at)),
    height,
    collectionIndex: inverted(HEIGHT_BYTES),
    transactionIndex: inverted(HEIGHT_BYTES + INDEX_BYTES),
  };
}

/** Number of chunks for a body of this length; 0 for an empty one. */
export function bodyChunks(bodyLength: number): number {
  if (bodyLength === 0) return 0;
  return bodyLength <= MAX_WHOLE_BODY_BYTES ? 1 : Math.ceil(bodyLength / BODY_CHUNK_BYTES);
}
