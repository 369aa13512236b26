/** Two whole numbers, both included. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

const WARM_UP_ROUNDS = 12;

/**
 * A sequence of 32-bit words from a 128-bit seed (sfc32), the same on every machine. Fast enough to fill
 * signatures; nothing here is secret.
 */
export class Prng {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(a: number, b: number, c: number, d: number) {
    this.#a = a | 0;
    this.#b = b | 0;
    this.#c = c | 0;
    this.#d = d | 0;
    for (let round = 0; round < WARM_UP_ROUNDS; round++) this.next();
  }

  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor((this.next() / 4_294_967_296) * bound);
  }

  between(range: Range): number {
    return range.min === range.max ? range.min : range.min + this.below(range.max - range.min + 1);
  }

  /** True with this probability. Always consumes a word, so that the rest of the sequence stays the same. */
  chance(probability: number): boolean {
    return this.next() / 4_294_967_296 < probability;
  }

  bytes(byteLength: number): Buffer {
    const bytes = Buffer.allocUnsafe(byteLength);
    this.fill(bytes);
    return bytes;
  }

  fill(target: Buffer, offset = 0, byteLength = target.length): void {
    const end = offset + byteLength;
    let at = offset;
    for (; at + 4 <= end; at += 4) target.writeUInt32LE(this.next(), at);
    for (; at < end; at++) target[at] = this.next() & 0xff;
  }
}
