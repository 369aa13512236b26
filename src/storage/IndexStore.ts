import type { Address, FinalizedBlock, Identifier, VerifiedCollection } from '../flow/index.js';

/** One spork whose heights the store holds, recorded with its root so that nodes of another spork are recognised. */
export interface SporkRecord {
  readonly rootHeight: number;
  /** Spork id as reported by the node, hex; empty when the node reports none (old nodes). */
  readonly sporkId: string;
  /**
   * The parent that the root block names, where the network's spork table vouches for it. Only then may the root's
   * parent be another block than the one stored below it.
   */
  readonly rootParentId?: Identifier;
}

/** Checked at every open; a store of another chain or a newer schema is refused (docs/architecture.md, "Storage"). */
export interface StoreMeta {
  readonly schemaVersion: number;
  readonly chainId: string;
  /** The first height indexed; its block has no parent to check. */
  readonly firstHeight: number;
  /** Version of the program that created the store. */
  readonly createdBy: string;
  /** In ascending order of root height. */
  readonly sporks: readonly SporkRecord[];
}

/** Consecutive heights, both ends included. */
export interface HeightRange {
  readonly from: number;
  readonly to: number;
}

/** The most heights of one open range. */
export const MAX_RANGE_HEIGHTS = 1_000;
/** The most ranges open at once, including those that wait after failures. */
export const MAX_OPEN_RANGES = 256;
/** The most plans. */
export const MAX_PLANS = 256;

/**
 * A range below the live one that is being filled, upwards from `from`. It and its durable blocks survive a restart.
 * Readers see it once it is published.
 */
export interface OpenRange extends HeightRange {
  /** Its lowest height that is not durable. */
  readonly next: number;
  /** Consecutive failed runs. */
  readonly failures: number;
  /** Why the last one failed. */
  readonly reason?: string | undefined;
}

/** Heights below the live range that are to be filled in. */
export interface BackfillPlan extends HeightRange {
  readonly id: number;
  /** Which missing heights are filled in first. */
  readonly order: 'newest' | 'oldest';
  readonly isPaused: boolean;
}

/** One atomic change of plans and open ranges. */
export interface RangeChange {
  /** The new list of plans, in the order of their ids. */
  readonly plans?: readonly BackfillPlan[] | undefined;
  /** Open ranges with new `failures` and `reason`; one that was not open is opened. */
  readonly failed?: readonly Omit<OpenRange, 'next'>[] | undefined;
  /**
   * Open ranges whose blocks are deleted. A range that is also in `failed` stays open, to be filled anew; any other is
   * closed. None of them may have a run.
   */
  readonly dropped?: readonly HeightRange[] | undefined;
}

/** A complete block, ready to be written: one collection per guarantee, in guarantee order. */
export interface BlockEntry {
  readonly block: FinalizedBlock;
  readonly collections: readonly VerifiedCollection[];
}

/** What one atomic, durable write carries. `latestIndexedHeight` may stay unchanged (blocks above a gap). */
export interface CommitBatch {
  readonly blocks: readonly BlockEntry[];
  readonly latestIndexedHeight: number;
  /** A spork first seen with one of these blocks. */
  readonly spork?: SporkRecord;
}

/** A stored block without its bodies. */
export interface BlockHead {
  readonly height: number;
  readonly id: Identifier;
  readonly parentId: Identifier;
}

/** The place of a collection or transaction; the lowest of several positions. */
export interface CollectionPlace {
  readonly height: number;
  /** Index of the collection within its block. */
  readonly collectionIndex: number;
}
/** The place of one transaction. */
export interface TransactionPlace extends CollectionPlace {
  /** Index of the transaction within its collection. */
  readonly transactionIndex: number;
}

/** A block as it is stored. */
export interface StoredBlock {
  readonly block: FinalizedBlock;
  /** Transactions per collection, in guarantee order. */
  readonly transactionCounts: readonly number[];
}
/** A collection as it is stored, at its lowest place. */
export interface StoredCollection {
  readonly id: Identifier;
  readonly place: CollectionPlace;
  readonly blockId: Identifier;
  /** Wire form of a full collection: `repeated Transaction transactions = 1`. */
  readonly encoded: Uint8Array;
}
/** A transaction as it is stored, at its lowest place. */
export interface StoredTransaction {
  readonly id: Identifier;
  readonly place: TransactionPlace;
  readonly blockId: Identifier;
  readonly collectionId: Identifier;
  /** Wire bytes of `flow.entities.Transaction`. */
  readonly encoded: Uint8Array;
}

/** The heights that the account index answers for, both ends included; empty while `from` is above `to`. */
export interface AccountCoverage {
  readonly from: number;
  /** The watermark. */
  readonly to: number;
  /** Heights below `from` that are still to be indexed; 0 when the index is complete. */
  readonly missingHeights: number;
}

/** Which transactions of an account to return. */
export interface AccountQuery {
  readonly address: Address;
  /** In at least one of these roles (a sum of `accountRoles`). */
  readonly roles: number;
  /** Below this place only. */
  readonly before?: TransactionPlace | undefined;
  /** Maximum number of transactions, at least 1. */
  readonly limit: number;
}

/** One place of a transaction in which an account plays a role. */
export interface AccountTransaction {
  readonly id: Identifier;
  readonly place: TransactionPlace;
  readonly blockId: Identifier;
  readonly collectionId: Identifier;
  /** The sum of the account's `accountRoles`. */
  readonly roles: number;
}

/** Newest first. */
export interface AccountPage {
  readonly transactions: readonly AccountTransaction[];
  /** Where to continue (`before`); `undefined`: nothing older, down to the first height of the store. */
  readonly next: TransactionPlace | undefined;
  /** The coverage when the page was read: nothing below `from` is in it. */
  readonly coverage: AccountCoverage;
}

/** The read side of the account index. */
export interface AccountReader {
  /** `undefined`: the index is off. */
  coverage(): AccountCoverage | undefined;
  /**
   * A page may hold fewer than `limit` entries, even none, and still have a `next`: the work per page is bounded, and
   * the index may not reach further down yet. Call only while the index is on. Expected errors: `StorageError`.
   */
  page(query: AccountQuery): Promise<AccountPage>;
}

/** The optional account index: on or off for as long as the store is open. */
export interface AccountIndex extends AccountReader {
  /**
   * Builds the next bounded step downwards, for heights from before the index was switched on: one atomic, durable
   * write, which may run beside a commit. One at a time. Expected errors: `StorageError`; `corrupt` when a stored block
   * is damaged: nothing was written, and the next step would hit it again.
   */
  extend(): Promise<void>;
}

/** A block and what its collections hold, in guarantee order. */
export interface WholeBlock extends StoredBlock {
  readonly collections: readonly StoredCollection[];
}

/**
 * The read side of the port. Answers cover the covered heights only; `undefined` means "outside them". Expected errors:
 * `StorageError` (`corrupt` when a checksum does not match; never wrong data).
 */
export interface IndexReader {
  readonly accounts: AccountReader;
  /**
   * The readable heights: ascending ranges that do not touch. The last one is the live range, which ends at the
   * watermark; it is left out while it is empty.
   */
  coverage(): readonly HeightRange[];
  latestIndexedHeight(): number;
  blockByHeight(height: number): Promise<StoredBlock | undefined>;
  blockById(id: Identifier): Promise<StoredBlock | undefined>;
  /** All collections of a block in guarantee order; `undefined` when the height is outside the range. */
  collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined>;
  /** Both in one read. */
  wholeBlock(height: number): Promise<WholeBlock | undefined>;
  collection(id: Identifier): Promise<StoredCollection | undefined>;
  /** Every position of a collection id, lowest first, at most `limit`. */
  collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]>;
  transaction(id: Identifier): Promise<StoredTransaction | undefined>;
  transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]>;
}

/** What may be read from a store at one moment, and what its answers say about themselves. */
export interface ShownIndex {
  /** `undefined` for a store that was never initialised: nothing is shown. */
  readonly meta: StoreMeta | undefined;
  readonly latestIndexedHeight: number;
  /** Like `IndexReader.coverage`. */
  readonly coverage: readonly HeightRange[];
  readonly latestBlock: BlockHead | undefined;
  /** `undefined`: the account index is off. */
  readonly accounts: AccountCoverage | undefined;
}

/** Tells the writers of a store when there is no room for what they would write. */
export interface WriteRoom {
  /** `undefined` while there is room; else resolves when there is some again, or the signal aborts. Never rejects. */
  whenRoom(signal: AbortSignal): Promise<void> | undefined;
}

/**
 * What one indexing line writes: a run of heights that grows upwards. The live range, which follows the head, is one;
 * each open range is another. The watermark is the highest height of the run up to which every height is durable.
 */
export interface RangeStore {
  /** `firstHeight` is that of the run. `undefined` for a store that was never initialised. */
  meta(): StoreMeta | undefined;
  latestIndexedHeight(): number;
  /**
   * The block at the watermark. For an open range without blocks: the covered block below it, which its first block
   * must link to, if there is one. Else `undefined`.
   */
  latestBlock(): BlockHead | undefined;
  /** Blocks of the run that were made durable above a gap, in ascending order; at most one window of them. */
  blocksAboveWatermark(): readonly BlockHead[];
  /** True when the block of this height is durable in this run, at, below or above the watermark. */
  hasHeight(height: number): boolean;
  /** Of this run, up to its watermark, and of every covered height. */
  blockByHeight(height: number): Promise<StoredBlock | undefined>;
  /**
   * Announces that the next commit will carry this entry, so that it can be prepared while the previous commit is under
   * way. Stores nothing; if the next commit does not carry the entry, it is forgotten.
   */
  stage(entry: BlockEntry): void;
  /**
   * Atomic, and synced to disk before it resolves. At most one per run may be under way; those of several runs may be
   * carried by one write. Expected errors: `StorageError` (the daemon stops with exit code 74). After one,
   * the batch is durable as a whole or not at all, nobody sees it before the next open, and every further write is
   * refused.
   *
   * The commit that completes an open range also publishes it: it is covered, and no longer open. Expected error:
   * `BorderError` when its first or last block does not link to the covered block next to it. Then nothing was written,
   * and the run is useless: the range must be dropped and filled anew, from other nodes.
   */
  commit(batch: CommitBatch): Promise<void>;
  /**
   * Removes every block of the run above `height`. Idempotent. Expected errors: `StorageError`. See `IndexStore.rewind`
   * for the live one.
   */
  rewind(height: number): Promise<void>;
}

/** The plans and open ranges of a store. */
export interface RangeBook {
  /** Those with heights that are not covered, in the order of their ids. */
  plans(): readonly BackfillPlan[];
  /** In ascending order; they do not overlap, and lie below the live range. */
  open(): readonly OpenRange[];
  /** Atomic, and durable on return. Expected errors: `StorageError`. */
  change(change: RangeChange): Promise<void>;
  /**
   * Begins a range, or continues an open one. A run ends when its range is published or dropped, or another run of it
   * begins. The range must be below the live range, which holds a block already, within one spork, and not covered
   * anywhere. Expected errors: `StorageError`.
   */
  run(range: HeightRange): Promise<RangeStore>;
}

/**
 * What a store that several processes use has besides. One of them leads: it alone writes the live range, begins the store
 * and rewinds it. The others learn of what it commits, and everybody of what others publish.
 */
export interface SharedStore {
  /**
   * Replaces the leader before, of whom nothing is written from then on. What it has written is known here on return. The
   * signal aborts when this process has been replaced in turn. Waits for a database that is away. Expected errors:
   * `StorageError`; as opening the store.
   */
  lead(): Promise<AbortSignal>;
  /** Leads no longer: waits for the write under way, and refuses others. What is staged is forgotten. Idempotent. */
  follow(): Promise<void>;
  isLeading(): boolean;
  /** What it takes up on the disks of the database. Expected errors: `StorageError`. */
  weigh(): Promise<number>;
  /** Calls back when others have changed what the store holds. The callback must not throw. Returns a function that ends it. */
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
   * Why a store on another machine does not answer, in one sentence; `undefined` while it does. Its writes and reads
   * wait meanwhile. Absent: the store is on this machine.
   */
  readonly trouble?: () => string | undefined;
  /** Absent: no other process has this store. */
  readonly shared?: SharedStore;
  /** Writes the meta record of an empty store; the watermark becomes `firstHeight - 1`. Durable on return. */
  initialise(meta: StoreMeta): Promise<void>;
  /**
   * Deletes every block above `height`, in every range, and the plans for them. If `height` is below the live range,
   * the highest covered range at or below it becomes the live one, and no range may have a run. Idempotent; after a
   * crash the next open finishes the work. Expected errors: `StorageError`; `OperatorError` (`usage`) when nothing is
   * covered at or below `height`, unless it is the first height - 1 of a store that has no other range.
   */
  rewind(height: number): Promise<void>;
  close(): Promise<void>;
}
