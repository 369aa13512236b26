import type { Address, Identifier } from '../../flow/index.js';
import type { Place } from './stored.js';

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
  readonly before?: Place | undefined;
  /** Maximum number of transactions, at least 1. */
  readonly limit: number;
}

/** One place of a transaction in which an account plays a role. */
export interface AccountTransaction {
  readonly id: Identifier;
  readonly place: Place;
  readonly blockId: Identifier;
  readonly collectionId: Identifier;
  /** The sum of the account's `accountRoles`. */
  readonly roles: number;
}

/** Newest first. */
export interface AccountPage {
  readonly transactions: readonly AccountTransaction[];
  /** Where to continue (`before`); `undefined`: nothing older, down to the first height of the store. */
  readonly next: Place | undefined;
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
   * Builds the next bounded step downwards, for heights from before the index was switched on: part of one atomic, durable
   * write, which may carry commits as well. One at a time. Expected errors: `StorageError`; `corrupt` when a stored block
   * is damaged: nothing was written, and the next step would hit it again.
   */
  extend(): Promise<void>;
}
