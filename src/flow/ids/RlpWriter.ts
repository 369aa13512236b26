import { byteAt } from '../wire/bytes.js';

/** Copies shorter than this are quicker byte by byte than by a call. */
const SHORT_COPY_BYTES = 16;
const TWO_POW_32 = 0x1_0000_0000;

/**
 * Writes RLP back to front, so that a list's length is known when its header is due: write the items last to first,
 * then the header.
 *
 * Source and target share one buffer, because `copyWithin` costs half of a copy between buffers: the source stands at
 * its front, the RLP grows downwards from its end.
 */
export class RlpWriter {
  buffer: Buffer;
  /** Where the RLP written so far begins. */
  position: number;
  /** Bytes at the front of `buffer` that are kept when it grows. */
  #sourceBytes = 0;

  constructor(capacityBytes: number) {
    this.buffer = Buffer.allocUnsafe(capacityBytes);
    this.position = capacityBytes;
  }

  /** Starts over with these bytes as the source. */
  setSource(source: Uint8Array): void {
    this.prepareSource(source.length);
    this.buffer.set(source);
  }

  /** Starts over with room for a source of this size, which the caller then writes to the front of `buffer`. */
  prepareSource(sourceBytes: number): void {
    this.#sourceBytes = 0;
    this.clear();
    this.reserve(sourceBytes);
    this.#sourceBytes = sourceBytes;
  }

  /** Forgets what was written. */
  clear(): void {
    this.position = this.buffer.length;
  }

  get writtenBytes(): number {
    return this.buffer.length - this.position;
  }

  /** Makes room for this many more bytes. What was written moves with the end of the buffer. */
  reserve(bytes: number): void {
    if (this.position - this.#sourceBytes >= bytes) return;
    const written = this.writtenBytes;
    const grown = Buffer.allocUnsafe(2 * (this.#sourceBytes + bytes + written));
    this.buffer.copy(grown, 0, 0, this.#sourceBytes);
    this.buffer.copy(grown, grown.length - written, this.position);
    this.buffer = grown;
    this.position = grown.length - written;
  }

  /** What was written between two values of `writtenBytes`, as a view. */
  written(from: number, to: number): Uint8Array {
    const { buffer } = this;
    // A plain Uint8Array is created in half the time of a Buffer.
    return new Uint8Array(buffer.buffer, buffer.byteOffset + buffer.length - to, to - from);
  }

  /** A byte string from the source. */
  bytes(start: number, length: number): void {
    this.#copy(start, length);
    if (length === 1 && byteAt(this.buffer, this.position) < 0x80) return;
    this.#header(0x80, length);
  }

  /** A byte string from elsewhere. */
  string(bytes: Uint8Array): void {
    const { length } = bytes;
    this.position -= length;
    this.buffer.set(bytes, this.position);
    if (length === 1 && byteAt(this.buffer, this.position) < 0x80) return;
    this.#header(0x80, length);
  }

  /** An unsigned 64-bit integer from its two halves: big-endian without leading zeros; zero is the empty string. */
  integer(low: number, high: number): void {
    const { buffer } = this;
    if (high === 0 && low >= 0 && low < 0x80) {
      buffer[--this.position] = low === 0 ? 0x80 : low;
      return;
    }
    const end = this.position;
    let position = end;
    if (high !== 0) {
      for (let shift = 0; shift < 32; shift += 8) buffer[--position] = (low >>> shift) & 0xff;
    }
    for (let rest = (high === 0 ? low : high) >>> 0; rest > 0; rest >>>= 8) buffer[--position] = rest & 0xff;
    buffer[position - 1] = 0x80 + end - position;
    this.position = position - 1;
  }

  /** An unsigned integer below 2^53. */
  safeInteger(value: number): void {
    this.integer(value | 0, Math.floor(value / TWO_POW_32));
  }

  /** The last `size` bytes of a byte string in the source, padded with zeros on the left. */
  rightAligned(start: number, length: number, size: number): void {
    const { buffer } = this;
    const counted = length > size ? size : length;
    this.#copy(start + length - counted, counted);
    for (let pad = size - counted; pad > 0; pad--) buffer[--this.position] = 0;
    buffer[--this.position] = 0x80 + size;
  }

  /** The first `size` bytes of a byte string in the source, padded with zeros on the right. */
  leftAligned(start: number, length: number, size: number): void {
    const { buffer } = this;
    const counted = length > size ? size : length;
    for (let pad = size - counted; pad > 0; pad--) buffer[--this.position] = 0;
    this.#copy(start, counted);
    buffer[--this.position] = 0x80 + size;
  }

  /** Bytes as the characters of a string: the fastest way to pass hashes. */
  characters(text: string): void {
    this.position -= text.length;
    this.buffer.write(text, this.position, 'latin1');
  }

  /** The header of a list whose items take everything from here to `end`. */
  list(end: number): void {
    this.#header(0xc0, end - this.position);
  }

  #copy(start: number, length: number): void {
    const { buffer } = this;
    const position = this.position - length;
    if (length < SHORT_COPY_BYTES) {
      for (let index = 0; index < length; index++) buffer[position + index] = byteAt(buffer, start + index);
    } else {
      buffer.copyWithin(position, start, start + length);
    }
    this.position = position;
  }

  #header(base: number, length: number): void {
    const { buffer } = this;
    if (length <= 55) {
      buffer[--this.position] = base + length;
      return;
    }
    const end = this.position;
    let position = end;
    for (let rest = length; rest > 0; rest >>>= 8) buffer[--position] = rest & 0xff;
    buffer[position - 1] = base + 55 + end - position;
    this.position = position - 1;
  }
}
