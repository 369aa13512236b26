import type { Identifier } from '../../flow/index.js';
import type { AccountReader, IndexReader, IndexStore } from '../../storage/index.js';

/** What is read of a store to answer requests. */
export type ReadableStore = IndexReader &
  Pick<IndexStore, 'meta' | 'latestBlock' | 'hasHeight' | 'blocksAboveWatermark'>;

/** The read side of a store that tells `reads` how many questions it is asked; of what it has at hand nothing is told. */
export class CountedReader implements ReadableStore {
  readonly accounts: AccountReader;
  readonly #store: ReadableStore;
  readonly #reads: (count: number) => void;

  constructor(dependencies: { readonly store: ReadableStore; readonly reads: (count: number) => void }) {
    const { store, reads } = dependencies;
    this.#store = store;
    this.#reads = reads;
    this.accounts = {
      coverage: () => store.accounts.coverage(),
      page: (query) => {
        // The entries, and the block of each.
        reads(1 + query.limit);
        return store.accounts.page(query);
      },
    };
  }

  blockByHeight(height: number): ReturnType<IndexReader['blockByHeight']> {
    this.#reads(1);
    return this.#store.blockByHeight(height);
  }

  blockById(id: Identifier): ReturnType<IndexReader['blockById']> {
    this.#reads(1);
    return this.#store.blockById(id);
  }

  collectionsByHeight(height: number): ReturnType<IndexReader['collectionsByHeight']> {
    this.#reads(1);
    return this.#store.collectionsByHeight(height);
  }

  collection(id: Identifier): ReturnType<IndexReader['collection']> {
    this.#reads(1);
    return this.#store.collection(id);
  }

  collectionPlaces(id: Identifier, limit: number): ReturnType<IndexReader['collectionPlaces']> {
    this.#reads(1);
    return this.#store.collectionPlaces(id, limit);
  }

  transaction(id: Identifier): ReturnType<IndexReader['transaction']> {
    this.#reads(1);
    return this.#store.transaction(id);
  }

  transactionPlaces(id: Identifier, limit: number): ReturnType<IndexReader['transactionPlaces']> {
    this.#reads(1);
    return this.#store.transactionPlaces(id, limit);
  }

  latestIndexedHeight(): number {
    return this.#store.latestIndexedHeight();
  }

  meta(): ReturnType<IndexStore['meta']> {
    return this.#store.meta();
  }

  latestBlock(): ReturnType<IndexStore['latestBlock']> {
    return this.#store.latestBlock();
  }

  hasHeight(height: number): boolean {
    return this.#store.hasHeight(height);
  }

  blocksAboveWatermark(): ReturnType<IndexStore['blocksAboveWatermark']> {
    return this.#store.blocksAboveWatermark();
  }
}
