import { asBuffer, byteAt } from './bytes.js';
import { WireError } from '../WireError.js';

/** Wire types of the protobuf encoding that are used here; 3 and 4 (groups) are only ever skipped. */
export const VARINT = 0;
const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;

/** A full block of mainnet has a few hundred fields. Without a bound, empty ones would cost a hundred times their size in memory. */
export const MAX_FIELDS = 100_000;
/** A large message may have more fields if they are at least this large: an event of execution data takes some hundred bytes. */
const LARGE_FIELD_BYTES = 32;

const MAX_VARINT_BYTES = 10;
/** Groups are older than Flow; a message that nests them deeper than this is an attack. */
const MAX_GROUP_DEPTH = 100;
const TWO_POW_32 = 0x1_0000_0000;

/**
 * A cursor over protobuf wire bytes. It never reads past `end`, allocates nothing per field, and keeps a sticky
 * `canonical` flag that is cleared when a tag, length or value was not written in the fewest possible bytes.
 *
 * Expected errors of every method: `WireError`.
 */
export class WireReader {
  bytes: Buffer;
  position = 0;
  end: number;
  canonical = true;

  /** Field number and wire type of the last tag read. */
  field = 0;
  wireType = 0;

  /** The last varint read: its low and high 32 bits, as signed integers. */
  low = 0;
  high = 0;

  /** How many more fields may be read: a message of only empty ones would take seconds. */
  room: number;

  constructor(bytes: Uint8Array, room = MAX_FIELDS + bytes.length / LARGE_FIELD_BYTES) {
    this.bytes = asBuffer(bytes);
    this.end = bytes.length;
    this.room = room;
  }

  /** Starts over with a message that stands at `start … end`. */
  load(bytes: Buffer, start: number, end: number): void {
    this.bytes = bytes;
    this.position = start;
    this.end = end;
    this.canonical = true;
  }

  /** Reads the next tag into `field` and `wireType`; false at the end of the message. */
  next(): boolean {
    if (this.position >= this.end) return false;
    this.count();
    this.varint();
    if (this.high !== 0) throw new WireError('a field number is out of range');
    this.field = this.low >>> 3;
    this.wireType = this.low & 7;
    if (this.field === 0) throw new WireError('a field number is zero');
    return true;
  }

  /** Takes room for one more field, or number of a packed one. */
  count(): void {
    if (this.room-- <= 0) throw new WireError('a message has too many fields');
  }

  /** Passes over other fields up to the next with this number and a length; false at the end of the message. */
  seek(field: number): boolean {
    while (this.next()) {
      if (this.field === field && this.wireType === LENGTH_DELIMITED) return true;
      this.skip();
    }
    return false;
  }

  /** Reads a varint into `low` and `high`. */
  varint(): void {
    const position = this.position;
    if (position < this.end) {
      const byte = byteAt(this.bytes, position);
      if (byte < 0x80) {
        this.low = byte;
        this.high = 0;
        this.position = position + 1;
        return;
      }
    }
    this.#longVarint();
  }

  #longVarint(): void {
    const { bytes, end } = this;
    const start = this.position;
    let low = 0;
    let high = 0;
    for (let index = 0; index < MAX_VARINT_BYTES; index++) {
      if (start + index >= end) throw new WireError('the message ends within a number');
      const byte = byteAt(bytes, start + index);
      const bits = byte & 0x7f;
      if (index < 4) {
        low |= bits << (7 * index);
      } else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        high |= bits << (7 * index - 32);
      }
      if (byte < 0x80) {
        // A last byte of zero adds nothing; bits above the 64th are dropped, as in every protobuf reader.
        if ((byte === 0 && index > 0) || (index === MAX_VARINT_BYTES - 1 && byte > 1)) this.canonical = false;
        this.low = low;
        this.high = high;
        this.position = start + index + 1;
        return;
      }
    }
    throw new WireError('a number is longer than ten bytes');
  }

  /** Reads a length prefix and checks that as many bytes follow; the cursor is then at the first of them. */
  length(): number {
    this.varint();
    const length = this.low >>> 0;
    if (this.high !== 0 || length > this.end - this.position) {
      throw new WireError('the message ends within a field');
    }
    return length;
  }

  /** Enters a length-delimited field: its end becomes the reader's. Returns the outer end, to be restored. */
  enter(): number {
    const length = this.length();
    const outerEnd = this.end;
    this.end = this.position + length;
    return outerEnd;
  }

  /** Reads a length-delimited field as a message. */
  within(read: () => void): void {
    const outerEnd = this.enter();
    read();
    this.end = outerEnd;
  }

  /** Reads a length-delimited field as a view of the message. */
  view(): Buffer {
    const length = this.length();
    const start = this.position;
    this.position = start + length;
    return this.bytes.subarray(start, start + length);
  }

  /** Reads a `uint64` that must be a safe integer (heights, views). */
  safeInteger(name = 'height'): number {
    this.varint();
    const value = (this.high >>> 0) * TWO_POW_32 + (this.low >>> 0);
    if (!Number.isSafeInteger(value)) throw new WireError(`a ${name} is not a safe integer`);
    return value;
  }

  /** Reads a `uint64`. */
  uint64(): bigint {
    this.varint();
    if (this.high === 0) return BigInt(this.low >>> 0);
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0);
  }

  /** Skips the value of the last tag read. */
  skip(): void {
    switch (this.wireType) {
      case VARINT:
        this.varint();
        break;
      case FIXED64:
        this.#advance(8);
        break;
      case LENGTH_DELIMITED:
        this.#advance(this.length());
        break;
      case START_GROUP:
        this.#skipGroup();
        break;
      case FIXED32:
        this.#advance(4);
        break;
      default:
        throw new WireError(`a field has the impossible wire type ${this.wireType}`);
    }
  }

  #advance(count: number): void {
    if (count > this.end - this.position) throw new WireError('the message ends within a field');
    this.position += count;
  }

  #skipGroup(): void {
    const open = [this.field];
    while (open.length > 0) {
      if (!this.next()) throw new WireError('the message ends within a group');
      if (this.wireType === START_GROUP) {
        if (open.length >= MAX_GROUP_DEPTH) throw new WireError('groups are nested too deeply');
        open.push(this.field);
      } else if (this.wireType === END_GROUP) {
        if (open.pop() !== this.field) throw new WireError('a group ends that did not begin');
      } else {
        this.skip();
      }
    }
  }
}
