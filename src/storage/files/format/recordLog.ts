import { maskedCrc } from './crc32c.js';

/**
 * The format shared by LevelDB's manifest and its write-ahead logs. A file is cut into blocks of 32 KiB, each filled
 * with fragments of `u32le masked CRC-32C of type and data, u16le length, u8 type, data`. A record is one whole
 * fragment, or a first, any number of middle ones and a last. The rest of a block without room for a header is empty.
 */

const BLOCK_BYTES = 32_768;
const HEADER_BYTES = 7;
const TYPE_OFFSET = 6;
const WHOLE = 1;
const FIRST = 2;
const LAST = 4;

export interface LogRecord {
  readonly data: Buffer;
  /** Where it ends in the file. */
  readonly end: number;
}

export interface RecordLog {
  /** The records up to the first unsound one. */
  readonly records: readonly LogRecord[];
  /**
   * `whole`: nothing follows. `torn`: at most the beginning of one record follows, as a crash during a write leaves it.
   * `damaged`: later records are sound, so those between were written and are lost; LevelDB would skip them.
   */
  readonly end: 'whole' | 'torn' | 'damaged';
}

interface Fragment {
  readonly type: number;
  readonly data: Buffer;
  readonly end: number;
}

/** Reads and verifies all records of a file. */
export function readRecordLog(file: Buffer): RecordLog {
  const records: LogRecord[] = [];
  let parts: Buffer[] | undefined;
  let at = 0;
  for (;;) {
    at = skipTrailer(at);
    if (at >= file.length) break;
    const fragment = fragmentAt(file, at);
    const fits = fragment !== undefined && begins(fragment) === (parts === undefined);
    if (!fits) {
      return { records, end: recordFollows(file, at) ? 'damaged' : 'torn' };
    }
    parts = [...(parts ?? []), fragment.data];
    at = fragment.end;
    if (!ends(fragment)) continue;
    records.push({ data: Buffer.concat(parts), end: at });
    parts = undefined;
  }
  return { records, end: parts === undefined ? 'whole' : 'torn' };
}

function begins({ type }: Fragment): boolean {
  return type === WHOLE || type === FIRST;
}

function ends({ type }: Fragment): boolean {
  return type === WHOLE || type === LAST;
}

function skipTrailer(at: number): number {
  const left = BLOCK_BYTES - (at % BLOCK_BYTES);
  return left < HEADER_BYTES ? at + left : at;
}

/** The fragment that begins at `at`; `undefined` unless all of it is there and sound. */
function fragmentAt(file: Buffer, at: number): Fragment | undefined {
  const blockEnd = Math.min(at - (at % BLOCK_BYTES) + BLOCK_BYTES, file.length);
  if (at + HEADER_BYTES > blockEnd) return undefined;
  const type = file.readUInt8(at + TYPE_OFFSET);
  const end = at + HEADER_BYTES + file.readUInt16LE(at + 4);
  if (type < WHOLE || type > LAST || end > blockEnd) return undefined;
  if (maskedCrc(file, at + TYPE_OFFSET, end) !== file.readUInt32LE(at)) return undefined;
  return { type, data: file.subarray(at + HEADER_BYTES, end), end };
}

/**
 * True when a record begins somewhere behind an unreadable place. Within the block it may begin anywhere, as the damage
 * may be in a length; later blocks begin with a fragment. Parts of the torn record do not count: the disk may have kept
 * them in any order.
 */
function recordFollows(file: Buffer, damagedAt: number): boolean {
  const blockEnd = damagedAt - (damagedAt % BLOCK_BYTES) + BLOCK_BYTES;
  for (let at = damagedAt; at < Math.min(blockEnd, file.length); at += 1) {
    const fragment = fragmentAt(file, at);
    if (fragment !== undefined && begins(fragment) && at > damagedAt) return true;
  }
  for (let block = blockEnd; block < file.length; block += BLOCK_BYTES) {
    for (let at = block; at < file.length && at < block + BLOCK_BYTES;) {
      const fragment = fragmentAt(file, at);
      if (fragment === undefined) break;
      if (begins(fragment)) return true;
      at = fragment.end;
    }
  }
  return false;
}
