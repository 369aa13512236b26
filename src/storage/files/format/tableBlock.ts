import { Cursor } from './Cursor.js';
import { unsnappy } from './snappy.js';

/** Bytes of a block without entries: its number of restart points, 0. */
export const EMPTY_BLOCK_BYTES = 4;

const PLAIN = 0;
const SNAPPY = 1;
/** The most bytes that a length within a block may take. */
const LENGTH_BYTES = 5;
/** What LevelDB appends to a key: kind of entry (one byte) and sequence number (seven), little-endian. */
const KEY_TRAILER_BYTES = 8;
/** Kinds: 0 deletes, 1 puts. */
const HIGHEST_KIND = 1;

/** Where a block's contents lie in the file; compression byte and checksum follow them. */
export interface BlockHandle {
  readonly offset: number;
  readonly size: number;
}

/** An entry of a block. Its key includes LevelDB's trailer. */
export interface TableEntry {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** A key as it was written, from one as it stands in tables and manifests. */
export function withoutTrailer(key: Buffer): Buffer {
  return key.subarray(0, Math.max(0, key.length - KEY_TRAILER_BYTES));
}

/** What LevelDB appended to a key: when it was written, and whether it was put or deleted then. */
export function sequenceOfKey(key: Buffer): { readonly sequence: number; readonly isPut: boolean } {
  const trailer = key.readBigUInt64LE(key.length - KEY_TRAILER_BYTES);
  return { sequence: Number(trailer >> 8n), isPut: Number(trailer & 0xffn) === HIGHEST_KIND };
}

/** The entries of a block with a correct checksum; `undefined` when LevelDB could not read all of them. */
export function entriesOf(file: Buffer, { offset, size }: BlockHandle): TableEntry[] | undefined {
  const contents = contentsOf(file.subarray(offset, offset + size), file[offset + size]);
  if (contents === undefined || contents.length < EMPTY_BLOCK_BYTES) return undefined;
  const restarts = contents.readUInt32LE(contents.length - 4);
  if (restarts === 0) return [];
  const end = contents.length - 4 - 4 * restarts;
  if (end < 0) return undefined;
  const cursor = new Cursor(contents.subarray(0, end));
  const entries: TableEntry[] = [];
  // Restart points must be entries that do not build on the key before them.
  const beginnings = new Set<number>([0]);
  let key: Buffer = Buffer.alloc(0);
  while (!cursor.done) {
    const at = cursor.position;
    const shared = cursor.varint(LENGTH_BYTES);
    const unshared = cursor.varint(LENGTH_BYTES);
    const valueLength = cursor.varint(LENGTH_BYTES);
    const rest = cursor.take(unshared);
    const value = cursor.take(valueLength);
    if (cursor.failed || shared > key.length) return undefined;
    if (shared === 0) beginnings.add(at);
    key = shared === 0 ? rest : Buffer.concat([key.subarray(0, shared), rest]);
    entries.push({ key, value });
  }
  for (let at = end; at < contents.length - 4; at += 4) {
    if (!beginnings.has(contents.readUInt32LE(at))) return undefined;
  }
  return entries;
}

/** True for keys with LevelDB's trailer that ascend, the first above `above` and the last not above `through`. */
export function areInOrder(
  entries: readonly TableEntry[],
  { above, through }: { readonly above?: Buffer | undefined; readonly through?: Buffer | undefined } = {},
): boolean {
  let before = above;
  for (const { key } of entries) {
    const kind = key[key.length - KEY_TRAILER_BYTES];
    if (kind === undefined || kind > HIGHEST_KIND) return false;
    if (before !== undefined && compareKeys(before, key) >= 0) return false;
    before = key;
  }
  return (
    entries.length === 0 || before === undefined || through === undefined || compareKeys(before, through) <= 0
  );
}

/** For equal keys the newest comes first. */
function compareKeys(left: Buffer, right: Buffer): number {
  const leftEnd = left.length - KEY_TRAILER_BYTES;
  const rightEnd = right.length - KEY_TRAILER_BYTES;
  const order = left.compare(right, 0, rightEnd, 0, leftEnd);
  if (order !== 0) return order;
  const newer = left.readBigUInt64LE(leftEnd) - right.readBigUInt64LE(rightEnd);
  return newer === 0n ? 0 : newer > 0n ? -1 : 1;
}

function contentsOf(stored: Buffer, compression: number | undefined): Buffer | undefined {
  if (compression === SNAPPY) return unsnappy(stored);
  return compression === PLAIN ? stored : undefined;
}
