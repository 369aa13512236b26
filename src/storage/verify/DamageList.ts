import type { FoundDamage } from '../port/IndexStore.js';
import type { HeightRange } from '../port/stored.js';
import { atMost, contains, heightsIn, joined, type HeightRanges } from '../records/heightRanges.js';
import { isCorruption, unlessDamaged } from '../StorageError.js';

export type DamageKind =
  /** LevelDB cannot open its files, or read all of them. */
  | 'database'
  /** LevelDB has dropped what it could not read of its write-ahead log. */
  | 'log'
  /** The meta, progress or rewind record. */
  | 'store_record'
  /** A height of the range has no block record. */
  | 'missing_block'
  /** A block record or a body: checksum, encoding, hashes or counts. */
  | 'block'
  | 'parent'
  /** A different block from the one that the caller knows. */
  | 'foreign'
  | 'pointer'
  /** An entry that should not exist. */
  | 'unexpected';

export interface Damage {
  /** Undefined where a record belongs to no height, or its height is unreadable. */
  readonly height: number | undefined;
  readonly kind: DamageKind;
  readonly message: string;
}

/** A range of a store. */
export interface StoredRange extends HeightRange {
  /** `live`: the one that follows the head; `open`: being filled, and not readable yet. */
  readonly kind: 'live' | 'published' | 'open';
}

/** As far as it was checked. */
export interface RangeReport extends StoredRange {
  /** Sound blocks, whether or not their pointers are sound. */
  readonly blocks: number;
  /** Heights with damage. */
  readonly damaged: HeightRanges;
}

/** What `verifyStore` checked and found. No damage: `damageCount` is 0. */
export interface VerifyReport {
  /** The heights that were checked; undefined for a store without blocks. */
  readonly range: HeightRange | undefined;
  readonly latestIndexedHeight: number | undefined;
  /** The ranges of the store that were checked, ascending. */
  readonly ranges: readonly RangeReport[];
  /** Sound blocks above the watermark, readable as soon as the heights below them are stored. */
  readonly waiting: (HeightRange & { readonly blocks: number }) | undefined;
  readonly heights: number;
  readonly collections: number;
  readonly transactions: number;
  /** Bytes of the collections. */
  readonly bytes: number;
  /** Blocks whose ids and guarantees are proven: recomputed from what is stored. */
  readonly proven: number;
  /** Pointers checked, including those of other heights. */
  readonly pointers: number;
  /** The first ones found, at most 1,000: widespread damage need not be listed in full. */
  readonly damages: readonly Damage[];
  readonly damageCount: number;
  /** Every damaged height; if there are very many, also some sound heights between them. */
  readonly damagedHeights: HeightRanges;
  /** Those of them whose block is damaged or missing. */
  readonly lostHeights: HeightRanges;
}

const MAX_DESCRIBED = 1_000;
/** The most separate runs of damaged heights; beyond that, runs that are close together become one. */
const MAX_DAMAGED_RUNS = 65_536;
/** Damage of the block itself. Pointers to a sound block can be rebuilt from it. */
const LOSSES: ReadonlySet<DamageKind> = new Set(['missing_block', 'block', 'parent']);

/** Collects damage: counts all of it, describes a bounded part. */
export class DamageList {
  readonly #kept: (Damage & { readonly heights: HeightRanges })[] = [];
  #count = 0;
  #damaged: HeightRange[] = [];
  #lost: HeightRange[] = [];

  get count(): number {
    return this.#count;
  }

  /** `heights`: all damaged heights, if there are more than `height`. */
  add(kind: DamageKind, height: number | undefined, message: string, heights?: HeightRange): void {
    this.#count += 1;
    const ranges = height === undefined ? [] : [heights ?? { from: height, to: height }];
    for (const range of ranges) {
      this.#damaged = withRange(this.#damaged, range);
      if (LOSSES.has(kind)) this.#lost = withRange(this.#lost, range);
    }
    if (this.#kept.length < MAX_DESCRIBED) this.#kept.push({ height, kind, message, heights: ranges });
  }

  /** The part of a report that describes the damage. */
  report() {
    return {
      damages: this.#kept.map(({ height, kind, message }) => ({ height, kind, message })),
      damageCount: this.#count,
      damagedHeights: joined(this.#damaged),
      lostHeights: joined(this.#lost),
    };
  }

  /** The damages at heights that are covered, one for each height. */
  at(covered: HeightRanges): FoundDamage[] {
    return this.#kept.flatMap(({ heights, message }) =>
      [...heightsIn(heights)]
        .filter((height) => contains(covered, height))
        .map((height) => ({ height, what: message })),
    );
  }

  /** Records a `corrupt` error as damage; rethrows any other. */
  addError(kind: DamageKind, error: unknown, height?: number): void {
    if (!isCorruption(error)) throw error;
    this.add(kind, error.height ?? height, error.damage ?? error.message);
  }

  /** Records the damage that a read meets; `undefined` then. */
  unlessIn<T>(kind: DamageKind, read: () => T | Promise<T>): Promise<T | undefined> {
    return unlessDamaged(read, (error) => this.addError(kind, error));
  }
}

/** Most damage is at, or next to, the height of the damage before it. */
function withRange(ranges: HeightRange[], range: HeightRange): HeightRange[] {
  const last = ranges.at(-1);
  if (last !== undefined && range.from >= last.from && range.to <= last.to) return ranges;
  ranges.push(range);
  return ranges.length < 2 * MAX_DAMAGED_RUNS ? ranges : atMost(MAX_DAMAGED_RUNS, joined(ranges));
}
