import { RangeLostError, StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, Step, WriteSession } from '../connection/Session.js';

/** The first height of an open range; `undefined` stands for the store. */
type Fenced = number | undefined;

/** What the row of an open range, or of the store, counts: its writers (`epoch`), and their writes (`commits`). */
interface Counts {
  readonly epoch: number;
  readonly commits: number;
}

/**
 * The right to write: every write increments the counts of its row, in the same transaction. So a writer that was
 * replaced can write nothing, and one whose connection broke during a commit finds out whether it was committed.
 */
export class Fence {
  readonly #database: PostgresDatabase;
  readonly #fenced: Fenced;
  /** The number of this writer: only the one with the highest number may write. */
  readonly epoch: number;
  /** How many writes the row has seen. */
  #commits: number;

  private constructor(database: PostgresDatabase, fenced: Fenced, counts: Counts) {
    this.#database = database;
    this.#fenced = fenced;
    this.epoch = counts.epoch;
    this.#commits = counts.commits;
  }

  /** Replaces the previous writer. Expected errors: `StorageError`. */
  static async take(database: PostgresDatabase, session: Session, fenced?: Fenced): Promise<Fence> {
    const { table, where, values } = rowOf(fenced);
    const { rows } = await session.query<Counts>({
      text: `UPDATE ${table} SET epoch = epoch + 1 WHERE ${where} RETURNING epoch, commits`,
      values,
    });
    const [counts] = rows;
    if (counts === undefined) throw replaced(fenced, database.place);
    return new Fence(database, fenced, counts);
  }

  /**
   * One write: atomic, and durable on return. Retried while the database is unreachable, so `work` may run more than once;
   * it is committed once. `isGone`: for work that ends by removing the row; true when it has removed it. Expected errors:
   * `StorageError` (`locked`: there is another writer), which is a `RangeLostError` for a range; those of `work`.
   */
  async write<T>(
    work: (session: WriteSession) => Promise<T>,
    isGone: (session: Session) => Promise<boolean> = () => Promise.resolve(false),
  ): Promise<T> {
    const { place } = this.#database;
    let attempted: { readonly result: T } | undefined;
    const result = await this.#database.write(async (session) => {
      if (attempted === undefined) {
        session.later(this.#step(), (rowCount) => {
          if (rowCount !== 1) throw replaced(this.#fenced, place);
        });
      } else {
        // No row may mean that the previous attempt was committed: find out before sending anything.
        const { rowCount } = await session.query(this.#step());
        if (rowCount !== 1 && (await this.#isCommitted(session, isGone))) return attempted.result;
        if (rowCount !== 1) throw replaced(this.#fenced, place);
      }
      attempted = { result: await work(session) };
      return attempted.result;
    });
    this.#commits += 1;
    return result;
  }

  #step(): Step {
    const { table, where, values } = rowOf(this.#fenced);
    return {
      name: `fence_${table}`,
      text: `UPDATE ${table} SET commits = commits + 1 WHERE ${where} AND epoch = $2 AND commits = $3`,
      values: [...values, this.epoch, this.#commits],
    };
  }

  /** True when the attempt with an unknown outcome was committed. */
  async #isCommitted(session: Session, isGone: (session: Session) => Promise<boolean>): Promise<boolean> {
    const { table, where, values } = rowOf(this.#fenced);
    const { rows } = await session.query<Counts>({
      text: `SELECT epoch, commits FROM ${table} WHERE ${where}`,
      values,
    });
    const [counts] = rows;
    if (counts === undefined) return isGone(session);
    return counts.epoch === this.epoch && counts.commits === this.#commits + 1;
  }
}

/** The table, a condition on `$1`, and its value. */
function rowOf(fenced: Fenced) {
  if (fenced === undefined) return { table: 'flow_store.store', where: 'one = $1', values: [1] };
  return { table: 'flow_store.open_range', where: 'from_height = $1', values: [fenced] };
}

function replaced(fenced: Fenced, place: string): StorageError {
  if (fenced !== undefined) return new RangeLostError(place);
  return new StorageError(
    'locked',
    `Another process writes this part of the store at ${place} now: this one has been replaced and has written nothing since.`,
  );
}
