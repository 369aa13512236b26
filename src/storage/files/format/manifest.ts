import { Cursor } from './Cursor.js';
import { readRecordLog } from './recordLog.js';
import { withoutTrailer } from './tableBlock.js';

/**
 * LevelDB's manifest: which files make up the database. It is a log of records (recordLog.ts), each a list of tagged
 * fields, with the whole history since the database was opened. Table files that it does not name are left over, for
 * example from an interrupted compaction; LevelDB removes them at its next open.
 */
export interface Manifest {
  /** Sizes in bytes of the table files in use, by number. */
  readonly tables: ReadonlyMap<number, number>;
  /** The key range of each table. */
  readonly spans: ReadonlyMap<number, KeySpan>;
  /** Write-ahead logs from this number on are not yet in tables. 0: there never was one. */
  readonly logNumber: number;
  /** The last sequence number assigned when the manifest was written. */
  readonly lastSequence: number;
}

/** A range of keys, both ends included. */
export interface KeySpan {
  readonly from: Buffer;
  readonly through: Buffer;
}

/** What follows each tag of a record: numbers, or length-prefixed bytes. */
type Field = 'number' | 'bytes';
const LOG_NUMBER = 2;
const NEXT_FILE = 3;
const LAST_SEQUENCE = 4;
const DELETED_FILE = 6;
const NEW_FILE = 7;
const FIELDS: Readonly<Record<number, readonly Field[]>> = {
  /** Name of the key order. */
  1: ['bytes'],
  [LOG_NUMBER]: ['number'],
  [NEXT_FILE]: ['number'],
  [LAST_SEQUENCE]: ['number'],
  /** Where the next compaction of a level begins. */
  5: ['number', 'bytes'],
  [DELETED_FILE]: ['number', 'number'],
  /** Level, file, size, lowest and highest key. */
  [NEW_FILE]: ['number', 'number', 'number', 'bytes', 'bytes'],
  /** Previous log. */
  9: ['number'],
};

/** What the records read so far add up to. */
interface History {
  readonly tables: Map<number, number>;
  readonly spans: Map<number, KeySpan>;
  /** The latest value of each tag with a single number. */
  readonly numbers: Map<number, number>;
}

/** `undefined` for a damaged manifest. One that ends within a record, as after a crash, counts up to there. */
export function parseManifest(file: Buffer): Manifest | undefined {
  const { records, end } = readRecordLog(file);
  if (end === 'damaged' || records.length === 0) return undefined;
  const { numbers, spans, tables }: History = { tables: new Map(), spans: new Map(), numbers: new Map() };
  for (const { data } of records) if (!replay(data, { tables, spans, numbers })) return undefined;
  const logNumber = numbers.get(LOG_NUMBER);
  const lastSequence = numbers.get(LAST_SEQUENCE);
  if (logNumber === undefined || lastSequence === undefined || !numbers.has(NEXT_FILE)) return undefined;
  return { tables, spans, logNumber, lastSequence };
}

/** Applies one record. `false` when it is unreadable. */
function replay(record: Buffer, history: History): boolean {
  const cursor = new Cursor(record);
  while (!cursor.done) {
    const tag = cursor.varint();
    const fields = FIELDS[tag];
    if (fields === undefined) return false;
    const numbers: number[] = [];
    const keys: Buffer[] = [];
    for (const field of fields) {
      const value = cursor.varint();
      if (field === 'number') numbers.push(value);
      else keys.push(withoutTrailer(cursor.take(value)));
    }
    if (cursor.failed) return false;
    const [first = 0, file = 0, size = 0] = numbers;
    if (fields.length === 1 && fields[0] === 'number') history.numbers.set(tag, first);
    const [from, through] = keys;
    if (tag === NEW_FILE) history.tables.set(file, size);
    if (tag === NEW_FILE && from !== undefined && through !== undefined)
      history.spans.set(file, { from, through });
    if (tag === DELETED_FILE) history.tables.delete(file);
  }
  return true;
}
