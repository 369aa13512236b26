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
/** A write that takes longer is begun anew: that finds out whether the first one counts. */
const WRITE_TIMEOUT_MS = 60_000;
/** So long another's transaction, which may be a lost one of ours, may keep a write waiting. */
const LOCK_TIMEOUT_MS = 15_000;
/** A transaction whose client went silent is ended by the server. */
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
 * The connections to a database. Errors become `StorageError`; what goes over by itself is waited for by `persist`.
 * No connection that breaks while nobody uses it is an error: the next use finds out.
 */
export class PostgresDatabase implements Session {
  readonly place: string;
  readonly #reads: Pool;
  readonly #writes: Pool;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  /** Those that try again: what some can do, such as reading, does not tell that the others can. */
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

  /** What keeps the database from answering now, as far as it is known. */
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

  /** Several reads of one moment. Expected errors: `StorageError`; those of `action`. */
  snapshot<T>(action: (session: Session) => Promise<T>): Promise<T> {
    return this.#inTransaction(this.#reads, BEGIN_SNAPSHOT, action);
  }

  /** All of it or nothing, durable on return. Expected errors: `StorageError`; those of `action`. */
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
      // Whatever state it is in: closing it undoes what is not committed.
      client?.release(failure);
    }
  }

  /** One statement, or several, as other packages want them run: errors are the server's own. */
  async executeSql(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#writes.query(text, values);
  }

  /** Expected errors: `StorageError` in place of what the server says; those of `action`. `doing` completes "Cannot …". */
  async explained<T>(doing: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw this.#fault(error, doing);
    }
  }

  /**
   * Tries again what failed because the database was away, as long as it takes, or up to `untilMs` (of the clock). Rejects
   * when it is closed. Expected errors: `StorageError`; those of `action`.
   */
  async persist<T>(action: () => Promise<T>, untilMs = Infinity): Promise<T> {
    const who = Symbol('persist');
    let delayMs = RETRY_MIN_MS;
    try {
      for (;;) {
        try {
          const result = await action();
          this.#settle(who);
          return result;
        } catch (error) {
          if (!isPassing(error) || this.#clock.monotonic() + delayMs > untilMs) throw error;
          this.#notice(error, who);
          await this.#pause(delayMs, error);
          delayMs = Math.min(2 * delayMs, RETRY_MAX_MS);
        }
      }
    } finally {
      this.#waiting.delete(who);
    }
  }

  /** Asks again and again, `everyMs` after each answer, until it is closed. Expected errors: those of `ask` that are no faults. */
  async watch(ask: () => Promise<void>, everyMs: number): Promise<void> {
    const { signal } = this.#closing;
    const who = Symbol('watch');
    while (!this.#isClosing()) {
      try {
        await ask();
        this.#settle(who);
      } catch (error) {
        const fault = this.#fault(error, 'reach the store');
        if (!(fault instanceof StorageError)) throw fault;
        if (!this.#isClosing()) this.#notice(fault, who);
      }
      await sleep(this.#clock, everyMs, signal).catch(() => undefined);
    }
  }

  /** Waits no longer for a database that is away: what is tried now is tried for the last time. */
  giveUp(): void {
    this.#closing.abort(new AbortError('the store is closed'));
  }

  /** Ends the connections. Resolves also when the database does not answer. */
  async close(): Promise<void> {
    this.giveUp();
    await Promise.all([endPool(this.#reads), endPool(this.#writes)]);
  }

  #fault(error: unknown, doing: string): unknown {
    return faultOf(error, doing, this.place);
  }

  #notice(error: StorageError, who: symbol): void {
    if (this.#trouble === undefined)
      this.#logger.warn({ kind: error.kind, error }, 'the database does not answer');
    this.#trouble = error;
    this.#waiting.add(who);
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  #settle(who: symbol): void {
    this.#waiting.delete(who);
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
