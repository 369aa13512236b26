import type { Address, FinalizedBlock, Identifier, VerifiedCollection } from '../flow/index.js';

/** One spork whose heights the store holds: recorded with its root so that nodes of another spork are recognised. */
export interface SporkRecord {
  readonly rootHeight: number;
  /** Spork id as the node gives it, hex; empty when the node does not tell (old nodes). */
  readonly sporkId: string;
  /**
   * The parent that the root block names, where the network's own spork table vouches for it. Only then may the root's
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
  /** Version of the program that made the store. */
  readonly createdBy: string;
  /** In ascending order of root height. */
  readonly sporks: readonly SporkRecord[];
}

/** A complete block, ready to be written: one collection per guarantee, in guarantee order. */
export interface BlockEntry {
  readonly block: FinalizedBlock;
  readonly collections: readonly VerifiedCollection[];
}

/** What one atomic, durable write carries. `latestIndexedHeight` may stay where it is (blocks above a gap). */
export interface CommitBatch {
  readonly blocks: readonly BlockEntry[];
  readonly latestIndexedHeight: number;
  /** A spork first seen with one of these blocks. */
  readonly spork?: SporkRecord;
}

/** What is known of a stored block without reading its bodies. */
export interface BlockHead {
  readonly height: number;
  readonly id: Identifier;
  readonly parentId: Identifier;
}

/** Where a collection or transaction stands; with several positions, the lowest. */
export interface CollectionPlace {
  readonly height: number;
  /** Index of the collection within its block. */
  readonly collectionIndex: number;
}
/** Where one transaction stands. */
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

/** The heights that the account index answers for, both ends included; none while `from` is above `to`. */
export interface AccountCoverage {
  readonly from: number;
  /** The watermark. */
  readonly to: number;
  /** Heights below `from` that are still to be gone through; 0: the index is complete. */
  readonly missingHeights: number;
}

/** Which transactions of an account are asked for. */
export interface AccountQuery {
  readonly address: Address;
  /** In at least one of these roles (a sum of `accountRoles`). */
  readonly roles: number;
  /** Below this place only. */
  readonly before?: TransactionPlace | undefined;
  /** At most so many; from 1 on. */
  readonly limit: number;
}

/** One place of a transaction in which an account has a part. */
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
  /** Where to go on (`before`); `undefined`: there is nothing older, down to the first height of the store. */
  readonly next: TransactionPlace | undefined;
  /** What was covered when the page was read: nothing below `from` is in it. */
  readonly coverage: AccountCoverage;
}

/** The read side of the account index. */
export interface AccountReader {
  /** `undefined`: the index is off. */
  coverage(): AccountCoverage | undefined;
  /**
   * A page may hold fewer than `limit`, even none, and yet have a `next`: the work for one page is bounded, and the index may
   * not reach further down yet. Expected errors: `StorageError`. Only while the index is on.
   */
  page(query: AccountQuery): Promise<AccountPage>;
}

/** The account index, which is optional: on or off for as long as the store is open. */
export interface AccountIndex extends AccountReader {
  /**
   * One bounded step further down, where heights from before the index was switched on are missing: one atomic, durable
   * write, which may be under way beside a commit. One at a time. Expected errors: `StorageError`; of kind `corrupt` when a
   * stored block is damaged: then nothing was written, and the next step would meet it again.
   */
  extend(): Promise<void>;
}

/**
 * The read side of the port. Answers cover heights `firstHeight … latestIndexedHeight` only; `undefined` means "not
 * within them". Expected errors: `StorageError` (`corrupt` when a checksum does not match; never wrong data).
 */
export interface IndexReader {
  readonly accounts: AccountReader;
  latestIndexedHeight(): number;
  blockByHeight(height: number): Promise<StoredBlock | undefined>;
  blockById(id: Identifier): Promise<StoredBlock | undefined>;
  /** All collections of a block in guarantee order; `undefined` when the height is outside the range. */
  collectionsByHeight(height: number): Promise<readonly StoredCollection[] | undefined>;
  collection(id: Identifier): Promise<StoredCollection | undefined>;
  /** Every position of a collection id, lowest first, at most `limit`. */
  collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]>;
  transaction(id: Identifier): Promise<StoredTransaction | undefined>;
  transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]>;
}

/** What of a store may be read at one moment, and what its answers say of themselves. */
export interface ShownIndex {
  /** `undefined` for a store that was never initialised: nothing is shown. */
  readonly meta: StoreMeta | undefined;
  readonly latestIndexedHeight: number;
  readonly latestBlock: BlockHead | undefined;
  /** `undefined`: the account index is off. */
  readonly accounts: AccountCoverage | undefined;
}

/**
 * The store, as the rest of the daemon sees it. One atomic batch carries data, pointers, height records and the
 * watermark, so progress is never ahead of data and data is never half a block (docs/architecture.md, "Storage").
 */
export interface IndexStore extends IndexReader {
  readonly accounts: AccountIndex;
  /** `undefined` for a store that was never initialised. */
  meta(): StoreMeta | undefined;
  /** Writes the meta record of an empty store; the watermark becomes `firstHeight - 1`. Durable on return. */
  initialise(meta: StoreMeta): Promise<void>;
  /** The block at the watermark, or `undefined` when the store holds no block. */
  latestBlock(): BlockHead | undefined;
  /** Blocks that were made durable above a gap, in ascending order; at most one window of them. */
  blocksAboveWatermark(): readonly BlockHead[];
  /** True when the block of this height is durable, at or above the watermark. */
  hasHeight(height: number): boolean;
  /**
   * The next commit will carry this very entry: what can be prepared for that is done now, while the commit before may
   * still be under way. Nothing is promised and nothing stored; should the next commit not carry it, it is forgotten.
   */
  stage(entry: BlockEntry): void;
  /**
   * One atomic write, synced to disk before it resolves. At most one may be under way.
   * Expected errors: `StorageError` (the daemon stops with exit code 74). After one, the batch is durable as a whole or
   * not at all, nobody sees it before the next open, and every further write is refused.
   */
  commit(batch: CommitBatch): Promise<void>;
  /**
   * Forgets every block above `height`. Idempotent; a crash in the middle is finished at the next open. Expected errors:
   * `StorageError`; `OperatorError` (`usage`) for a height below the first height - 1.
   */
  rewind(height: number): Promise<void>;
  close(): Promise<void>;
}
