import { TransactionHasher } from './ids/TransactionHasher.js';

/** What a hasher gets to begin with, besides the collection itself: the RLP form of an ordinary transaction. */
const WORKING_BYTES = 4096;
/** What is kept for the next one: enough for all but unusually large collections. */
const KEPT_BYTES = 64 * 1024;

/**
 * What verifying works in. Kept by whoever verifies one collection after another, it is still in the processor's caches
 * for the next one; nothing of a collection can be read from it afterwards.
 */
export class VerificationMemory {
  readonly #hasher = new TransactionHasher(KEPT_BYTES);

  /** With room for a collection of this size; an unusually large one gets a hasher of its own, which is not kept. */
  hasherFor(sizeBytes: number): TransactionHasher {
    const neededBytes = 2 * sizeBytes + WORKING_BYTES;
    return neededBytes <= KEPT_BYTES ? this.#hasher : new TransactionHasher(neededBytes);
  }
}
