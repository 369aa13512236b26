import type { RangeStore } from './RangeStore.js';
import type { HeightRange } from './stored.js';

/** The most heights of one open range. */
export const MAX_RANGE_HEIGHTS = 1_000;
/** The most ranges open at once, including those that wait after failures. */
export const MAX_OPEN_RANGES = 256;
/** The most plans at once; in addition, as many may heal. */
export const MAX_PLANS = 256;

/**
 * A range below the live one that is being filled, upwards from `from`. It and its durable blocks survive a restart.
 * Readers see it once it is published.
 */
export interface OpenRange extends FailedRange {
  /** Its lowest height that is not durable. */
  readonly next: number;
}

/** A range, and how often it failed. */
export interface FailedRange extends HeightRange {
  /** Consecutive failed runs. */
  readonly failures: number;
  /** Why the last one failed. */
  readonly reason?: string | undefined;
}

/** Heights below the live range to fill in. */
export interface BackfillPlan extends HeightRange {
  readonly id: number;
  /** Which missing heights are filled in first. */
  readonly order: 'newest' | 'oldest';
  readonly isPaused: boolean;
  /** The heights were damaged: they are filled in first, and the plan can be neither paused nor cancelled. */
  readonly heals?: boolean;
}

/** One atomic change of plans and open ranges. */
export interface RangeChange {
  /** The new list of plans, in the order of their ids; or how it is made of the list at the moment of the change. */
  readonly plans?:
    readonly BackfillPlan[] | ((now: readonly BackfillPlan[]) => readonly BackfillPlan[]) | undefined;
  /** Open ranges with new `failures` and `reason`; one that was not open is opened. */
  readonly failed?: readonly FailedRange[] | undefined;
  /**
   * Open ranges whose blocks are deleted. A range that is also in `failed` stays open, to be filled again; any other is
   * closed. None of them may have a run.
   */
  readonly dropped?: readonly HeightRange[] | undefined;
}

/** The plans and open ranges of a store. */
export interface RangeBook {
  /** The plans with uncovered heights, in the order of their ids. */
  plans(): readonly BackfillPlan[];
  /** In ascending order; they do not overlap, and lie below the live range. */
  open(): readonly OpenRange[];
  /** Atomic, and durable on return. Expected errors: `StorageError`; those of `plans`. */
  change(change: RangeChange): Promise<void>;
  /**
   * Begins a range, or continues an open one. A run ends when it is released, its range is published or dropped, or
   * another run of it begins. The range must be below the live range, which holds a block already, within one spork, and not covered
   * anywhere. Expected errors: `StorageError`.
   */
  run(range: HeightRange): Promise<RangeStore>;
  /** Ends a run, which writes nothing more: published, failed, or given back. Idempotent. Leaves a later run alone. */
  release(run: RangeStore): void;
}
