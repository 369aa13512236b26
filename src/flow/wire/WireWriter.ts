const FIRST_CAPACITY_BYTES = 256;
const TWO_POW_32 = 0x1_0000_0000;
const TAG_AND_NUMBER_BYTES = 16;

/** Length in bytes of a number below 2^32 as a varint. */
export function varintLength(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  return value < 0x1000_0000 ? 4 : 5;
}

/** Writes a number below 2^32 as a varint; returns the position after it. */
export function writeVarint(target: Uint8Array, position: number, value: number): number {
  let rest = value;
  let at = position;
  while (rest >= 0x80) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}

/**
 * Writes protobuf messages field by field in the shortest encoding. Singular scalars with their default value are
 * omitted, as proto3 prescribes; the result is canonical if the fields are written in ascending order.
 */
export class WireWriter {
  #target = Buffer.allocUnsafe(FIRST_CAPACITY_BYTES);
  #position = 0;

  /** A singular integer up to 64 bits; a negative one is written as int64 does, in ten bytes. Zero is omitted. */
  number(field: number, value: number | bigint): this {
    if (value === 0 || value === 0n) return this;
    this.#reserve(TAG_AND_NUMBER_BYTES);
    this.#tag(field, 0);
    return this.packed(value);
  }

  /** A number without a tag: one of a packed field, whose bytes are a message without fields. */
  packed(value: number | bigint): this {
    this.#reserve(TAG_AND_NUMBER_BYTES);
    if (typeof value === 'number' && value >= 0 && value < TWO_POW_32) {
      this.#position = writeVarint(this.#target, this.#position, value);
      return this;
    }
    let rest = BigInt.asUintN(64, BigInt(value));
    while (rest >= 0x80n) {
      this.#target[this.#position++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.#target[this.#position++] = Number(rest);
    return this;
  }

  /** A singular bytes or message-bytes field. Empty is omitted. */
  bytes(field: number, value: Uint8Array): this {
    return value.length === 0 ? this : this.element(field, value);
  }

  /** A singular string field. Empty is omitted. */
  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value, 'utf8'));
  }

  /**
   * One element of a repeated bytes, string or message field, or a message that is present: written even when empty.
   */
  element(field: number, value: Uint8Array): this {
    this.#reserve(TAG_AND_NUMBER_BYTES + value.length);
    this.#tag(field, 2);
    this.#position = writeVarint(this.#target, this.#position, value.length);
    this.#target.set(value, this.#position);
    this.#position += value.length;
    return this;
  }

  /** Every element of a repeated bytes or message field. */
  elements(field: number, values: readonly Uint8Array[]): this {
    for (const value of values) this.element(field, value);
    return this;
  }

  /** The message written so far, in a buffer of its own. */
  finish(): Buffer {
    return Buffer.from(this.#target.subarray(0, this.#position));
  }

  #tag(field: number, wireType: number): void {
    this.#position = writeVarint(this.#target, this.#position, ((field << 3) | wireType) >>> 0);
  }

  #reserve(count: number): void {
    const needed = this.#position + count;
    if (needed <= this.#target.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#target.length));
    grown.set(this.#target.subarray(0, this.#position));
    this.#target = grown;
  }
}
