import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * LevelDB's manifest, as far as it tells which table files belong to the database. The others are left over: of a
 * compaction that was cut short when the database was closed, for one. LevelDB removes them at its next open, and what
 * stands in them is nobody's damage. Format: a log of records in blocks of 32 KiB, each fragment with a header of 7
 * bytes (checksum, length, type); a record is a list of tagged fields.
 */

const BLOCK_BYTES = 32_768;
const HEADER_BYTES = 7;
/** Types of fragments: whole records, and the parts of one that crosses blocks. */
const FULL = 1;
const FIRST = 2;
const LAST = 4;

/** What follows each tag of a record: numbers, or bytes with their length before them. */
type Field = 'number' | 'bytes';
const DELETED_FILE = 6;
const NEW_FILE = 7;
const FIELDS: Readonly<Record<number, readonly Field[]>> = {
  /** Name of the order of keys. */
  1: ['bytes'],
  /** Log, next file, last sequence. */
  2: ['number'],
  3: ['number'],
  4: ['number'],
  /** Where the next compaction of a level begins. */
  5: ['number', 'bytes'],
  [DELETED_FILE]: ['number', 'number'],
  /** Level, file, size, lowest and highest key. */
  [NEW_FILE]: ['number', 'number', 'number', 'bytes', 'bytes'],
  /** Previous log. */
  9: ['number'],
};

/** The numbers of the table files that make up the database; `undefined` when its manifest cannot be made out. */
export async function liveTables(path: string): Promise<ReadonlySet<number> | undefined> {
  let manifest: Buffer;
  try {
    const current = await readFile(join(path, 'CURRENT'), 'utf8');
    manifest = await readFile(join(path, current.trim()));
  } catch {
    return undefined;
  }
  const live = new Set<number>();
  for (const record of recordsOf(manifest)) if (!applyRecord(record, live)) return undefined;
  return live;
}

function* recordsOf(log: Buffer): Generator<Buffer, void> {
  let parts: Buffer[] = [];
  for (let at = 0; at + HEADER_BYTES <= log.length;) {
    const left = BLOCK_BYTES - (at % BLOCK_BYTES);
    const length = log.readUInt16LE(at + 4);
    const type = log[at + 6];
    // The rest of a block that has no room for a header is empty.
    if (left < HEADER_BYTES || type === 0) {
      at += left;
      continue;
    }
    const fragment = log.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
    if (type === FULL || type === FIRST) parts = [];
    parts.push(fragment);
    if (type === FULL || type === LAST) yield Buffer.concat(parts);
    at += HEADER_BYTES + length;
  }
}

/** `false` for a record that cannot be read. */
function applyRecord(record: Buffer, live: Set<number>): boolean {
  let at = 0;
  const number = (): number => {
    let value = 0;
    for (let scale = 1; at < record.length; scale *= 128) {
      const byte = record[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    at = Infinity;
    return 0;
  };
  while (at < record.length) {
    const tag = number();
    const fields = FIELDS[tag];
    if (fields === undefined) return false;
    const numbers: number[] = [];
    for (const field of fields) {
      const value = number();
      if (field === 'number') numbers.push(value);
      else at += value;
    }
    if (at > record.length) return false;
    const [, file = 0] = numbers;
    if (tag === NEW_FILE) live.add(file);
    if (tag === DELETED_FILE) live.delete(file);
  }
  return true;
}
