import type { Step } from '../connection/Session.js';
import { columnsOf, type DATA_TABLES } from './schema.js';

/** Precedes the rows: signature, flags, and an empty header extension. */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** A CopyData message begins with its kind and its length, which includes itself. */
const DATA = 'd'.charCodeAt(0);
const KIND_BYTES = 1;
const HEADER_BYTES = KIND_BYTES + 4 + SIGNATURE.length;
/** In place of a row. */
const END_OF_ROWS = -1;
const END_BYTES = 2;
/** CopyDone. */
const DONE = Buffer.from([...Buffer.from('c'), 0, 0, 0, 4]);
const LENGTH_BYTES = 4;
const BYTEA_OID = 17;
const ARRAY_HEADER_BYTES = 20;
const NUMERIC_HEADER_BYTES = 8;
const NUMERIC_BASE = 10_000n;
const FIRST_BYTES = 16 * 1024;
/** A longer buffer is not kept for the rows of later commits. */
const MAX_KEPT_BYTES = 1024 * 1024;
const TWO_POW_32 = 0x1_0000_0000;
/** Shorter ones are copied faster byte by byte than by a call. */
const SHORT_BYTES = 64;

/**
 * Rows of one table in the binary form of COPY, written field by field, in the order of the columns. The buffer goes to
 * the socket as it is, and is reused once the rows are stored: allocating it costs more than filling it.
 */
export class CopyRows {
  readonly #table: string;
  readonly #columns: readonly string[];
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = HEADER_BYTES;
  #rows = 0;

  constructor(table: keyof typeof DATA_TABLES) {
    this.#table = table;
    this.#columns = columnsOf(table);
  }

  /** Begins a row; its fields follow. */
  row(): void {
    this.#rows += 1;
    this.#room(2);
    this.#at = this.#bytes.writeInt16BE(this.#columns.length, this.#at);
  }

  int2(value: number): void {
    const at = this.#field(2);
    this.#at = this.#bytes.writeInt16BE(value, at);
  }

  int4(value: number): void {
    const at = this.#field(4);
    this.#at = this.#bytes.writeInt32BE(value, at);
  }

  /** A safe integer that is not negative. */
  int8(value: number): void {
    const at = this.#field(8);
    this.#bytes.writeUInt32BE(Math.floor(value / TWO_POW_32), at);
    this.#at = this.#bytes.writeUInt32BE(value % TWO_POW_32, at + 4);
  }

  /** The 64 bits of a number, signed or not: an address, or microseconds since 2000. */
  int64(value: bigint): void {
    const at = this.#field(8);
    this.#at = this.#bytes.writeBigUInt64BE(BigInt.asUintN(64, value), at);
  }

  /** An unsigned 64-bit number, as two halves. */
  numeric(low: number, high: number): void {
    const digits: number[] = [];
    for (let rest = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0); rest > 0n; rest /= NUMERIC_BASE)
      digits.unshift(Number(rest % NUMERIC_BASE));
    let at = this.#field(NUMERIC_HEADER_BYTES + 2 * digits.length);
    at = this.#bytes.writeInt16BE(digits.length, at);
    // The weight of the first digit; then the sign (positive) and the digits after the point (none).
    at = this.#bytes.writeInt16BE(Math.max(0, digits.length - 1), at);
    at = this.#bytes.writeInt32BE(0, at);
    for (const digit of digits) at = this.#bytes.writeInt16BE(digit, at);
    this.#at = at;
  }

  /** `length` bytes of a buffer, from `start`. */
  part(source: Buffer, start: number, length: number): void {
    const at = this.#field(length);
    const bytes = this.#bytes;
    if (length > SHORT_BYTES) source.copy(bytes, at, start, start + length);
    else for (let index = 0; index < length; index += 1) bytes[at + index] = source[start + index] as number;
    this.#at = at + length;
  }

  whole(source: Buffer): void {
    this.part(source, 0, source.length);
  }

  /** Begins an array of byte strings of equal length; each follows, by `part` or `whole`. */
  list(count: number, eachBytes: number): void {
    let at = this.#field(ARRAY_HEADER_BYTES + count * (LENGTH_BYTES + eachBytes));
    // One dimension, no nulls, the type of the elements, their count, and the index of the first.
    at = this.#bytes.writeInt32BE(1, at);
    at = this.#bytes.writeInt32BE(0, at);
    at = this.#bytes.writeInt32BE(BYTEA_OID, at);
    at = this.#bytes.writeInt32BE(count, at);
    this.#at = this.#bytes.writeInt32BE(1, at);
  }

  /** The step that sends the rows; `undefined` without rows. Nothing may be written until `clear`. */
  step(): Step | undefined {
    if (this.#at === HEADER_BYTES) return undefined;
    this.#room(END_BYTES + DONE.length);
    const bytes = this.#bytes;
    bytes[0] = DATA;
    SIGNATURE.copy(bytes, KIND_BYTES + LENGTH_BYTES);
    const end = bytes.writeInt16BE(END_OF_ROWS, this.#at);
    bytes.writeInt32BE(end - KIND_BYTES, KIND_BYTES);
    const name = this.#table;
    return {
      name: `copy_${name}`,
      text: `COPY flow_store.${name} (${this.#columns.join(', ')}) FROM STDIN (FORMAT binary)`,
      copied: bytes.subarray(0, end + DONE.copy(bytes, end)),
      writes: this.#rows,
    };
  }

  /** Forgets the rows, which have been sent. */
  clear(): void {
    this.#at = HEADER_BYTES;
    this.#rows = 0;
    if (this.#bytes.length > MAX_KEPT_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  }

  /** Begins a field of so many bytes; returns where they go. May replace the buffer. */
  #field(bytes: number): number {
    this.#room(LENGTH_BYTES + bytes);
    return this.#bytes.writeInt32BE(bytes, this.#at);
  }

  #room(bytes: number): void {
    const end = this.#at + bytes;
    if (end <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
