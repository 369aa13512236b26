import { putAccounts } from '../../accounts/accountEntries.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { putPointers } from '../../records/blocks/BlockEntryWriter.js';
import type { Put } from '../../records/blocks/BlockEntryWriter.js';

/** Buckets of heights; together they take about 800 KB, however long the chain is. */
const MAX_BUCKETS = 65_536;

/**
 * Compares two multisets of pointers in bounded memory. Those that the blocks require and those that are stored come in
 * different orders, so each is added to, or subtracted from, a sum per bucket of heights. A bucket that is not zero
 * holds a difference; hiding one would take three independent coincidences.
 */
export class PointerBalance {
  readonly #from: number;
  readonly #to: number;
  readonly #width: number;
  readonly #counts: Int32Array;
  readonly #sums: Uint32Array;
  readonly #mixes: Uint32Array;

  /** The range is empty when `to` is below `from`. */
  constructor({ from, to }: HeightRange) {
    this.#from = from;
    this.#to = to;
    const heights = Math.max(0, to - from + 1);
    this.#width = Math.max(1, Math.ceil(heights / MAX_BUCKETS));
    const buckets = Math.ceil(heights / this.#width);
    this.#counts = new Int32Array(buckets);
    this.#sums = new Uint32Array(buckets);
    this.#mixes = new Uint32Array(buckets);
  }

  covers(height: number): boolean {
    return height >= this.#from && height <= this.#to;
  }

  /** The pointers and account entries that a sound block requires. */
  expectAll(entry: BlockEntry, withAccounts: boolean): undefined {
    const { height } = entry.block;
    const put: Put = (key, value) => this.#add(height, key, value, 1);
    putPointers(entry, put);
    if (withAccounts) putAccounts(height, entry.collections, put);
  }

  /** A stored pointer, whose checksum has been checked. */
  found(height: number, key: Buffer, value: Buffer): void {
    this.#add(height, key, value, -1);
  }

  #add(height: number, key: Buffer, value: Buffer, sign: 1 | -1): void {
    const bucket = Math.floor((height - this.#from) / this.#width);
    // The checksum represents all of key and value; the id's own bytes are hash output and as good as random.
    const checksum = value.readUInt32BE(value.length - 4);
    const mix = scramble(checksum ^ Math.imul(key.readUInt32BE(1), 0x9e3779b1) ^ key.readUInt32BE(5));
    add(this.#counts, bucket, sign);
    add(this.#sums, bucket, sign * scramble(checksum));
    add(this.#mixes, bucket, sign * mix);
  }

  /** The buckets that hold a difference, ascending. */
  differences(): HeightRange[] {
    const runs: HeightRange[] = [];
    for (let bucket = 0; bucket < this.#counts.length; bucket += 1) {
      if (this.#counts[bucket] === 0 && this.#sums[bucket] === 0 && this.#mixes[bucket] === 0) continue;
      const from = this.#from + bucket * this.#width;
      runs.push({ from, to: Math.min(from + this.#width - 1, this.#to) });
    }
    return runs;
  }
}

/** The caller checks the bounds. */
function add(totals: Int32Array | Uint32Array, bucket: number, amount: number): void {
  totals[bucket] = (totals[bucket] as number) + amount;
}

/** Permutes 32 bits without losing any (the finalizer of MurmurHash3). */
function scramble(bits: number): number {
  let mixed = bits | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
