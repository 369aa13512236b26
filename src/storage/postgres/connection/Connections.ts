import { ok as assert } from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import pg from 'pg';
import type { ClientConfig, Pool, PoolClient } from 'pg';
import { asError, orAborted, systemClock, within } from '../../../runtime/index.js';
import { faultOf } from './faultOf.js';
import { Link } from './Link.js';
import { QuietClient } from './QuietClient.js';

/** At once, in each of two pools: for reads, and for writes. */
const MAX_CONNECTIONS = 8;
/** How long connecting, and the wait for a free connection, may take. */
const CONNECT_TIMEOUT_MS = 5_000;
/** How long closing the connections may take. */
const END_TIMEOUT_MS = 2_000;

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
  /** All that may hold a socket, also those that are not connected yet, of which the pool tells nothing. */
  readonly #links = new Map<QuietClient, Link>();
  /** Ends the wait of those who want a connection of the pool: one that ends forgets them. */
  #over = openScope();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#pool = this.#newPool();
  }

  /** Why an answer does not come, in words; `undefined` while none is late. */
  silence(): string | undefined {
    return [...this.#links.values()].map((link) => link.silence).find((words) => words !== undefined);
  }

  /**
   * Runs `action` on a connection of its own. After an error it is closed, which rolls back what is not committed. Expected
   * errors: `DatabaseFault`, `StorageError` (`corrupt`); those of `action`.
   */
  async use<T>(action: (link: Link) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    assert(client instanceof QuietClient, 'the pool has clients of this class');
    // One that has just ended is not among them, and tells why.
    const link = this.#links.get(client) ?? new Link(client, this.#options);
    let failure: Error | undefined;
    try {
      await link.begin();
      return await action(link);
    } catch (error) {
      failure = asError(error);
      throw error;
    } finally {
      client.release(failure);
    }
  }

  /** Uses none of the connections any more that wait for their next use: what has silenced one may have silenced all. */
  renew(): void {
    if (this.#pool.ending) return;
    void this.#endPool();
    this.#pool = this.#newPool();
    this.#over = openScope();
  }

  /** Also resolves when the database does not answer. */
  async end(): Promise<void> {
    const ended = this.#endPool().catch(() => undefined);
    await within(systemClock, END_TIMEOUT_MS, ended);
    for (const { connection } of this.#links.keys()) connection.stream.destroy();
  }

  async #connect(): Promise<PoolClient> {
    const sinceMs = systemClock.monotonic();
    const connecting = this.#pool.connect();
    try {
      return await orAborted(connecting, this.#over.signal);
    } catch (error) {
      // Nobody wants it any more.
      connecting.then((client) => client.release()).catch(() => undefined);
      const { message } = asError(error);
      const seconds = Math.round((systemClock.monotonic() - sinceMs) / 1_000);
      const words = message.includes('exceeded when trying')
        ? `all ${MAX_CONNECTIONS} connections were in use for ${seconds} s`
        : `the database has not answered for ${seconds} s on a new connection`;
      const { doing, place } = this.#options;
      throw faultOf(message.includes('timeout') ? new Error(words) : error, doing, place);
    }
  }

  #newPool(): Pool {
    const [links, options] = [this.#links, this.#options];
    class Client extends QuietClient {
      constructor(config?: ClientConfig) {
        super(config);
        links.set(this, new Link(this, options));
        this.once('end', () => links.delete(this));
      }
    }
    const pool = new pg.Pool({
      ...options.config,
      Client,
      max: MAX_CONNECTIONS,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      allowExitOnIdle: true,
    });
    // The next use of a broken connection gets its error.
    pool.on('error', () => undefined);
    return pool;
  }

  #endPool(): Promise<void> {
    this.#over.abort(new Error('its connections were closed'));
    return this.#pool.end();
  }
}

/** Any number may wait for a connection; Node.js would warn of more than ten. */
function openScope(): AbortController {
  const scope = new AbortController();
  setMaxListeners(0, scope.signal);
  return scope;
}
