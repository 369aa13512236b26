import type { Step } from '../connection/Session.js';
import { columnsOf, type DATA_TABLES } from './schema.js';

/** Precedes the rows: signature, flags, and an empty header extension. */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** A CopyData message begins with its kind and its length, which includes itself. */
const DATA = 'd'.charCodeAt(0);
const KIND_BYTES = 1;
const LENGTH_BYTES = 4;
const HEADER_BYTES = KIND_BYTES + LENGTH_BYTES + SIGNATURE.length;
/** In place of a row; then CopyDone. */
const END = Buffer.from([0xff, 0xff, ...Buffer.from('c'), 0, 0, 0, 4]);
const END_OF_ROWS_BYTES = 2;
const BYTEA_OID = 17;
const NUMERIC_BASE = 10_000n;
const FIRST_BYTES = 16 * 1024;
/** A longer buffer is not kept for the rows of later commits. */
const MAX_KEPT_BYTES = 1024 * 1024;
/** Shorter ones are copied faster byte by byte than by a call. */
const SHORT_BYTES = 64;

/**
 * The content of a column: numbers that are safe and not negative; byte strings, as their bytes or, if they are addresses, as the
 * numbers of eight bytes; an unsigned number of up to 64 bits (`numeric`); microseconds since 2000.
 */
type Field = number | bigint | Buffer | readonly bigint[];

/**
 * Rows of one table in the binary form of COPY, written field by field, in the order of the columns. The buffer goes to
 * the socket as it is, and is reused once the rows are stored: allocating it costs more than filling it.
 */
export function copyRows(table: keyof typeof DATA_TABLES) {
  const columns = columnsOf(table);
  const types = columns.map(({ type }) => type);
  let bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  /** Of its bytes: it writes a `bigint` in a fraction of the time that a buffer takes. */
  let view = new DataView(bytes.buffer);
  let at = HEADER_BYTES;
  let count = 0;
  /** The next one of the current row. */
  let column = 0;

  const resize = (length: number): void => {
    const resized = Buffer.allocUnsafeSlow(length);
    bytes.copy(resized, 0, 0, at);
    [bytes, view] = [resized, new DataView(resized.buffer)];
  };
  /** May replace the buffer. */
  const makeRoom = (length: number): void => {
    if (at + length > bytes.length) resize(Math.max(at + length, 2 * bytes.length));
  };
  /** Begins a field of so many bytes, or an element of an array. */
  const begin = (length: number): void => {
    makeRoom(LENGTH_BYTES + length);
    at = bytes.writeInt32BE(length, at);
  };
  const write64 = (number: bigint): void => {
    begin(8);
    view.setBigUint64(at, number);
    at += 8;
  };
  const writeNumeric = (number: bigint): void => {
    const digits: number[] = [];
    for (let rest = number; rest > 0n; rest /= NUMERIC_BASE) digits.unshift(Number(rest % NUMERIC_BASE));
    begin(2 * (4 + digits.length));
    // The number of digits, the weight of the first one, the sign (positive), and the digits after the point (none).
    at = bytes.writeInt16BE(digits.length, at);
    at = bytes.writeInt16BE(Math.max(0, digits.length - 1), at);
    at = bytes.writeInt32BE(0, at);
    for (const digit of digits) at = bytes.writeInt16BE(digit, at);
  };
  const writeBytes = (source: Buffer): void => {
    const { length } = source;
    begin(length);
    const [target, from] = [bytes, at];
    if (length > SHORT_BYTES) source.copy(target, from);
    else for (let index = 0; index < length; index += 1) target[from + index] = source[index] as number;
    at += length;
  };
  const writeList = (numbers: readonly bigint[]): void => {
    begin(20 + numbers.length * (LENGTH_BYTES + 8));
    // One dimension, no nulls, the type of the elements, their count, and the index of the first.
    at = bytes.writeInt32BE(1, at);
    at = bytes.writeInt32BE(0, at);
    at = bytes.writeInt32BE(BYTEA_OID, at);
    at = bytes.writeInt32BE(numbers.length, at);
    at = bytes.writeInt32BE(1, at);
    for (const each of numbers) write64(each);
  };
  /** Writes further fields of the current row. */
  const put = (...fields: readonly Field[]): void => {
    for (const field of fields) {
      const type = types[column++];
      if (typeof field === 'bigint') {
        if (type === 'numeric(20)') writeNumeric(field);
        else write64(field);
      } else if (typeof field !== 'number') {
        if (Buffer.isBuffer(field)) writeBytes(field);
        else writeList(field);
      } else if (type === 'bigint') {
        write64(BigInt(field));
      } else if (type === 'integer') {
        begin(4);
        at = bytes.writeInt32BE(field, at);
      } else {
        begin(2);
        at = bytes.writeInt16BE(field, at);
      }
    }
  };

  return {
    put,
    /** Begins a row, with its first fields. */
    row: (...fields: readonly Field[]): void => {
      count += 1;
      column = 0;
      makeRoom(2);
      at = bytes.writeInt16BE(columns.length, at);
      put(...fields);
    },
    /** The step that sends the rows; `undefined` without rows. Nothing may be written until `clear`. */
    step: (): Step | undefined => {
      if (count === 0) return undefined;
      makeRoom(END.length);
      bytes[0] = DATA;
      bytes.writeInt32BE(at + END_OF_ROWS_BYTES - KIND_BYTES, KIND_BYTES);
      SIGNATURE.copy(bytes, KIND_BYTES + LENGTH_BYTES);
      const names = columns.map(({ name }) => name).join(', ');
      return {
        name: `copy_${table}`,
        text: `COPY flow_store.${table} (${names}) FROM STDIN (FORMAT binary)`,
        copied: bytes.subarray(0, at + END.copy(bytes, at)),
        writes: count,
      };
    },
    /** Forgets the rows, which have been sent. */
    clear: (): void => {
      at = HEADER_BYTES;
      count = 0;
      if (bytes.length > MAX_KEPT_BYTES) resize(FIRST_BYTES);
    },
  };
}
