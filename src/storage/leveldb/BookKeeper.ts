import { ok as assert } from 'node:assert/strict';
import type { Database, WriteBatch } from '../records/Database.js';
import type { StoreBook } from '../records/storeState.js';
import { putChanges } from './changeBook.js';
import type { LevelIndexWriter, Line } from './LevelIndexWriter.js';

/** The book after a write, and what else the write carries. */
export interface Change {
  readonly after: StoreBook;
  readonly batch?: WriteBatch;
}

type MaybePromise<T> = T | Promise<T>;

export interface BookKeeperDependencies {
  readonly database: Database;
  readonly writer: LevelIndexWriter;
}

/** Owns what the records of an open store say, as far as it is durable, and writes changes. */
export class BookKeeper {
  readonly #database: Database;
  readonly #writer: LevelIndexWriter;
  #book: StoreBook | undefined;

  constructor(book: StoreBook | undefined, { database, writer }: BookKeeperDependencies) {
    this.#book = book;
    this.#database = database;
    this.#writer = writer;
  }

  /** `undefined` for a store that was never initialised. */
  book(): StoreBook | undefined {
    return this.#book;
  }

  initialised(): StoreBook {
    assert(this.#book !== undefined, 'the store is not initialised');
    return this.#book;
  }

  /** The records were written by other means. */
  replace(book: StoreBook): void {
    this.#book = book;
  }

  /**
   * Waits for the line's turn, then writes what `change` makes of the book, together with what it put into the batch;
   * the new book counts from then on. `undefined`: nothing is written. Rejects with the error of `change`, and like
   * `LevelIndexWriter.write`.
   */
  async record(line: Line, change: (book: StoreBook) => MaybePromise<Change | undefined>): Promise<void> {
    await this.#writer.inTurn(line, async () => {
      const before = this.initialised();
      const changed = await change(before);
      if (changed === undefined) return;
      const { after, batch = this.#database.batch() } = changed;
      putChanges(before, after, batch);
      await this.#writer.write(() => batch.write());
      this.#book = after;
    });
  }
}
