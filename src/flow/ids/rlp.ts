import { asBuffer } from '../wire/bytes.js';
import { WireError } from '../WireError.js';
import type { Identifier } from '../types.js';
import { IDENTIFIER_BYTES, sha3Identifier } from './identifiers.js';
import { RlpWriter } from './RlpWriter.js';

/** A value that RLP can encode. Numbers are unsigned: safe integers or bigints below 2^64; text is UTF-8. */
export type RlpItem = Uint8Array | string | number | bigint | boolean | readonly RlpItem[];

const FIRST_CAPACITY_BYTES = 1024;
const HEADER_BYTES_MAX = 9;
const LOW_32_BITS = 0xffff_ffffn;

/** Any value as RLP, in memory of its own. For values that are hashed now and then; hot paths write to an `RlpWriter`. */
export function encodeRlp(item: RlpItem): Uint8Array {
  const writer = new RlpWriter(FIRST_CAPACITY_BYTES);
  write(writer, item);
  return writer.written(0, writer.writtenBytes);
}

function write(writer: RlpWriter, item: RlpItem): void {
  if (typeof item === 'number' || typeof item === 'bigint' || typeof item === 'boolean') {
    writer.reserve(HEADER_BYTES_MAX);
    if (typeof item === 'bigint') writer.integer(Number(item & LOW_32_BITS), Number(item >> 32n));
    else writer.safeInteger(Number(item));
  } else if (typeof item === 'string' || item instanceof Uint8Array) {
    const bytes = typeof item === 'string' ? Buffer.from(item) : item;
    writer.reserve(bytes.length + HEADER_BYTES_MAX);
    writer.string(bytes);
  } else {
    const before = writer.writtenBytes;
    for (const each of item.toReversed()) write(writer, each);
    writer.reserve(HEADER_BYTES_MAX);
    writer.list(writer.position + writer.writtenBytes - before);
  }
}

/**
 * The id of a collection from the ids of its transactions, concatenated in order: SHA3-256 of RLP of a list that holds
 * one list of 32-byte strings. Expected errors: `WireError` when the length is no multiple of 32.
 */
export function collectionIdOf(transactionIds: Uint8Array): Identifier {
  const count = transactionIds.length / IDENTIFIER_BYTES;
  if (!Number.isInteger(count)) throw new WireError('a transaction id is cut short');
  const ids = Array.from({ length: count }, (_, index) =>
    transactionIds.subarray(index * IDENTIFIER_BYTES, (index + 1) * IDENTIFIER_BYTES),
  );
  return sha3Identifier(encodeRlp([ids]));
}

/** Decoded RLP: byte strings, which are views, and lists. */
export type RlpTree = Buffer | readonly RlpTree[];

const MAX_DEPTH = 16;
const LIST = 0xc0;
const LONG = 55;

/**
 * Decodes bytes that are one RLP item. Non-minimal lengths are accepted: the caller has checked the hash of these bytes.
 * Expected errors: `WireError`.
 */
export function decodeRlp(bytes: Uint8Array): RlpTree {
  const buffer = asBuffer(bytes);
  const { tree, next } = decodeItem(buffer, 0, 0);
  if (next !== buffer.length) throw new WireError('bytes follow an RLP item');
  return tree;
}

function decodeItem(
  bytes: Buffer,
  at: number,
  depth: number,
): { readonly tree: RlpTree; readonly next: number } {
  const first = bytes[at];
  if (first === undefined || depth > MAX_DEPTH)
    throw new WireError('an RLP item is cut short, or nested too deeply');
  if (first < 0x80) return { tree: bytes.subarray(at, at + 1), next: at + 1 };
  const isList = first >= LIST;
  let length = first - (isList ? LIST : 0x80);
  let start = at + 1;
  if (length > LONG) {
    const digits = length - LONG;
    if (digits > 4 || start + digits > bytes.length)
      throw new WireError('the length of an RLP item is invalid');
    length = bytes.readUIntBE(start, digits);
    start += digits;
  }
  const next = start + length;
  if (next > bytes.length) throw new WireError('an RLP item is cut short');
  if (!isList) return { tree: bytes.subarray(start, next), next };
  const items: RlpTree[] = [];
  for (let from = start; from < next;) {
    const item = decodeItem(bytes.subarray(0, next), from, depth + 1);
    items.push(item.tree);
    from = item.next;
  }
  return { tree: items, next };
}

/** The list that an item is. Expected errors of this and of the two below: `WireError`. */
export function rlpItems(tree: RlpTree | undefined): readonly RlpTree[] {
  if (tree === undefined || tree instanceof Uint8Array) throw new WireError('an RLP list is missing');
  return tree;
}

/** The byte string that an item is, as a view. */
export function rlpBytes(tree: RlpTree | undefined): Buffer {
  if (!(tree instanceof Buffer)) throw new WireError('an RLP byte string is missing');
  return tree;
}

/** The number that an item is: a safe integer. */
export function rlpNumber(tree: RlpTree | undefined): number {
  const value = Number(`0x0${rlpBytes(tree).toString('hex')}`);
  if (!Number.isSafeInteger(value)) throw new WireError('an RLP number is too large');
  return value;
}
