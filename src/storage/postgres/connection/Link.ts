import pg from 'pg';
import { randomUUID } from 'node:crypto';
import type { Connection, QueryResult, QueryResultRow } from 'pg';
import { fieldsOf } from '../../../runtime/index.js';
import type { ConnectionsOptions } from './connections.js';
import { faultOf } from './faultOf.js';
import type { QuietClient } from './QuietClient.js';
import type { Rows, Statement, Step, WriteSession } from './Session.js';
import { Silence } from './Silence.js';

/**
 * What a statement means, and how its answer is written, depends on settings that a role, a database or a server may have
 * changed. Every connection sets those that our statements and those of pg-boss depend on.
 */
const NEEDED: Readonly<Record<string, string>> = {
  // How a statement is read.
  standard_conforming_strings: 'on',
  backslash_quote: 'safe_encoding',
  transform_null_equals: 'off',
  array_nulls: 'on',
  client_encoding: 'UTF8',
  quote_all_identifiers: 'off',
  check_function_bodies: 'on',
  'plpgsql.extra_errors': 'none',
  'plpgsql.extra_warnings': 'none',
  // How values are written.
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '1',
  // How it is run: to compile a plan takes longer than any of our lookups, and without statistics they seem to be long.
  jit: 'off',
  // What a transaction promises.
  synchronous_commit: 'on',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  // Rows that a policy hides are an error, not a hole in the index.
  row_security: 'off',
  // What ends a session.
  idle_session_timeout: '0',
  transaction_timeout: '0',
  // The server notices a machine that is gone, and its locks go with it.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
  client_min_messages: 'warning',
};

/** The name of our own setting, which distinguishes sessions. */
const MARK = 'flow_collection_indexer.session';

/**
 * Sets up a new session, and returns the number of its server process. The first two statements let the third one run, and make
 * its names those of the server. Overrides a read-only default of the role, but not one of the database or the server, whose
 * host means it: the disk may be full.
 */
function setUp(own: Readonly<Record<string, string>>, mark: string): string {
  const values = Object.entries({ ...NEEDED, default_transaction_read_only: 'off', ...own });
  return `SET statement_timeout TO 0;
    SET search_path TO '';
    SELECT pg_backend_pid() AS pid, set_config('${MARK}', '${mark}', false), (
      SELECT count(set_config(name, value, false))
      FROM (VALUES ${values.map(([name, value]) => `('${name}', '${value}')`).join()}) AS needed (name, value)
      WHERE current_setting(name, true) IS NOT NULL
        AND (name <> 'default_transaction_read_only' OR EXISTS (
          SELECT FROM pg_settings WHERE name = 'default_transaction_read_only' AND source IN ('user', 'database user'))))`;
}

/** Whether a session is still the one that was set up. */
const WHOSE = `SELECT pg_backend_pid() AS pid, current_setting('${MARK}', true) AS mark`;

/** A connection in use. Errors: see `connections`. */
export class Link implements WriteSession {
  readonly #client: QuietClient;
  readonly #options: ConnectionsOptions;
  readonly #mark = randomUUID();
  #pid: number | undefined;
  #silence: Silence | undefined;
  #waiting: Step[] = [];

  constructor(client: QuietClient, options: ConnectionsOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** Why an answer is late; see `Silence`. */
  get silence(): string | undefined {
    return this.#silence?.words;
  }

  /** Sets up its session for our statements, once. */
  async begin(): Promise<void> {
    if (this.#pid !== undefined) return;
    const text = setUp(this.#options.settings, this.#mark);
    const result: unknown = await this.#asked('a new connection', () => this.#client.query(text));
    this.#pid = (result as QueryResult<{ pid: number }>[])[2]?.rows[0]?.pid;
  }

  /** False: a pooler has given the session to another of its clients. */
  async hasItsSession(): Promise<boolean> {
    const { rows } = await this.query<{ pid: number; mark: string | null }>({ text: WHOSE });
    return rows[0]?.pid === this.#pid && rows[0]?.mark === this.#mark;
  }

  later(step: Step): void {
    this.#waiting.push(step);
  }

  async query<Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> {
    await this.#send();
    const { name, text, values = [] } = statement;
    const asked = { ...(name === undefined ? {} : { name }), text, values: [...values] };
    const { rows, rowCount } = await this.#asked(text, () => this.#client.query<Row>(asked));
    await this.#checkKept(statement, rowCount ?? 0);
    return { rows, rowCount: rowCount ?? 0 };
  }

  /** Several statements in one text are sent as they are. */
  run(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#asked(text, () => this.#client.query({ text, ...(values && { values }) }));
  }

  async commit(): Promise<void> {
    await this.#send();
    await this.#asked('COMMIT', async () => {
      const { command } = await this.#client.query('COMMIT');
      // It answers ROLLBACK if a statement of the transaction has failed.
      if (command !== 'COMMIT') throw new Error(`it has answered ${command} to COMMIT`);
    });
  }

  async #send(): Promise<void> {
    const steps = this.#waiting;
    if (steps.length === 0) return;
    this.#waiting = [];
    const rowCounts: number[] = [];
    const sent = () => sendTogether(this.#client, steps, rowCounts);
    const outcome = this.#asked(`a batch of ${steps.length} statements`, sent);
    await outcome.catch(() => undefined);
    for (const [index, step] of steps.slice(0, rowCounts.length).entries())
      await this.#checkKept(step, rowCounts[index] ?? 0);
    await outcome;
    if (rowCounts.length < steps.length)
      throw this.#fault(new Error(`it has answered ${rowCounts.length} of ${steps.length} statements`));
  }

  async #checkKept({ otherwise, text, writes }: Statement, rowCount: number): Promise<void> {
    if (writes === undefined || rowCount === writes) return;
    const table = /flow_store\.\w+/.exec(text)?.[0];
    const dropped = new Error(`${table} has kept ${rowCount} of ${writes} rows`);
    throw (await otherwise?.()) ?? this.#fault(dropped);
  }

  async #asked<T>(text: string, ask: () => Promise<T>): Promise<T> {
    const { config, onSilent } = this.#options;
    const client = this.#client;
    const silence = new Silence(text, { client, config, pid: this.#pid }, onSilent);
    this.#silence = silence;
    try {
      const answer = await ask();
      // An answer that ends without a command tag is none.
      if (fieldsOf(answer)['command'] === null) throw new Error('it has ended its answer without one');
      return answer;
    } catch (error) {
      const isSaid = error instanceof pg.DatabaseError;
      // After a wait that took too long, the server does not say what it waited for.
      if (isSaid && /^(?:55P03|57014)/.test(error.code ?? '')) error.message += silence.awaited;
      throw this.#fault(silence.end() ?? (isSaid ? error : (client.lastFault ?? error)));
    } finally {
      silence.end();
      this.#silence = undefined;
    }
  }

  #fault(error: unknown): unknown {
    return faultOf(error, this.#options.doing, this.#options.place);
  }
}

/** The statements that `pg` has prepared on a connection, these included. */
interface Prepared {
  readonly parsedStatements: Record<string, string>;
}

/**
 * Sends steps as one statement to `pg`; rows of a COPY without copying them. Notes the row counts of those that succeed. Rejects
 * with the error of the first that fails: with a single sync the server skips all later ones.
 */
function sendTogether(client: QuietClient, steps: readonly Step[], rowCounts: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query({
      submit: (connection: Connection): void => {
        const { stream } = connection;
        stream.cork();
        for (const step of steps) send(connection as Connection & Prepared, step);
        connection.sync();
        stream.uncork();
      },
      handleCopyInResponse: (): void => {
        // The rows have been sent already.
      },
      handleCommandComplete: ({ text }: { readonly text: string }): void => {
        rowCounts.push(Number(/\d+$/.exec(text)?.[0] ?? 0));
      },
      handleReadyForQuery: () => resolve(),
      handleError: reject,
    });
  });
}

function send(connection: Connection & Prepared, { name, text, values = [], copied }: Step): void {
  if (connection.parsedStatements[name] === undefined) {
    connection.parse({ name, text, types: [] }, true);
    connection.parsedStatements[name] = text;
  }
  connection.bind({ statement: name, values: values.map(String) }, true);
  connection.execute(null, true);
  if (copied !== undefined) connection.stream.write(copied);
}
