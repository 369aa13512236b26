import { fullCollectionSize } from '../entities/fullCollection.js';
import { IDENTIFIER_BYTES } from '../ids/identifiers.js';

/**
 * One buffer for all collections verified in a call: allocating each of them costs more than all other work besides
 * hashing.
 */
export class CollectionBuffer {
  readonly #bytes: Buffer;
  readonly #ranges: Uint32Array;
  #usedBytes = 0;
  #usedRanges = 0;

  /** For the first `count` chunks, provided that they are canonical. */
  constructor(chunks: readonly (readonly Uint8Array[])[], count: number) {
    let bytes = 0;
    let transactions = 0;
    for (let index = 0; index < count; index++) {
      const chunk = chunks[index] ?? [];
      bytes += fullCollectionSize(chunk);
      transactions += chunk.length;
    }
    this.#bytes = Buffer.allocUnsafeSlow(bytes + transactions * IDENTIFIER_BYTES);
    this.#ranges = new Uint32Array(2 * transactions);
  }

  /** The next bytes; or, for a collection that is re-encoded or retried, a buffer of its own. */
  take(bytes: number): Buffer {
    const from = this.#usedBytes;
    if (bytes > this.#bytes.length - from) return Buffer.allocUnsafeSlow(bytes);
    this.#usedBytes = from + bytes;
    return this.#bytes.subarray(from, this.#usedBytes);
  }

  /** Likewise, the ranges of this many transactions. */
  takeRanges(transactions: number): Uint32Array {
    const from = this.#usedRanges;
    if (2 * transactions > this.#ranges.length - from) return new Uint32Array(2 * transactions);
    this.#usedRanges = from + 2 * transactions;
    return this.#ranges.subarray(from, this.#usedRanges);
  }
}
