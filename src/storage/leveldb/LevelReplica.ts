import { ok as assert } from 'node:assert/strict';
import type { Identifier } from '../../flow/index.js';
import type { EndGate } from '../../runtime/index.js';
import { readAccountPage } from '../accounts/accountPages.js';
import type {
  AccountReader,
  BlockHead,
  HeightRange,
  IndexReader,
  ShownIndex,
  StoreMeta,
} from '../IndexStore.js';
import type { Database } from '../records/Database.js';
import { defaultTuning, openLevelDatabase } from './LevelDatabase.js';
import { LevelIndexReader } from './LevelIndexReader.js';

/** The thread that opened the database first caches its blocks. */
const NO_CACHE_BYTES = 0;

const NOTHING: ShownIndex = {
  meta: undefined,
  latestIndexedHeight: 0,
  coverage: [],
  latestBlock: undefined,
  accounts: undefined,
};

/**
 * The read side of a store that another thread of this process has opened and writes to. It knows nothing of progress by
 * itself: what may be read is what it is told to `show`, never less than before, and only once it is durable.
 */
export class LevelReplica implements IndexReader {
  readonly accounts: AccountReader;
  readonly #database: Database;
  readonly #reader: LevelIndexReader;
  #shown = NOTHING;

  private constructor(database: Database) {
    this.#database = database;
    this.#reader = new LevelIndexReader({ database, coverage: () => this.#shown.coverage });
    this.accounts = {
      coverage: () => this.#shown.accounts,
      page: (query) => {
        const { accounts: coverage, meta } = this.#shown;
        assert(coverage !== undefined, 'the account index is off');
        return readAccountPage(database, query, { coverage, firstHeight: meta?.firstHeight ?? 0 });
      },
    };
  }

  /** `gate`: see `OpenOptions`. Expected errors: `StorageError`. */
  static async open({ path, gate }: { readonly path: string; readonly gate?: EndGate | undefined }) {
    const tuning = { ...defaultTuning, cacheBytes: NO_CACHE_BYTES };
    return new LevelReplica(await openLevelDatabase(path, tuning, { create: false, isShared: true, gate }));
  }

  /** Like `open`, over a database that is open already, which is closed with it. For the simulation. */
  static over(database: Database): LevelReplica {
    return new LevelReplica(database);
  }

  show(shown: ShownIndex): void {
    this.#shown = shown;
  }

  meta(): StoreMeta | undefined {
    return this.#shown.meta;
  }

  coverage(): readonly HeightRange[] {
    return this.#shown.coverage;
  }

  latestIndexedHeight(): number {
    return this.#shown.latestIndexedHeight;
  }

  latestBlock(): BlockHead | undefined {
    return this.#shown.latestBlock;
  }

  blockByHeight(height: number): ReturnType<IndexReader['blockByHeight']> {
    return this.#reader.blockByHeight(height);
  }

  blockById(id: Identifier): ReturnType<IndexReader['blockById']> {
    return this.#reader.blockById(id);
  }

  collectionsByHeight(height: number): ReturnType<IndexReader['collectionsByHeight']> {
    return this.#reader.collectionsByHeight(height);
  }

  collection(id: Identifier): ReturnType<IndexReader['collection']> {
    return this.#reader.collection(id);
  }

  collectionPlaces(id: Identifier, limit: number): ReturnType<IndexReader['collectionPlaces']> {
    return this.#reader.collectionPlaces(id, limit);
  }

  transaction(id: Identifier): ReturnType<IndexReader['transaction']> {
    return this.#reader.transaction(id);
  }

  transactionPlaces(id: Identifier, limit: number): ReturnType<IndexReader['transactionPlaces']> {
    return this.#reader.transactionPlaces(id, limit);
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}
