import type { QueryResult, QueryResultRow } from 'pg';
import { AbortError, childOf, doublingMs, every, OperatorError, places } from '../../../runtime/index.js';
import { sleep, type Clock, type Pause } from '../../../runtime/index.js';
import type { Logger } from '../../../observability/index.js';
import { DatabaseFault, StorageError } from '../../StorageError.js';
import { connections, type Connections } from './connections.js';
import { applicationName, type DatabasePlace } from './databasePlace.js';
import { faultOf, saidByServer } from './faultOf.js';
import type { Rows, Session, Statement, Step, WriteSession } from './Session.js';

/** A read that takes longer fails. */
const READ_TIMEOUT_MS = 15_000;
/** How long a read waits for a lock: long enough to find out what holds it. */
const READ_LOCK_MS = 4_000;
/** How long a write waits for the locks of another transaction, which may be a lost one of ours. */
const LOCK_TIMEOUT_MS = 15_000;
/** Writes of history at once: however long they wait for locks, some connections are left. */
const MAX_ASIDE = 5;
/** The server ends a transaction whose client is silent for this time. */
const IDLE_TRANSACTION_MS = 20_000;
const RETRY = { minMs: 100, maxMs: 5_000 };
/** Even callers that do not wait retry for this time: a server that has ended its sessions accepts new ones at once. */
export const MOMENT_MS = 1_000;
/** The codes with which a server ends a session: idle, or terminated. */
const ENDED = /^(?:25P0[34]|57P0[125])$/;

const BEGIN: Step = { name: 'begin', text: 'BEGIN' };
const SNAPSHOT: Step = { name: 'snapshot', text: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' };

const END_WAITING = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = session_user AND application_name = ANY ($1)
    AND state <> 'idle' AND wait_event_type = 'Client'`;

export interface PostgresDatabaseDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Options of the first use of a database. */
export interface Beginning {
  /** How long to wait for a database that refuses or does not answer. Default: a moment. */
  readonly waitMs?: number | undefined;
  /** Aborted: no caller waits for it any longer. */
  readonly signal?: AbortSignal | undefined;
}

/** The connections to a database. `persist` and `watch` wait for as long as the database refuses, or does not answer. */
export class PostgresDatabase implements Session {
  readonly place: string;
  /** Reads that are repeated like `persist`. */
  readonly patient: Session = { query: (statement) => this.persist(() => this.query(statement)) };
  readonly #reads: Connections;
  readonly #writes: Connections;
  readonly #patienceMs: number;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  /** The callers that are retrying: the success of one, such as a read, does not mean that the others can succeed. */
  readonly #waiting = new Set<symbol>();
  #trouble: StorageError | undefined;
  readonly #aside = places(MAX_ASIDE);
  /** Waiting callers end without an answer: that says nothing about the database. */
  #isEnding = false;

  /**
   * `patienceMs`: how long an action is repeated; default: for as long as it takes. `lockMs`: how long a write waits for a lock,
   * 0: for as long as it takes; default: LOCK_TIMEOUT_MS.
   */
  constructor(
    { config, shown }: DatabasePlace,
    { clock, logger }: PostgresDatabaseDependencies,
    how: { readonly patienceMs?: number | undefined; readonly lockMs?: number } = {},
  ) {
    this.place = shown;
    const { patienceMs = Infinity, lockMs = LOCK_TIMEOUT_MS } = how;
    this.#patienceMs = patienceMs;
    this.#clock = clock;
    this.#logger = logger;
    const onSilent = (): void => [this.#reads, this.#writes].forEach((each) => each.renew());
    const pool = (doing: string, statementMs: number, waitMs: number): Connections =>
      connections({
        config,
        doing,
        onSilent,
        place: shown,
        settings: {
          statement_timeout: String(statementMs),
          lock_timeout: String(waitMs),
          idle_in_transaction_session_timeout: String(IDLE_TRANSACTION_MS),
        },
      });
    this.#reads = pool('read the store', READ_TIMEOUT_MS, READ_LOCK_MS);
    this.#writes = pool('write to the store', 0, lockMs);
  }

  /** Why the database does not serve requests; `undefined`: it does, as far as is known. */
  trouble(): string | undefined {
    return (this.#trouble ?? this.#late())?.message;
  }

  /** A read, on a separate connection. Expected errors: `StorageError`. */
  query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> {
    return this.#reads.use((link) => link.query<Row>(statement));
  }

  /** Several reads of one snapshot. Expected errors: `StorageError`; those of `action`. */
  snapshot<T>(action: (session: Session) => Promise<T>): Promise<T> {
    return inTransaction(this.#reads, SNAPSHOT, action);
  }

  /** Atomic, and durable on return. Expected errors: `StorageError`; those of `action`. */
  transaction<T>(action: (session: WriteSession) => Promise<T>): Promise<T> {
    return inTransaction(this.#writes, BEGIN, action);
  }

  /** Like `transaction`, repeated like `persist`: `action` may run more than once. */
  write<T>(action: (session: WriteSession) => Promise<T>): Promise<T> {
    return this.persist(() => this.transaction(action));
  }

  /** Like `write`, in as many transactions at once as leave connections for other writes. */
  writeAside<T>(action: (session: WriteSession) => Promise<T>): Promise<T> {
    return this.persist(() => this.#aside(() => this.transaction(action), this.#closing.signal));
  }

  /** Runs statements for other packages. Expected errors: `StorageError`. */
  executeSql(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#writes.use((link) => link.run(text, values));
  }

  /** The server's error within that of another package; `undefined` if the server reported none. */
  saidIn(error: unknown): StorageError | undefined {
    return saidByServer(error, 'use the queue', this.place, this);
  }

  /**
   * Makes sure that two connections keep their sessions: prepared statements and settings live there. A pooler that gives a
   * session to the next request of any client has mixed them up by the end. Expected errors: `StorageError`; OperatorError
   * `configuration`.
   */
  async requireSessions(): Promise<void> {
    const hasMixedUp = await this.#reads.use((one) =>
      this.#reads.use(async (other) => {
        for (const link of [one, one, other, other, one, other, one, one, other, one, other, other])
          if (!(await link.hasItsSession())) return true;
        return false;
      }),
    );
    if (!hasMixedUp) return;
    throw new OperatorError(
      'configuration',
      `There is a pooler before the database at ${this.place} that shares out sessions by transaction or statement, and this ` +
        'program needs sessions of its own. Set pool_mode = session there (PgBouncer; others have the same), or name the server itself: docs/poolers.md.',
    );
  }

  /**
   * Repeats an action for as long as the database refuses it or does not answer: until `untilMs` of the clock, by default
   * for the patience of this database. Rejects when the database is closed. Expected errors: `StorageError`; those of
   * `action`.
   */
  async persist<T>(action: () => Promise<T>, untilMs?: number): Promise<T> {
    const caller = Symbol('persist');
    const lastMs = untilMs ?? this.#clock.monotonic() + this.#patienceMs;
    /** The database at fault, if not this one: the queue's, whose statements are part of a transaction of this one. */
    let owner: PostgresDatabase | undefined;
    try {
      for (let attempt = 0; ; attempt += 1) {
        const delayMs = doublingMs(RETRY, attempt);
        try {
          const result = await this.#unlessHeldUp(action(), lastMs, caller);
          (owner ?? this).#recovered(caller);
          return result;
        } catch (error) {
          // The server ends the session of a process that was suspended: a new session will do, however late it is.
          const isEnded = attempt === 0 && error instanceof DatabaseFault && ENDED.test(error.code ?? '');
          const isOver = !isEnded && this.#clock.monotonic() + delayMs > lastMs;
          if (!(error instanceof DatabaseFault) || isOver || this.#closing.signal.aborted) throw error;
          const has = error.owner instanceof PostgresDatabase ? error.owner : undefined;
          if (has !== owner) (owner ?? this).#waiting.delete(caller);
          owner = has;
          (owner ?? this).#notice(error, caller);
          await sleep(this.#clock, delayMs, this.#closing.signal).catch(() => {
            throw error;
          });
        }
      }
    } finally {
      (owner ?? this).#waiting.delete(caller);
    }
  }

  /**
   * The first use: repeats it as `persist` does, for `waitMs`. Closes the database where it fails, and at
   * once when `signal` aborts; when that aborts later, no caller waits for the database for longer than a moment. Expected
   * errors: those of `persist`; the reason of `signal`.
   */
  async begin<T>(action: () => Promise<T>, { waitMs = MOMENT_MS, signal }: Beginning): Promise<T> {
    let isBegun = false;
    const end = async (): Promise<void> => {
      this.#isEnding = true;
      if (!isBegun) return this.close();
      await sleep(this.#clock, MOMENT_MS, this.#closing.signal).catch(() => undefined);
      this.giveUp();
    };
    signal?.addEventListener('abort', () => void end(), { once: true, signal: this.#closing.signal });
    try {
      signal?.throwIfAborted();
      const result = await this.persist(action, this.#clock.monotonic() + waitMs);
      isBegun = true;
      return result;
    } catch (error) {
      await this.close();
      signal?.throwIfAborted();
      throw error;
    }
  }

  /**
   * Asks, `everyMs` after each answer or fault, or once the `pause` ends, if it `isDue` then, until an answer is not `undefined`:
   * resolves with it, or with `undefined` once the signal aborts or the database is closed. Expected errors: those of `ask`
   * other than `StorageError`.
   */
  async watch<T>(
    ask: () => Promise<T | undefined>,
    everyMs: number,
    signal: AbortSignal = this.#closing.signal,
    {
      isDue = () => true,
      pause = (...how) => sleep(this.#clock, ...how),
    }: { readonly isDue?: () => boolean; readonly pause?: Pause['sleep'] } = {},
  ): Promise<T | undefined> {
    const caller = Symbol('watch');
    const over = childOf(signal, this.#closing.signal);
    const isOver = (): boolean => over.signal.aborted;
    try {
      for (;;) {
        if (isOver()) return undefined;
        try {
          const isAsked = isDue();
          const answer = isAsked ? await ask() : undefined;
          if (isAsked) this.#recovered(caller);
          if (answer !== undefined) return answer;
        } catch (error) {
          if (!(error instanceof StorageError)) throw error;
          const isNamed = error instanceof DatabaseFault || error.kind === 'corrupt';
          if (isNamed && !isOver()) this.#notice(error, caller);
        }
        await pause(everyMs, over.signal).catch(() => undefined);
      }
    } finally {
      over.abort();
      this.#waiting.delete(caller);
    }
  }

  /**
   * Ends the sessions in which the server waits for processes that are stopped: else they would keep their locks for as long, or
   * until the server ends them. Expected errors: `StorageError`.
   */
  async endWaitingFor(processes: readonly { readonly host: string; readonly pid: number }[]): Promise<void> {
    const names = processes.map(({ host, pid }) => applicationName(host, pid));
    await this.query({ text: END_WAITING, values: [names] });
  }

  /** Stops waiting for the database: attempts under way are the last ones. */
  giveUp(): void {
    this.#isEnding = true;
    this.#closing.abort(new AbortError('the store is closed'));
  }

  /** Closes the connections. Also resolves when the database does not answer. */
  async close(): Promise<void> {
    this.giveUp();
    await Promise.all([this.#reads.end(), this.#writes.end()]);
  }

  /** Names what a statement waits for, such as a standby, and gives up where that is not over in time. */
  #unlessHeldUp<T>(work: Promise<T>, lastMs: number, caller: symbol): Promise<T> {
    if (lastMs === Infinity) return work;
    return new Promise((resolve, reject) => {
      const looking = every(this.#clock, MOMENT_MS, () => {
        const late = this.#late();
        if (late === undefined || !/it waits for/.test(late.message)) return;
        this.#notice(late, caller);
        if (this.#clock.monotonic() <= lastMs) return;
        looking.cancel();
        reject(late);
      });
      void work.then(resolve, reject).finally(() => looking.cancel());
    });
  }

  #late(): DatabaseFault | undefined {
    const words = this.#reads.silence() ?? this.#writes.silence();
    const fault = words && faultOf(new Error(words), 'reach the store', this.place);
    return fault instanceof DatabaseFault ? fault : undefined;
  }

  #notice(error: StorageError, caller: symbol): void {
    if (this.#trouble === undefined)
      this.#logger.warn({ kind: error.kind, error }, 'the database does not do what is asked');
    this.#trouble = error;
    this.#waiting.add(caller);
  }

  #recovered(caller: symbol): void {
    this.#waiting.delete(caller);
    if (this.#waiting.size > 0 || this.#isEnding) return;
    if (this.#trouble !== undefined) this.#logger.info({}, 'the database answers again');
    this.#trouble = undefined;
  }
}

function inTransaction<T>(
  pool: Connections,
  begin: Step,
  action: (session: WriteSession) => Promise<T>,
): Promise<T> {
  return pool.use(async (link) => {
    link.later(begin);
    const result = await action(link);
    await link.commit();
    return result;
  });
}
