import { TransactionHasher } from '../ids/TransactionHasher.js';

/** Initial working space of a hasher, besides the collection itself: the RLP form of an ordinary transaction. */
const WORKING_BYTES = 4096;
/** What is kept for the next collection: enough for all but unusually large ones. */
const KEPT_BYTES = 64 * 1024;

/**
 * Working memory for verification. Reused from one collection to the next, it is still in the processor's caches;
 * nothing of a collection can be read from it afterwards.
 */
export class VerificationMemory {
  readonly #hasher = new TransactionHasher(KEPT_BYTES);

  /** A hasher with room for a collection of this size; an unusually large one gets its own, which is not kept. */
  hasherFor(sizeBytes: number): TransactionHasher {
    const neededBytes = 2 * sizeBytes + WORKING_BYTES;
    return neededBytes <= KEPT_BYTES ? this.#hasher : new TransactionHasher(neededBytes);
  }
}
