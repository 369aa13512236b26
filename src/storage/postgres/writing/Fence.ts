import { RangeLostError, StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, Step, WriteSession } from '../connection/Session.js';

/** A row that counts its writers (`epoch`) and their writes (`commits`): that of the store, or of an open range. */
export interface FenceRow {
  readonly table: 'store' | 'open_range';
  /** Which row, in a table of several. */
  readonly fromHeight?: number;
}

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
  readonly #row: FenceRow;
  /** The number of this writer: only the one with the highest number may write. */
  readonly epoch: number;
  /** How many writes the row has seen. */
  #commits: number;

  private constructor(database: PostgresDatabase, row: FenceRow, counts: Counts) {
    this.#database = database;
    this.#row = row;
    this.epoch = counts.epoch;
    this.#commits = counts.commits;
  }

  /** Replaces the previous writer. Expected errors: `StorageError`. */
  static async take(database: PostgresDatabase, session: Session, row: FenceRow): Promise<Fence> {
    const { table, where, values } = placeOf(row);
    const { rows } = await session.query<Counts>({
      text: `UPDATE ${table} SET epoch = epoch + 1 WHERE ${where} RETURNING epoch, commits`,
      values,
    });
    const [counts] = rows;
    if (counts === undefined) throw replaced(row, database.place);
    return new Fence(database, row, counts);
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
    const result = await this.#database.persist(() =>
      this.#database.transaction(async (session) => {
        if (attempted === undefined) {
          session.later(this.#step(), (rowCount) => {
            if (rowCount !== 1) throw replaced(this.#row, place);
          });
        } else {
          // No row may mean that the previous attempt was committed: find out before sending anything.
          const { rowCount } = await session.query(this.#step());
          if (rowCount !== 1 && (await this.#isCommitted(session, isGone))) return attempted.result;
          if (rowCount !== 1) throw replaced(this.#row, place);
        }
        attempted = { result: await work(session) };
        return attempted.result;
      }),
    );
    this.#commits += 1;
    return result;
  }

  #step(): Step {
    const { table, where, values } = placeOf(this.#row);
    return {
      name: `fence_${table}`,
      text: `UPDATE ${table} SET commits = commits + 1 WHERE ${where} AND epoch = $2 AND commits = $3`,
      values: [...values, this.epoch, this.#commits],
    };
  }

  /** True when the attempt with an unknown outcome was committed. */
  async #isCommitted(session: Session, isGone: (session: Session) => Promise<boolean>): Promise<boolean> {
    const { table, where, values } = placeOf(this.#row);
    const { rows } = await session.query<Counts>({
      text: `SELECT epoch, commits FROM ${table} WHERE ${where}`,
      values,
    });
    const [counts] = rows;
    if (counts === undefined) return isGone(session);
    return counts.epoch === this.epoch && counts.commits === this.#commits + 1;
  }
}

/** A condition on `$1`, and its value. */
function placeOf({ table, fromHeight = 1 }: FenceRow) {
  const column = table === 'store' ? 'one' : 'from_height';
  return { table: `flow_store.${table}`, where: `${column} = $1`, values: [fromHeight] };
}

function replaced({ table }: FenceRow, place: string): StorageError {
  if (table === 'open_range') return new RangeLostError(place);
  return new StorageError(
    'locked',
    `Another process writes this part of the store at ${place} now: this one has been replaced and has written nothing since.`,
  );
}
