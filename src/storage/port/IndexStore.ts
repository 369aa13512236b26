import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import type { AccountCoverage, AccountIndex, AccountReader } from './AccountIndex.js';
import type { RangeBook } from './RangeBook.js';
import type { RangeStore } from './RangeStore.js';
import type { BlockHead, CommitteeEvidence, HeightRange, ItemKind, Place } from './stored.js';
import type { StoredBlock, StoredItem, StoreMeta, WholeBlock } from './stored.js';

/** A damaged record. */
export interface FoundDamage {
  /** `undefined`: unknown. */
  readonly height: number | undefined;
  readonly what: string;
}

/**
 * The read side of the port. Answers cover the covered heights only; `undefined` means "outside them". Expected errors:
 * `StorageError` (`corrupt` when a checksum does not match; never wrong data).
 */
export interface IndexReader
  extends StoredReads, Pick<RangeStore, 'latestBlock' | 'latestIndexedHeight' | 'meta'> {
  readonly accounts: AccountReader;
  /**
   * The readable heights: ascending ranges that do not touch. The last one is the live range, which ends at the
   * watermark; it is left out while it is empty.
   */
  coverage(): readonly HeightRange[];
  /** How often readable blocks were removed, as far as is known here: what was read before may no longer be indexed. */
  rewinds(): number;
}

/** The reads that lead to stored bytes. */
export interface StoredReads {
  blockByHeight(height: number): Promise<StoredBlock | undefined>;
  blockById(id: Identifier): Promise<StoredBlock | undefined>;
  /** In one read. */
  wholeBlock(height: number): Promise<WholeBlock | undefined>;
  item(kind: ItemKind, id: Identifier): Promise<StoredItem | undefined>;
  /** Every place of an id, the lowest first, `limit` at most. */
  places(kind: ItemKind, id: Identifier, limit: number): Promise<readonly Place[]>;
  /** The evidence of who signs that was kept, ascending by height. */
  evidence(): Promise<readonly CommitteeEvidence[]>;
}

export interface CheckedHeights {
  /** Of the collections. */
  readonly bytes: number;
  readonly damages: readonly FoundDamage[];
}

/** What may be read from a store at one moment, and what its answers say about themselves. */
export interface ShownIndex {
  /** `undefined` for a store that was never initialised: nothing is shown. */
  readonly meta: StoreMeta | undefined;
  readonly latestIndexedHeight: number;
  /** Like `IndexReader.coverage`. */
  readonly coverage: readonly HeightRange[];
  readonly latestBlock: BlockHead | undefined;
  /** Like `IndexReader.rewinds`. */
  readonly rewinds: number;
  /** `undefined`: the account index is off. */
  readonly accounts: AccountCoverage | undefined;
  /** Like `IndexStore.healing`. Absent: none. */
  readonly healing?: readonly HeightRange[];
}

/** Holds back the writers of a store while there is no room for what they would write. */
export interface WriteRoom {
  /** `undefined` while there is room; else resolves when there is some again, or the signal aborts. Never rejects. */
  whenRoom(signal: AbortSignal): Promise<void> | undefined;
}

/**
 * The additional methods of a store that several processes use. One process leads: only it initialises the store, writes
 * the live range and rewinds. Every process sees what the leader commits, and the ranges that any process publishes.
 */
export interface SharedStore {
  /**
   * Replaces the previous leader, whose writes are refused from then on; everything it wrote is known here on return. The
   * signal aborts when another process replaces this one. Waits while the database is unreachable. Expected errors:
   * `StorageError`, as for opening the store.
   */
  lead(): Promise<AbortSignal>;
  /** Stops leading: waits for the write under way, refuses further ones, and forgets staged blocks. Idempotent. */
  follow(): Promise<void>;
  isLeading(): boolean;
  /** Calls back after another process changed what the store holds. The callback must not throw. Returns the unsubscriber. */
  onChanged(callback: () => void): () => void;
}

/**
 * The store, as the rest of the daemon sees it. One atomic batch carries data, pointers, height records, the watermark
 * and the coverage, so progress is never ahead of data and a block is never half stored (docs/architecture.md,
 * "Storage"). Its members of `RangeStore` are those of the live range.
 */
export interface IndexStore extends IndexReader, RangeStore {
  readonly accounts: AccountIndex;
  readonly ranges: RangeBook;
  /**
   * Why a store on another machine does not answer, in one sentence; `undefined` while it does. Meanwhile its writes and
   * reads wait. Absent: the store is on this machine.
   */
  readonly trouble?: () => string | undefined;
  /** Absent: no other process uses this store. */
  readonly shared?: SharedStore;
  /** Covered heights whose blocks have no proof, or may have none. */
  unproven(): readonly HeightRange[];
  /**
   * Adds the proofs of stored blocks that have none; those with one, no longer stored, or stored with another parent or other
   * guarantees, are left as they are. Durable on return, with `unproven`. Expected errors: `StorageError`.
   */
  addProofs(proven: readonly FinalizedBlock[]): Promise<void>;
  /** Calls back when a read meets damage. The callback must not throw. */
  onDamage(callback: (damage: FoundDamage) => void): void;
  /**
   * Calls back with the error of a failed write, whichever it was: nothing more is written before the next open, so the
   * process must end. The callback must not throw. One listener. Absent: no failed write ends all writing.
   */
  readonly onFailed?: (callback: (error: unknown) => void) => void;
  /**
   * The space that the store takes on disk; `undefined`: unknown. Expected errors: `StorageError` (`corrupt`: another program
   * deleted files of the store); the signal's abort reason.
   */
  sizeBytes(signal: AbortSignal): Promise<number | undefined>;
  /** Damaged heights that are no longer covered, and planned to be fetched again. */
  healing(): readonly HeightRange[];
  /**
   * Makes holes of damaged heights, which are planned: one durable write takes them out of the coverage. Returns those for
   * which it did; heights that are not covered, and the watermark, which nothing can leave, stay as they are. `lastPlan`:
   * plan ids up to this one are in use. Expected errors: `StorageError`.
   */
  heal(damaged: readonly HeightRange[], lastPlan?: number): Promise<readonly HeightRange[]>;
  /**
   * Removes what is damaged at the watermark or above it, to be fetched again, before anything is committed. In a shared store,
   * `lead` does this. Logs it. Expected errors: those of `rewind`.
   */
  takeBackDamage(): Promise<void>;
  /**
   * Verifies covered heights: every checksum and hash, the links, and each pointer to them. Stops when the signal aborts.
   * Expected errors: `StorageError` (not `corrupt`).
   */
  check(range: HeightRange, signal?: AbortSignal): Promise<CheckedHeights>;
  /**
   * The block up to which the leading process has proven the chain final, as far as is known here. Absent: no other process
   * uses this store.
   */
  readonly provenBlock?: () => BlockHead | undefined;
  /** Keeps the height of that block, unless another process leads by now. Durable on return. Expected errors: `StorageError`. */
  readonly keepProven?: (height: number) => Promise<void>;
  /**
   * Keeps who signs from a stored block on, unless another process leads by now. Durable on return. Expected errors:
   * `StorageError`.
   */
  keepEvidence(evidence: CommitteeEvidence): Promise<void>;
  /** Removes the blocks above the watermark, one of which is false. Idempotent. Expected errors: `StorageError`. */
  forgetAbove(): Promise<void>;
  /** Writes the meta record of an empty store; the watermark becomes `firstHeight - 1`. Durable on return. */
  initialise(meta: StoreMeta): Promise<void>;
  /**
   * Deletes every block above `height`, in every range, and the plans for them. If `height` is below the live range,
   * the highest covered range at or below it becomes the live one, and no range may have a run. Idempotent; after a
   * crash the next open finishes the work. Expected errors: `StorageError`; `OperatorError` (`usage`) when nothing is
   * covered at or below `height`, unless it is the first height - 1 of a store that has no other range. `onStep`: called now and
   * then, if at all, with the highest height still to be deleted.
   */
  rewind(height: number, onStep?: (highest: number) => void): Promise<void>;
  close(): Promise<void>;
}
