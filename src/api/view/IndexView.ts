import type { FinalizedBlock, Identifier } from '../../flow/index.js';
import type {
  CollectionPlace,
  IndexReader,
  IndexStore,
  StoredBlock,
  StoredCollection,
  StoredTransaction,
  TransactionPlace,
} from '../../storage/index.js';
import { heightOutside, noSuchHead, unknownId } from './ApiError.js';
import type { HeightTerm } from './queryParameters.js';
import { isProven, rangeWith } from './indexedRange.js';
import type { IndexedRange } from './indexedRange.js';

/** What the API reads of a store. */
export type ReadableIndex = IndexReader & Pick<IndexStore, 'meta' | 'latestBlock'>;

/**
 * The index as it was when a request arrived: responses and refusals cover the heights that were indexed then, whatever is
 * committed in the meantime.
 *
 * It blocks and copies nothing: covered heights do not change while a daemon runs, so their coverage is a snapshot.
 */
export class IndexView {
  /** The range at the moment of the view. */
  readonly range: IndexedRange;
  readonly #reader: IndexReader;

  constructor(range: IndexedRange, dependencies: { readonly reader: IndexReader }) {
    this.range = range;
    this.#reader = dependencies.reader;
  }

  /**
   * The height of the newest block that can be served, or of the newest of those that is known to be sealed. Expected
   * errors: ApiError (404 while there is none).
   */
  head(which: 'final' | 'sealed'): number {
    const { firstIndexed, latestIndexed, sealed } = this.range;
    if (firstIndexed === null || latestIndexed === null) throw noSuchHead(which, this.range);
    const height = which === 'final' ? latestIndexed : Math.min(latestIndexed, sealed ?? -1);
    if (height < firstIndexed) throw noSuchHead(which, this.range);
    return height;
  }

  /** The height that a request names; errors as of `head`. */
  heightOf(term: HeightTerm): number {
    return typeof term === 'number' ? term : this.head(term);
  }

  /** A sealed block is final in every later spork: neither the response for its height nor its status changes. */
  isSealed(height: number): boolean {
    return height <= (this.range.sealed ?? -1);
  }

  /** Whether a block is proven final, which it stays. */
  isProven(height: number): boolean {
    return isProven(height, this.range);
  }

  /** A block by id or height. Expected errors: ApiError (404 outside the view), StorageError. */
  async block(key: Identifier | number): Promise<StoredBlock> {
    if (typeof key === 'number') {
      const stored = this.covers(key) ? await this.#reader.blockByHeight(key) : undefined;
      if (stored === undefined) throw heightOutside(key, this.range);
      return stored;
    }
    const stored = await this.#reader.blockById(key);
    if (stored === undefined || !this.covers(stored.block.height)) throw unknownId('block', this.range);
    return stored;
  }

  /** All collections of a block read here, in the order of its guarantees. Expected errors: StorageError. */
  async collectionsOf(block: FinalizedBlock): Promise<readonly StoredCollection[]> {
    const { id, height, collectionIds } = block;
    const collections = await this.#reader.collectionsByHeight(height);
    if (collections?.length === collectionIds.length && collections.every(({ blockId }) => blockId === id)) {
      return collections;
    }
    // A daemon never removes an indexed block: the store was rewound by another process.
    throw heightOutside(height, this.range);
  }

  /** At its lowest place. Expected errors: ApiError (404 outside the view), StorageError. */
  async collection(id: Identifier): Promise<StoredCollection> {
    const stored = await this.#reader.collection(id);
    if (stored === undefined || !this.covers(stored.place.height)) throw unknownId('collection', this.range);
    return stored;
  }

  /** Every place within the view, lowest first, at most `limit`. Expected errors: StorageError. */
  async collectionPlaces(id: Identifier, limit: number): Promise<readonly CollectionPlace[]> {
    const places = await this.#reader.collectionPlaces(id, limit);
    return places.filter(({ height }) => this.covers(height));
  }

  /** At its lowest place. Expected errors: ApiError (404 outside the view), StorageError. */
  async transaction(id: Identifier): Promise<StoredTransaction> {
    const stored = await this.#reader.transaction(id);
    if (stored === undefined || !this.covers(stored.place.height)) throw unknownId('transaction', this.range);
    return stored;
  }

  /** Every place within the view, lowest first, at most `limit`. Expected errors: StorageError. */
  async transactionPlaces(id: Identifier, limit: number): Promise<readonly TransactionPlace[]> {
    const places = await this.#reader.transactionPlaces(id, limit);
    return places.filter(({ height }) => this.covers(height));
  }

  /** Whether a height can be read. */
  covers(height: number): boolean {
    return rangeWith(height, this.range) !== undefined;
  }
}
