import type { Identifier } from '../../../flow/index.js';
import type { IndexReader } from '../../port/IndexStore.js';

/** The part of the port that leads to stored bytes. */
export type StoredReads = Omit<IndexReader, 'accounts' | 'coverage' | 'latestIndexedHeight' | 'rewinds'>;

/** A store, or a replica of one, that leaves reading to a part of its own. */
export abstract class DelegatingReader implements StoredReads {
  /** What does the reading. */
  abstract readonly reads: StoredReads;

  blockByHeight(height: number): ReturnType<StoredReads['blockByHeight']> {
    return this.reads.blockByHeight(height);
  }

  blockById(id: Identifier): ReturnType<StoredReads['blockById']> {
    return this.reads.blockById(id);
  }

  wholeBlock(height: number): ReturnType<StoredReads['wholeBlock']> {
    return this.reads.wholeBlock(height);
  }

  collectionsByHeight(height: number): ReturnType<StoredReads['collectionsByHeight']> {
    return this.reads.collectionsByHeight(height);
  }

  collection(id: Identifier): ReturnType<StoredReads['collection']> {
    return this.reads.collection(id);
  }

  collectionPlaces(id: Identifier, limit: number): ReturnType<StoredReads['collectionPlaces']> {
    return this.reads.collectionPlaces(id, limit);
  }

  transaction(id: Identifier): ReturnType<StoredReads['transaction']> {
    return this.reads.transaction(id);
  }

  transactionPlaces(id: Identifier, limit: number): ReturnType<StoredReads['transactionPlaces']> {
    return this.reads.transactionPlaces(id, limit);
  }

  evidence(): ReturnType<StoredReads['evidence']> {
    return this.reads.evidence();
  }
}
