import { entriesOf, putAccounts } from '../../accounts/accountEntries.js';
import { checkPointers } from '../../leveldb/reading/checkHeights.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { readSoundEntry } from '../../records/blocks/assembleBlock.js';
import { putPointers, type Put } from '../../records/blocks/BlockEntryWriter.js';
import { openLookup } from '../../records/blocks/openPointers.js';
import type { Database, Entry } from '../../records/Database.js';
import { contains, heightsIn } from '../../records/heightRanges.js';
import { POINTER_PREFIXES, Prefix, prefixRange } from '../../records/schema.js';
import { unlessDamaged } from '../../StorageError.js';
import { notHeld } from '../../verify/checkHeights.js';
import type { DamageList } from '../../verify/DamageList.js';
import { isCovered, type LevelExtent } from './checkStoreRecords.js';

/** Prefixes whose keys begin with a hash or an address. */
const LOOKUP_PREFIXES = [...POINTER_PREFIXES, Prefix.account];
/** Buckets of heights; together they take about 800 KB, however long the chain is. */
const MAX_BUCKETS = 65_536;

/**
 * Compares the stored pointers and account entries with those that the blocks require: two multisets, in bounded memory. They
 * come in different orders, so each entry is added to, or subtracted from, a sum per bucket of heights. A bucket that is not zero
 * holds a difference; hiding one would take three independent coincidences.
 */
export class PointerBalance {
  readonly #range: HeightRange;
  readonly #parts: ConstructorParameters<typeof PointerBalance>[1];
  /** Heights of a bucket. */
  readonly #width: number;
  readonly #counts: Int32Array;
  readonly #sums: Uint32Array;
  readonly #mixes: Uint32Array;

  /** The range is empty when `to` is below `from`. */
  constructor(
    range: HeightRange,
    parts: { readonly database: Database; readonly extent: LevelExtent; readonly damages: DamageList },
  ) {
    this.#range = range;
    this.#parts = parts;
    const heights = Math.max(0, range.to - range.from + 1);
    this.#width = Math.max(1, Math.ceil(heights / MAX_BUCKETS));
    const buckets = Math.ceil(heights / this.#width);
    this.#counts = new Int32Array(buckets);
    this.#sums = new Uint32Array(buckets);
    this.#mixes = new Uint32Array(buckets);
  }

  /** Adds the pointers and account entries that a sound block requires. */
  expect(entry: BlockEntry): undefined {
    const { height } = entry.block;
    const put: Put = (key, value) => this.#add(height, key, value, 1);
    putPointers(entry, put);
    if (isCovered(this.#parts.extent, height)) putAccounts(entry, put);
  }

  /**
   * One pass over all that is stored, then a closer look at the heights that do not balance. Returns the number stored. `onStep`:
   * called for every page of pointers, and for every height that is checked in detail. Expected errors: `StorageError`.
   */
  async check(onStep: (pointers: number) => void): Promise<number> {
    const { database, damages, extent } = this.#parts;
    let pointers = 0;
    for (const prefix of LOOKUP_PREFIXES) {
      for await (const page of database.pages(prefixRange(prefix))) {
        pointers += page.length;
        onStep(pointers);
        for (const entry of page) this.#addFound(entry);
      }
    }
    const suspects = this.#differences();
    for (const height of heightsIn(suspects)) {
      onStep(pointers);
      const expected = await this.#expected(height, isCovered(extent, height));
      // A missing or damaged block is reported already, and its pointers are unknown.
      if (expected === undefined) continue;
      await checkPointers(height, expected, { damages, valueOf: (key) => database.get(key) });
    }
    if (suspects.length > 0) await this.#findExtra(suspects);
    return pointers;
  }

  #addFound([key, value]: Entry): void {
    const { damages, extent } = this.#parts;
    const { from, to } = this.#range;
    if (key[0] === Prefix.account && extent.coverage === 'unknown') return;
    try {
      const { height, name } = openLookup([key, value]);
      if (!contains(extent.allowed, height)) {
        damages.add('unexpected', height, `${name()}: ${notHeld(extent)}`);
      } else if (key[0] === Prefix.account && extent.coverage === undefined) {
        damages.add('unexpected', height, `${name()}: the store has no account index`);
      } else if (height >= from && height <= to) {
        this.#add(height, key, value, -1);
      }
    } catch (error) {
      // Report a damaged pointer whatever height it names: the height may be the damaged part.
      damages.addError('pointer', error);
    }
  }

  #add(height: number, key: Buffer, value: Buffer, sign: 1 | -1): void {
    const bucket = Math.floor((height - this.#range.from) / this.#width);
    // The checksum represents all of key and value; the id's own bytes are hash output and as good as random.
    const checksum = value.readUInt32BE(value.length - 4);
    const mix = scramble(checksum ^ Math.imul(key.readUInt32BE(1), 0x9e3779b1) ^ key.readUInt32BE(5));
    add(this.#counts, bucket, sign);
    add(this.#sums, bucket, sign * scramble(checksum));
    add(this.#mixes, bucket, sign * mix);
  }

  /** The buckets that hold a difference, ascending. */
  #differences(): HeightRange[] {
    const runs: HeightRange[] = [];
    for (let bucket = 0; bucket < this.#counts.length; bucket += 1) {
      if (this.#counts[bucket] === 0 && this.#sums[bucket] === 0 && this.#mixes[bucket] === 0) continue;
      const from = this.#range.from + bucket * this.#width;
      runs.push({ from, to: Math.min(from + this.#width - 1, this.#range.to) });
    }
    return runs;
  }

  /** Looks for stored pointers of these heights that no block requires. */
  async #findExtra(runs: readonly HeightRange[]): Promise<void> {
    const { damages, database, extent } = this.#parts;
    for (const prefix of LOOKUP_PREFIXES) {
      if (prefix === Prefix.account && extent.coverage === 'unknown') continue;
      for await (const page of database.pages(prefixRange(prefix))) {
        for (const [key, value] of page) {
          // The first pass has reported it.
          const pointer = await unlessDamaged(() => openLookup([key, value]));
          if (pointer === undefined || !contains(runs, pointer.height)) continue;
          const { height, name } = pointer;
          // Entries of uncovered heights may exist, as long as they are correct.
          const expected = await this.#expected(height, extent.coverage !== undefined);
          if (expected === undefined && contains(extent.required, height)) continue;
          if (expected?.some(([other]) => other.equals(key)) === true) continue;
          damages.add('unexpected', height, `${name()}: no block requires it`);
        }
      }
    }
  }

  /** `undefined` when the block is missing or damaged. */
  async #expected(height: number, withAccounts: boolean): Promise<Entry[] | undefined> {
    const entry = await unlessDamaged(() => readSoundEntry(this.#parts.database, height));
    return entry && entriesOf(entry, withAccounts);
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
