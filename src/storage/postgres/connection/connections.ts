import { ok as assert } from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import pg from 'pg';
import type { ClientConfig, PoolClient } from 'pg';
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
  /** Settings of every session, besides those that all need. */
  readonly settings: Readonly<Record<string, string>>;
  /** Called when a connection turned out to be dead. */
  readonly onSilent: () => void;
}

export type Connections = ReturnType<typeof connections>;

/** A pool of connections, each of which is a session with the settings that our statements need. */
export function connections(options: ConnectionsOptions) {
  const { config, doing, place } = options;
  /** All that may hold a socket, also those that are not connected yet, which the pool does not report. */
  const links = new Map<QuietClient, Link>();
  class Client extends QuietClient {
    constructor(settings?: ClientConfig) {
      super(settings);
      links.set(this, new Link(this, options));
      this.once('end', () => links.delete(this));
    }
  }
  const newPool = () => {
    const limits = { max: MAX_CONNECTIONS, connectionTimeoutMillis: CONNECT_TIMEOUT_MS };
    const pool = new pg.Pool({ ...config, ...limits, Client, allowExitOnIdle: true });
    // The next use of a broken connection gets its error.
    pool.on('error', () => undefined);
    // A pool that ends forgets callers that wait for a connection.
    const over = new AbortController();
    // Any number may wait for one; Node.js would warn of more than ten.
    setMaxListeners(0, over.signal);
    const end = (): Promise<void> => {
      over.abort(new Error('its connections were closed'));
      return pool.end();
    };
    return { end, over: over.signal, pool };
  };
  let current = newPool();

  const connect = async (): Promise<PoolClient> => {
    const sinceMs = systemClock.monotonic();
    const connecting = current.pool.connect();
    try {
      return await orAborted(connecting, current.over);
    } catch (error) {
      // The caller no longer waits for it.
      connecting.then((client) => client.release()).catch(() => undefined);
      const { message } = asError(error);
      const seconds = Math.round((systemClock.monotonic() - sinceMs) / 1_000);
      const words = message.includes('exceeded when trying')
        ? `all ${MAX_CONNECTIONS} connections were in use for ${seconds} s`
        : `the database has not answered for ${seconds} s on a new connection`;
      throw faultOf(message.includes('timeout') ? new Error(words) : error, doing, place);
    }
  };

  return {
    /** Why an answer is late, in words; `undefined` while none is. */
    silence: (): string | undefined =>
      [...links.values()].map((link) => link.silence).find((words) => words !== undefined),
    /**
     * Runs `action` on a separate connection. After an error it is closed, which rolls back what is not committed. Expected
     * errors: `DatabaseFault`, `StorageError` (`corrupt`); those of `action`.
     */
    use: async <T>(action: (link: Link) => Promise<T>): Promise<T> => {
      const client = await connect();
      assert(client instanceof QuietClient, 'the pool has clients of this class');
      // A client that has just ended is no longer among the links; its error says why it ended.
      const link = links.get(client) ?? new Link(client, options);
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
    },
    /** Abandons all idle connections: what has silenced one may have silenced all. */
    renew: (): void => {
      if (current.pool.ending) return;
      void current.end();
      current = newPool();
    },
    /** Also resolves when the database does not answer. */
    end: async (): Promise<void> => {
      const ended = current.end().catch(() => undefined);
      await within(systemClock, END_TIMEOUT_MS, ended);
      for (const { connection } of links.keys()) connection.stream.destroy();
    },
  };
}
