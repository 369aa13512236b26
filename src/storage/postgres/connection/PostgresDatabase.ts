import type { Pool, PoolClient, QueryResult, QueryResultRow } from 'pg';
import { AbortError, sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { Logger } from '../../../observability/index.js';
import { StorageError } from '../../StorageError.js';
import type { DatabasePlace } from './databasePlace.js';
import { faultOf, isPassing } from './faultOf.js';
import { endPool, quietPool } from './quietPool.js';
import { runStatement } from './runStatement.js';
import type { Rows, Session, Statement, Step, WriteSession } from './Session.js';
import { Transaction } from './Transaction.js';

/** Connections for reads, and for ranges that are written beside the live one. */
const MAX_CONNECTIONS = 8;
/** A read that takes longer fails. */
const READ_TIMEOUT_MS = 15_000;
/** A write that takes longer is repeated, which finds out whether the first attempt was committed. */
const WRITE_TIMEOUT_MS = 60_000;
/** How long a write waits for the locks of another transaction, which may be a lost one of ours. */
const LOCK_TIMEOUT_MS = 15_000;
/** The server ends a transaction whose client is silent for so long. */
const IDLE_TRANSACTION_MS = 20_000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;

const BEGIN: Step = { name: 'begin', text: 'BEGIN' };
const BEGIN_SNAPSHOT: Step = {
  name: 'begin_snapshot',
  text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
};

export interface PostgresDatabaseDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The connections to a database. Errors become `StorageError`; `persist` waits out those that pass by themselves. A
 * connection that breaks while it is idle is not an error: the next use notices.
 */
export class PostgresDatabase implements Session {
  readonly place: string;
  readonly #reads: Pool;
  readonly #writes: Pool;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  /** The callers that are retrying: the success of one, such as a read, does not mean that the others can succeed. */
  readonly #waiting = new Set<symbol>();
  #trouble: StorageError | undefined;

  constructor({ config, shown }: DatabasePlace, { clock, logger }: PostgresDatabaseDependencies) {
    this.place = shown;
    this.#clock = clock;
    this.#logger = logger;
    // A user's or database's own setting must not make commits less than durable.
    const always = '-c synchronous_commit=on -c timezone=UTC -c search_path=';
    this.#reads = quietPool({
      ...config,
      max: MAX_CONNECTIONS,
      query_timeout: READ_TIMEOUT_MS,
      statement_timeout: READ_TIMEOUT_MS,
      options: always,
    });
    this.#writes = quietPool({
      ...config,
      max: MAX_CONNECTIONS,
      query_timeout: WRITE_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
      idle_in_transaction_session_timeout: IDLE_TRANSACTION_MS,
      options: always,
    });
  }

  /** Why the database does not answer now; `undefined`: it does, as far as is known. */
  trouble(): StorageError | undefined {
    return this.#trouble;
  }

  /** A read, on a connection of its own. Expected errors: `StorageError`. */
  async query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> {
    try {
      return await runStatement<Row>(this.#reads, statement);
    } catch (error) {
      throw this.#fault(error, 'read the store');
    }
  }

  /** Several reads of one snapshot. Expected errors: `StorageError`; those of `action`. */
  snapshot<T>(action: (session: Session) => Promise<T>): Promise<T> {
    return this.#inTransaction(this.#reads, BEGIN_SNAPSHOT, action);
  }

  /** Atomic, and durable on return. Expected errors: `StorageError`; those of `action`. */
  transaction<T>(action: (session: WriteSession) => Promise<T>): Promise<T> {
    return this.#inTransaction(this.#writes, BEGIN, action);
  }

  async #inTransaction<T>(
    pool: Pool,
    begin: Step,
    action: (session: WriteSession) => Promise<T>,
  ): Promise<T> {
    let client: PoolClient | undefined;
    let failure: Error | undefined;
    try {
      client = await pool.connect();
      const transaction = new Transaction(client, begin);
      const result = await action(transaction);
      await transaction.commit();
      return result;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      throw this.#fault(error, pool === this.#writes ? 'write to the store' : 'read the store');
    } finally {
      // With a failure the connection is closed, which rolls back what is not committed.
      client?.release(failure);
    }
  }

  /** Runs statements for other packages. Errors are the server's own. */
  async executeSql(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#writes.query(text, values);
  }

  /** Turns errors of the server into `StorageError`; `doing` completes "Cannot …". Other errors are those of `action`. */
  async explained<T>(doing: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw this.#fault(error, doing);
    }
  }

  /**
   * Repeats an action that fails because the database is unreachable, without limit or until `untilMs` (of the clock).
   * Rejects when the database is closed. Expected errors: `StorageError`; those of `action`.
   */
  async persist<T>(action: () => Promise<T>, untilMs = Infinity): Promise<T> {
    const caller = Symbol('persist');
    let delayMs = RETRY_MIN_MS;
    try {
      for (;;) {
        try {
          const result = await action();
          this.#recovered(caller);
          return result;
        } catch (error) {
          if (!isPassing(error) || this.#clock.monotonic() + delayMs > untilMs) throw error;
          this.#notice(error, caller);
          await this.#pause(delayMs, error);
          delayMs = Math.min(2 * delayMs, RETRY_MAX_MS);
        }
      }
    } finally {
      this.#waiting.delete(caller);
    }
  }

  /** Repeats `ask`, `everyMs` after each answer or fault, until the database is closed. Expected errors: others of `ask`. */
  async watch(ask: () => Promise<void>, everyMs: number): Promise<void> {
    const { signal } = this.#closing;
    const caller = Symbol('watch');
    while (!this.#isClosing()) {
      try {
        await ask();
        this.#recovered(caller);
      } catch (error) {
        const fault = this.#fault(error, 'reach the store');
        if (!(fault instanceof StorageError)) throw fault;
        if (!this.#isClosing()) this.#notice(fault, caller);
      }
      await sleep(this.#clock, everyMs, signal).catch(() => undefined);
    }
  }

  /** Stops waiting for an unreachable database: attempts under way are the last ones. */
  giveUp(): void {
    this.#closing.abort(new AbortError('the store is closed'));
  }

  /** Closes the connections. Also resolves when the database does not answer. */
  async close(): Promise<void> {
    this.giveUp();
    await Promise.all([endPool(this.#reads), endPool(this.#writes)]);
  }

  #fault(error: unknown, doing: string): unknown {
    return faultOf(error, doing, this.place);
  }

  #notice(error: StorageError, caller: symbol): void {
    if (this.#trouble === undefined)
      this.#logger.warn({ kind: error.kind, error }, 'the database does not answer');
    this.#trouble = error;
    this.#waiting.add(caller);
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  #recovered(caller: symbol): void {
    this.#waiting.delete(caller);
    if (this.#waiting.size > 0) return;
    if (this.#trouble !== undefined) this.#logger.info({}, 'the database answers again');
    this.#trouble = undefined;
  }

  async #pause(delayMs: number, error: StorageError): Promise<void> {
    try {
      await sleep(this.#clock, delayMs, this.#closing.signal);
    } catch {
      throw error;
    }
  }
}
