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

/** What `verifyStore` checked and found. No damage: `damageCount` is 0. */
export interface VerifyReport {
  /** The heights that were checked; undefined for a store without blocks. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  readonly latestIndexedHeight: number | undefined;
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
  /** The lowest damaged height; undefined where no damage has a height. */
  readonly lowestDamagedHeight: number | undefined;
}

/** Collects damage: counts all of it, keeps a bounded part. */
export class DamageList {
  readonly kept: Damage[] = [];
  count = 0;
  lowestHeight: number | undefined;
  readonly #max: number;

  constructor({ max }: { readonly max: number }) {
    this.#max = max;
  }

  add(kind: DamageKind, height: number | undefined, message: string): void {
    this.count += 1;
    if (height !== undefined) this.lowestHeight = Math.min(height, this.lowestHeight ?? height);
    if (this.kept.length < this.#max) this.kept.push({ height, kind, message });
  }

  /** Records a `corrupt` error as damage; rethrows any other. */
  addError(kind: DamageKind, error: unknown, height?: number): void {
    if (!isCorruption(error)) throw error;
    this.add(kind, error.height ?? height, error.damage ?? error.message);
  }
}
