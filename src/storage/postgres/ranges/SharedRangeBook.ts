import type { IndexStore } from '../../port/IndexStore.js';
import type { BackfillPlan, OpenRange, RangeBook, RangeChange } from '../../port/RangeBook.js';
import type { RangeStore } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import type { Session } from '../connection/Session.js';

/** What the database holds of ranges. */
export interface RangeFacts {
  /** Ascending; the last one is the live range, which may be empty. None: the store was never initialised. */
  readonly coverage: readonly HeightRange[];
  readonly open: readonly OpenRange[];
  readonly plans: readonly BackfillPlan[];
}

export interface BookTransaction {
  readonly session: Session;
  /** Keeps every other process from changing plans and ranges until the transaction ends. */
  lock(): Promise<void>;
  read(): Promise<RangeFacts>;
  write(change: RangeChange): Promise<void>;
}

/** The ranges of a store that several processes fill: each change is based on what the database holds. */
export interface SharedRangeBook extends RangeBook {
  /** Expected errors: `StorageError`. */
  read(): Promise<RangeFacts>;
  /**
   * Atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once, even after
   * an attempt that was committed. Expected errors: `StorageError`; those of `work`.
   */
  transact<T>(work: (transaction: BookTransaction) => Promise<T>): Promise<T>;
  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  run(range: HeightRange, hooks?: RunHooks): Promise<RangeStore>;
}

export interface RunHooks {
  /** Runs in the transaction that publishes the range; its error rolls the transaction back. */
  readonly publishing?: (session: Session) => Promise<void>;
  /** Called before a write rejects with `RangeLostError`. */
  readonly onLost?: () => void;
}

/** `undefined` for a store that only one process fills. */
export function sharedRangesOf({ ranges }: Pick<IndexStore, 'ranges'>): SharedRangeBook | undefined {
  return 'transact' in ranges ? (ranges as SharedRangeBook) : undefined;
}
