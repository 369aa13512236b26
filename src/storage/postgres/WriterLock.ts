import type { Connection, PostgresDatabase } from './PostgresDatabase.js';
import { lockedError, tryLock } from './openDatabase.js';

/** Keeps other daemons and commands from writing beside this one, by a lock that a connection of its own holds. */
export class WriterLock {
  readonly #database: PostgresDatabase;
  #connection: Connection | undefined;
  #isReleased = false;

  constructor({ database }: { readonly database: PostgresDatabase }) {
    this.#database = database;
  }

  /** Expected errors: `StorageError` (`locked`). */
  async take(): Promise<void> {
    const connection = await this.#database.connect();
    try {
      if (!(await tryLock(connection))) throw await lockedError(connection, this.#database.place);
      this.#connection = connection;
    } catch (error) {
      connection.release();
      throw error;
    }
  }

  /** Makes sure that it is still held, and takes it again where the connection was lost. Expected errors: `StorageError`. */
  async check(): Promise<void> {
    const connection = this.#connection ?? (await this.#database.connect());
    this.#connection = undefined;
    try {
      // A lock that is held may be taken again by its holder. If it is somebody else's now, the next write finds out.
      if ((await tryLock(connection)) && !this.#isReleased) this.#connection = connection;
    } finally {
      if (this.#connection === undefined) connection.release();
    }
  }

  release(): void {
    this.#isReleased = true;
    this.#connection?.release();
    this.#connection = undefined;
  }
}
