import type { Identifier } from '../../../flow/index.js';
import type { FoundDamage, StoredReads } from '../../port/IndexStore.js';
import { isCorruption } from '../../StorageError.js';

/** A store, or a replica of one, that leaves reading to a part of its own, and tells of the damage that it meets. */
export abstract class DelegatingReader implements StoredReads {
  /** What does the reading. */
  abstract readonly reads: StoredReads;
  readonly #listeners: ((damage: FoundDamage) => void)[] = [];

  onDamage(callback: (damage: FoundDamage) => void): void {
    this.#listeners.push(callback);
  }

  blockByHeight(height: number): ReturnType<StoredReads['blockByHeight']> {
    return this.tell(this.reads.blockByHeight(height));
  }

  blockById(id: Identifier): ReturnType<StoredReads['blockById']> {
    return this.tell(this.reads.blockById(id));
  }

  wholeBlock(height: number): ReturnType<StoredReads['wholeBlock']> {
    return this.tell(this.reads.wholeBlock(height));
  }

  collectionsByHeight(height: number): ReturnType<StoredReads['collectionsByHeight']> {
    return this.tell(this.reads.collectionsByHeight(height));
  }

  collection(id: Identifier): ReturnType<StoredReads['collection']> {
    return this.tell(this.reads.collection(id));
  }

  collectionPlaces(id: Identifier, limit: number): ReturnType<StoredReads['collectionPlaces']> {
    return this.tell(this.reads.collectionPlaces(id, limit));
  }

  transaction(id: Identifier): ReturnType<StoredReads['transaction']> {
    return this.tell(this.reads.transaction(id));
  }

  transactionPlaces(id: Identifier, limit: number): ReturnType<StoredReads['transactionPlaces']> {
    return this.tell(this.reads.transactionPlaces(id, limit));
  }

  /** Passes a read on, and tells the listeners of damage that it meets. */
  async tell<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      if (isCorruption(error)) {
        const damage = { height: error.height, what: error.damage ?? error.message };
        for (const listener of this.#listeners) listener(damage);
      }
      throw error;
    }
  }

  evidence(): ReturnType<StoredReads['evidence']> {
    return this.reads.evidence();
  }
}
