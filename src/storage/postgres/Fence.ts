import { StorageError } from '../StorageError.js';
import type { PostgresDatabase, Session } from './PostgresDatabase.js';

/** A row that counts its writers (`epoch`) and their writes (`commits`). */
export interface FenceRow {
  readonly table: 'store' | 'open_range';
  /** Which one, in a table of several. */
  readonly fromHeight?: number;
}

interface Counts {
  readonly epoch: string;
  readonly commits: string;
}

/**
 * The right to write: every write moves its row on, in the same transaction. So a writer that was replaced can write
 * nothing, and one whose connection broke during a commit finds out whether that write counts.
 */
export class Fence {
  readonly #database: PostgresDatabase;
  readonly #where: string;
  readonly #table: string;
  readonly #epoch: number;
  #commits: number;

  private constructor(database: PostgresDatabase, row: FenceRow, counts: Counts) {
    this.#database = database;
    ({ table: this.#table, where: this.#where } = placeOf(row));
    this.#epoch = Number(counts.epoch);
    this.#commits = Number(counts.commits);
  }

  /** Replaces the writer before. Expected errors: `StorageError`. */
  static async take(database: PostgresDatabase, session: Session, row: FenceRow): Promise<Fence> {
    const { table, where } = placeOf(row);
    const { rows } = await session.query<Counts>({
      text: `UPDATE ${table} SET epoch = epoch + 1 ${where} RETURNING epoch, commits`,
    });
    const [counts] = rows;
    if (counts === undefined) throw replaced(database.place);
    return new Fence(database, row, counts);
  }

  /**
   * One write: all of `work` or nothing, durable on return. Tried again while the database is away, so `work` may run more
   * than once; it counts once. `isGone`: its last act removes the row; true when it has. Expected errors: `StorageError`
   * (`locked`: there is another writer); those of `work`.
   */
  async write<T>(
    work: (session: Session) => Promise<T>,
    isGone: (session: Session) => Promise<boolean> = () => Promise.resolve(false),
  ): Promise<T> {
    let attempted: { readonly result: T } | undefined;
    const result = await this.#database.persist(() =>
      this.#database.transaction(async (session) => {
        const { rowCount } = await session.query({
          name: `fence_${this.#table}`,
          text: `UPDATE ${this.#table} SET commits = commits + 1 ${this.#where} ${this.#where === '' ? 'WHERE' : 'AND'}
            epoch = $1 AND commits = $2`,
          values: [this.#epoch, this.#commits],
        });
        if (rowCount === 1) {
          attempted = { result: await work(session) };
          return attempted.result;
        }
        if (attempted !== undefined && (await this.#counts(session, isGone))) return attempted.result;
        throw replaced(this.#database.place);
      }),
    );
    this.#commits += 1;
    return result;
  }

  /** True when the write whose end is not known counts. */
  async #counts(session: Session, isGone: (session: Session) => Promise<boolean>): Promise<boolean> {
    const { rows } = await session.query<Counts>({
      text: `SELECT epoch, commits FROM ${this.#table} ${this.#where}`,
    });
    const [counts] = rows;
    if (counts === undefined) return isGone(session);
    return Number(counts.epoch) === this.#epoch && Number(counts.commits) === this.#commits + 1;
  }
}

function placeOf({ table, fromHeight }: FenceRow): { readonly table: string; readonly where: string } {
  const where = fromHeight === undefined ? '' : `WHERE from_height = ${fromHeight}`;
  return { table: `flow_store.${table}`, where };
}

function replaced(place: string): StorageError {
  return new StorageError(
    'locked',
    `Another daemon writes to the store at ${place} now: this one has been replaced and has written nothing since. ` +
      'Let one daemon alone index into it.',
  );
}
