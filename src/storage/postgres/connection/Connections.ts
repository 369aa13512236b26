import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { ClientConfig, Pool, PoolClient, QueryResult, QueryResultRow } from 'pg';
import { asError, systemClock } from '../../../runtime/index.js';
import { faultOf } from './faultOf.js';
import { Pipeline } from './Pipeline.js';
import type { PipelineOutcome } from './Pipeline.js';
import { QuietClient } from './QuietClient.js';
import type { Rows, Session, Statement, Step } from './Session.js';
import { setUp, WHOSE } from './sessionSettings.js';
import { Silence } from './Silence.js';

/** At once, in each of two pools: for reads, and for writes. */
const MAX_CONNECTIONS = 8;
/** How long connecting, and the wait for a free connection, may take. */
const CONNECT_TIMEOUT_MS = 5_000;
/** How long closing the connections may take. */
const END_TIMEOUT_MS = 2_000;
/** Of a statement, in a message. */
const SHOWN_LENGTH = 40;

export interface ConnectionsOptions {
  readonly config: ClientConfig;
  /** For messages. */
  readonly place: string;
  /** What they are for; completes "Cannot …". */
  readonly doing: string;
  /** Of every session, besides those that all need. */
  readonly settings: Readonly<Record<string, string>>;
  /** Called when a connection turned out to be dead. */
  readonly onSilent: () => void;
}

/** A pool of connections, each of which is a session with the settings that our statements need. */
export class Connections {
  readonly #options: ConnectionsOptions;
  #pool: Pool;
  /** Those that are open and set up. */
  readonly #links = new Map<PoolClient, Link>();
  /** Ends the wait of those who want a connection: a pool that ends forgets them. */
  readonly #waiting = new Set<(error: Error) => void>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#pool = this.#newPool();
  }

  /** Why an answer does not come, in words; `undefined` while none is late. */
  silence(): string | undefined {
    return [...this.#links.values()].map(({ silence }) => silence).find((words) => words !== undefined);
  }

  /**
   * Runs `action` on a connection of its own. After an error it is closed, which rolls back what is not committed. Expected
   * errors: `DatabaseFault`, `StorageError` (`corrupt`); those of `action`.
   */
  async use<T>(action: (link: Link) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let failure: Error | undefined;
    try {
      return await action(this.#links.get(client) ?? (await this.#begin(client)));
    } catch (error) {
      failure = asError(error);
      throw error;
    } finally {
      client.release(failure);
    }
  }

  /** Uses none of the connections any more that wait for their next use: what has silenced one may have silenced all. */
  renew(): void {
    const old = this.#pool;
    if (old.ending) return;
    this.#pool = this.#newPool();
    void old.end();
    this.#endWaits();
  }

  /** Also resolves when the database does not answer. */
  async end(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, END_TIMEOUT_MS)));
    this.#endWaits();
    await Promise.race([this.#pool.end().catch(() => undefined), late]);
    clearTimeout(timer);
    for (const client of this.#links.keys()) void client.end();
  }

  async #connect(): Promise<PoolClient> {
    const pool = this.#pool;
    const sinceMs = systemClock.monotonic();
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.add(reject);
        const take = (client: PoolClient): void => {
          if (this.#waiting.has(reject)) resolve(client);
          else client.release();
        };
        void pool
          .connect()
          .then(take, reject)
          .finally(() => this.#waiting.delete(reject));
      });
    } catch (error) {
      const { message } = asError(error);
      if (!message.includes('timeout')) throw this.#fault(error);
      const seconds = Math.round((systemClock.monotonic() - sinceMs) / 1_000);
      const isFull = message.includes('exceeded when trying');
      const words = isFull
        ? `all ${MAX_CONNECTIONS} connections were in use for ${seconds} s`
        : `the database has not answered for ${seconds} s on a new connection`;
      throw this.#fault(new Error(words));
    }
  }

  #endWaits(): void {
    for (const reject of this.#waiting) reject(new Error('its connections were closed'));
    this.#waiting.clear();
  }

  async #begin(client: PoolClient): Promise<Link> {
    const link = new Link(client, this.#options);
    await link.begin();
    this.#links.set(client, link);
    client.once('end', () => this.#links.delete(client));
    return link;
  }

  #fault(error: unknown): unknown {
    return faultOf(error, this.#options.doing, this.#options.place);
  }

  #newPool(): Pool {
    const pool = new pg.Pool({
      ...this.#options.config,
      ...{ Client: QuietClient, max: MAX_CONNECTIONS, connectionTimeoutMillis: CONNECT_TIMEOUT_MS },
      allowExitOnIdle: true,
    });
    // The next use of a broken connection gets its error.
    pool.on('error', () => undefined);
    return pool;
  }
}

/** A connection in use. Errors: see `Connections.use`. */
export class Link implements Session {
  readonly #client: PoolClient;
  readonly #options: ConnectionsOptions;
  readonly #mark = randomUUID();
  #pid: number | undefined;
  #silence: Silence | undefined;

  constructor(client: PoolClient, options: ConnectionsOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** What keeps an answer from coming; see `Silence`. */
  get silence(): string | undefined {
    return this.#silence?.words;
  }

  /** Makes its session what our statements need. */
  async begin(): Promise<void> {
    const text = setUp(this.#options.settings, this.#mark);
    const result: unknown = await this.#asked('a new connection', () => this.#client.query(text));
    this.#pid = (result as QueryResult<{ pid: number }>[])[2]?.rows[0]?.pid;
  }

  /** False: a pooler has given the session to another of its clients. */
  async hasItsSession(): Promise<boolean> {
    const { rows } = await this.query<{ pid: number; mark: string | null }>({ text: WHOSE });
    return rows[0]?.pid === this.#pid && rows[0]?.mark === this.#mark;
  }

  async query<Row extends QueryResultRow>({ name, text, values }: Statement): Promise<Rows<Row>> {
    const statement = { ...(name === undefined ? {} : { name }), text, values: [...(values ?? [])] };
    const { rows, rowCount } = await this.#asked(text, () => this.#client.query<Row>(statement));
    return { rows, rowCount: rowCount ?? 0 };
  }

  /** Several statements in one text are sent as they are. */
  run(text: string, values?: unknown[]): Promise<QueryResult> {
    return this.#asked(text, () => this.#client.query({ text, ...(values && { values }) }));
  }

  async commit(): Promise<void> {
    await this.#asked('COMMIT', async () => {
      const { command } = await this.#client.query('COMMIT');
      // What it answers where a statement of the transaction has failed.
      if (command !== 'COMMIT') throw new Error(`it has answered ${command} to COMMIT`);
    });
  }

  /** Sends steps together. The error is the result, since the steps before it have theirs. */
  async send(steps: readonly Step[]): Promise<PipelineOutcome> {
    let rowCounts: readonly number[] = [];
    const sent = async (): Promise<void> => {
      const outcome = await this.#client.query(new Pipeline(steps)).outcome;
      ({ rowCounts } = outcome);
      if (outcome.error !== undefined) throw outcome.error;
      if (rowCounts.length < steps.length)
        throw new Error(`it has answered ${rowCounts.length} of ${steps.length} statements`);
    };
    try {
      await this.#asked(`a batch of ${steps.length} statements`, sent);
      return { rowCounts, error: undefined };
    } catch (error) {
      return { rowCounts, error: asError(error) };
    }
  }

  async #asked<T>(text: string, ask: () => Promise<T>): Promise<T> {
    const { config, doing, onSilent, place } = this.#options;
    const what = text.trim().replace(/\s+/g, ' ').slice(0, SHOWN_LENGTH);
    const silence = new Silence({ what, pid: this.#pid, config }, () => {
      onSilent();
      void this.#client.end();
    });
    this.#silence = silence;
    try {
      const answer = await ask();
      // An answer that has ended without saying what was done is none.
      if (isEmpty(answer)) throw new Error('it has ended its answer without one');
      return answer;
    } catch (error) {
      const lastFault = this.#client instanceof QuietClient ? this.#client.lastFault : undefined;
      const why = error instanceof pg.DatabaseError ? error : (lastFault ?? error);
      throw faultOf(silence.end() ?? why, doing, place);
    } finally {
      silence.end();
      this.#silence = undefined;
    }
  }
}

function isEmpty(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'command' in answer && answer.command === null;
}
