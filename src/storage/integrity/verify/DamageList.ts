import type { HeightRange } from '../../port/stored.js';
import { joined } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { isCorruption } from '../../StorageError.js';

export type DamageKind =
  /** The database itself reports damaged files. */
  | 'database'
  /** The meta, progress or rewind record. */
  | 'store_record'
  /** A height of the range has no block record. */
  | 'missing_block'
  /** A block record or a body: checksum, encoding, hashes or counts. */
  | 'block'
  | 'parent'
  | 'pointer'
  /** An entry that should not exist. */
  | 'unexpected';

export interface Damage {
  /** Undefined where a record belongs to no height, or its height is unreadable. */
  readonly height: number | undefined;
  readonly kind: DamageKind;
  readonly message: string;
}

/** A range of a store, as far as it was checked. */
export interface RangeReport extends HeightRange {
  /** `live`: the one that follows the head; `open`: being filled, and not readable yet. */
  readonly kind: 'live' | 'published' | 'open';
  /** Sound blocks, whether or not their pointers are sound. */
  readonly blocks: number;
  /** Heights with damage. */
  readonly damaged: HeightRanges;
}

/** What `verifyStore` checked and found. No damage: `damageCount` is 0. */
export interface VerifyReport {
  /** The heights that were checked; undefined for a store without blocks. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  readonly latestIndexedHeight: number | undefined;
  /** The ranges of the store that were checked, ascending. */
  readonly ranges: readonly RangeReport[];
  /** Durable above the watermark: sound, and readable as soon as the heights below them are there. */
  readonly waiting: { readonly blocks: number; readonly from: number; readonly to: number } | undefined;
  readonly heights: number;
  readonly collections: number;
  readonly transactions: number;
  /** Bytes of the collections. */
  readonly bytes: number;
  /** Pointers checked, those of other heights included. */
  readonly pointers: number;
  /** The first ones found, at most `maxDamages`. */
  readonly damages: readonly Damage[];
  readonly damageCount: number;
  /** Every damaged height; of very many, some sound ones between them as well. */
  readonly damagedHeights: HeightRanges;
  /** Those of them whose block is damaged or missing. */
  readonly lostHeights: HeightRanges;
  /** The lowest damaged height; undefined where no damage has a height. */
  readonly lowestDamagedHeight: number | undefined;
}

/** Collects damage: counts all of it, keeps a bounded part. */
export class DamageList {
  readonly kept: Damage[] = [];
  count = 0;
  readonly #max: number;
  readonly #damaged = new DamagedHeights();
  readonly #lost = new DamagedHeights();

  constructor({ max }: { readonly max: number }) {
    this.#max = max;
  }

  /** `heights`: all that are damaged, if more than `height`. */
  add(kind: DamageKind, height: number | undefined, message: string, heights?: HeightRange): void {
    this.count += 1;
    if (height !== undefined) {
      const range = heights ?? { from: height, to: height };
      this.#damaged.add(range);
      if (LOSSES.has(kind)) this.#lost.add(range);
    }
    if (this.kept.length < this.#max) this.kept.push({ height, kind, message });
  }

  get damagedHeights(): HeightRanges {
    return this.#damaged.ranges();
  }

  get lostHeights(): HeightRanges {
    return this.#lost.ranges();
  }

  /** Records a `corrupt` error as damage; rethrows any other. */
  addError(kind: DamageKind, error: unknown, height?: number): void {
    if (!isCorruption(error)) throw error;
    this.add(kind, error.height ?? height, error.damage ?? error.message);
  }
}

/** Damage of the block itself. Pointers to a sound block can be rebuilt from it. */
const LOSSES: ReadonlySet<DamageKind> = new Set(['missing_block', 'block', 'parent']);

/** Separate runs of damaged heights that are kept apart; beyond that, runs that are close together become one. */
const MAX_DAMAGED_RUNS = 65_536;

class DamagedHeights {
  #ranges: HeightRange[] = [];

  add(range: HeightRange): void {
    const last = this.#ranges.at(-1);
    if (last !== undefined && range.from >= last.from && range.to <= last.to) return;
    this.#ranges.push(range);
    if (this.#ranges.length < 2 * MAX_DAMAGED_RUNS) return;
    this.#ranges = joined(this.#ranges);
    for (let gap = 2; this.#ranges.length > MAX_DAMAGED_RUNS; gap *= 2) {
      this.#ranges = withinGap(this.#ranges, gap);
    }
  }

  ranges(): HeightRanges {
    this.#ranges = joined(this.#ranges);
    return this.#ranges;
  }
}

/** Ascending ranges, those at most `gap` heights apart as one. */
export function withinGap(ranges: HeightRanges, gap: number): HeightRange[] {
  const wider = joined(ranges.map(({ from, to }) => ({ from, to: to + gap })));
  return wider.map(({ from, to }) => ({ from, to: to - gap }));
}
