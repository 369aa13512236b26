import { systemClock } from '../../runtime/index.js';
import type { Identifier } from '../../flow/index.js';
import { silentLogger } from '../../observability/index.js';
import type {
  AccountReader,
  BlockHead,
  HeightRange,
  IndexReader,
  ShownIndex,
  StoreMeta,
} from '../IndexStore.js';
import { databasePlace } from './connection.js';
import { PostgresDatabase } from './PostgresDatabase.js';
import { PostgresIndexReader } from './PostgresIndexReader.js';

const NOTHING: ShownIndex = {
  meta: undefined,
  latestIndexedHeight: 0,
  coverage: [],
  latestBlock: undefined,
  accounts: undefined,
};

/**
 * The read side of a database that another thread or process writes to, over connections of its own. As `LevelReplica`, it
 * shows what it is told to. While the database is away, reads fail (`unavailable`).
 */
export class PostgresReplica implements IndexReader {
  readonly accounts: AccountReader;
  readonly #database: PostgresDatabase;
  readonly #reader: PostgresIndexReader;
  #shown = NOTHING;

  private constructor(database: PostgresDatabase) {
    this.#database = database;
    this.#reader = new PostgresIndexReader({ session: database, coverage: () => this.#shown.coverage });
    this.accounts = {
      coverage: () => this.#shown.accounts,
      page: (query) => this.#reader.accountPage(query, this.#shown.accounts),
    };
  }

  /** Connects when it is first read. Expected errors: `OperatorError` (`configuration`). */
  static open({ url }: { readonly url: string }): PostgresReplica {
    // Reads never wait for the database, so there is nothing to log.
    const parts = { clock: systemClock, logger: silentLogger };
    return new PostgresReplica(new PostgresDatabase(databasePlace(url), parts));
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
