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

/** The ranges of a store that several processes fill: each change is decided by what the database holds. */
export interface SharedRangeBook extends RangeBook {
  /** Expected errors: `StorageError`. */
  read(): Promise<RangeFacts>;
  /**
   * All of it or nothing, durable on return. Begun anew while the database is away, so `work` may run more than once, also
   * when it counted already. Expected errors: `StorageError`; those of `work`.
   */
  transact<T>(work: (transaction: BookTransaction) => Promise<T>): Promise<T>;
  /** Expected errors: `RangeTakenError`. Writes of a run that was replaced reject with `RangeLostError`. */
  run(range: HeightRange, hooks?: RunHooks): Promise<RangeStore>;
}

export interface RunHooks {
  /** Part of the transaction that publishes the range, which its error undoes. */
  readonly publishing?: (session: Session) => Promise<void>;
  /** A write was refused with `RangeLostError`, which it rejects with afterwards. */
  readonly onLost?: () => void;
}

/** `undefined` for a store that one process alone fills. */
export function sharedRangesOf({ ranges }: Pick<IndexStore, 'ranges'>): SharedRangeBook | undefined {
  return 'transact' in ranges ? (ranges as SharedRangeBook) : undefined;
}
