import pg from 'pg';
import type { ClientConfig } from 'pg';
import { sleep, systemClock } from '../../../runtime/index.js';
import { QuietClient } from './QuietClient.js';

/** An answer that takes longer is checked on, again and again. */
const LOOK_AFTER_MS = 3_000;
/** How long connecting for a look may take, and each of its questions. */
const LOOK_TIMEOUT_MS = 4_000;
/** Between two looks at a server process that waits for us: rows may be on their way over a slow line. */
const MOVES_WITHIN_MS = 2_000;
/** A look that takes longer is a bad sign, and reported. */
const DOUBTFUL_AFTER_MS = 2_500;
/** A wait for a third party, a lock holder or a standby, is reported after this time. */
const NAMED_AFTER_MS = 8_000;

/** What the server process of a statement does. `mark` differs once it has moved; `awaits`: what it waits for, if a third party can end that. */
interface Look {
  readonly works: boolean;
  readonly mark: string;
  readonly awaits: string | null;
}

/** Only the processes of the same user are visible in full, and may be ended. */
const LOOK = `SELECT state IN ('active', 'disabled') AND wait_event_type IS DISTINCT FROM 'Client' AS works,
    concat_ws(' ', query_start, state_change, bytes_processed) AS mark,
    (SELECT CASE WHEN bool_or(wait_event = 'SyncRep')
        THEN 'a standby (synchronous_standby_names is ' || current_setting('synchronous_standby_names') || ')'
        ELSE 'a lock that process ' || string_agg(concat_ws(' ', pid, nullif(application_name, '')), ', ')
          FILTER (WHERE pid <> asked.pid) || ' holds' END
      FROM pg_stat_activity WHERE pid = ANY (asked.pid || pg_blocking_pids(asked.pid))) AS awaits
  FROM pg_stat_activity AS asked LEFT JOIN pg_stat_progress_copy USING (pid)
  WHERE asked.pid = $1 AND asked.usename = session_user`;

/**
 * A statement whose answer is awaited. A network may silently drop a connection, and the server may take its time: only
 * another connection distinguishes the two. Sockets live in real time, so this uses the machine's own clock.
 */
export class Silence {
  /** The statement, for messages. */
  readonly #text: string;
  readonly #watched: Watched;
  /** Called when the connection turns out to be dead. */
  readonly #onSilent: () => void;
  readonly #sinceMs = systemClock.monotonic();
  #state: 'answered' | 'awaited' | 'silent' = 'awaited';
  #lookingSinceMs = Infinity;
  #awaits = '';
  /** Aborts the look under way, which ends with the statement. */
  #looking: AbortController | undefined;
  #timer = systemClock.setTimer(LOOK_AFTER_MS, () => void this.#look());

  constructor(text: string, watched: Watched, onSilent: () => void) {
    this.#text = text;
    this.#watched = watched;
    this.#onSilent = onSilent;
  }

  /** Why the answer is late, in words; `undefined` while no reason is known. */
  get words(): string | undefined {
    const nowMs = systemClock.monotonic();
    const isDoubtful = nowMs - this.#lookingSinceMs > DOUBTFUL_AFTER_MS;
    const isNamed = this.#awaits !== '' && nowMs - this.#sinceMs > NAMED_AFTER_MS;
    if (this.#state !== 'silent' && !isDoubtful && !isNamed) return undefined;
    const what = this.#text.trim().replace(/\s+/g, ' ').slice(0, SHOWN_LENGTH);
    const words = `the database has not answered for ${Math.floor((nowMs - this.#sinceMs) / 1_000)} s on ${what}`;
    return isNamed ? `${words}${this.awaited}` : words;
  }

  /** What the server itself waits for, to append to a message; empty while unknown. */
  get awaited(): string {
    return this.#awaits && `: it waits for ${this.#awaits}`;
  }

  /** Call it when the statement has ended. Returns the error if it ended for lack of an answer. */
  end(): Error | undefined {
    this.#timer.cancel();
    this.#looking?.abort();
    if (this.#state === 'silent') return new Error(this.words);
    this.#state = 'answered';
    return undefined;
  }

  async #look(): Promise<void> {
    this.#lookingSinceMs = systemClock.monotonic();
    this.#looking = new AbortController();
    const awaits = await lookAt(this.#watched, this.#looking.signal);
    if (this.#state !== 'awaited') return;
    this.#lookingSinceMs = Infinity;
    this.#awaits = awaits ?? '';
    if (awaits !== undefined) {
      this.#timer = systemClock.setTimer(LOOK_AFTER_MS, () => void this.#look());
      return;
    }
    this.#state = 'silent';
    this.#onSilent();
    void this.#watched.client.end();
  }
}

/** Of a statement, in a message. */
const SHOWN_LENGTH = 40;

/** The connection whose answer is awaited. */
interface Watched {
  readonly client: QuietClient;
  readonly config: ClientConfig;
  /** Of the server process; `undefined`: not known yet, and an answer that is late counts as silence. */
  readonly pid: number | undefined;
}

/**
 * What holds up the server process; `undefined`: it waits for us, or nothing answers. Then ends it, if it exists, with its locks; but
 * not once the signal reports the answer, since the process then waits for its next statement.
 */
async function lookAt(
  { client: asked, config, pid }: Watched,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (pid === undefined) return undefined;
  const limits = { connectionTimeoutMillis: LOOK_TIMEOUT_MS, query_timeout: LOOK_TIMEOUT_MS };
  const client = new QuietClient({ ...config, ...limits });
  signal.addEventListener('abort', () => client.connection.stream.destroy(), { once: true });
  const look = async () => ({ ...(await client.query<Look>(LOOK, [pid])).rows[0], received: asked.received });
  try {
    await client.connect();
    // A role may default to another one, which sees and ends less.
    await client.query('SET ROLE NONE');
    const first = await look();
    if (first.works !== true) await sleep(systemClock, MOVES_WITHIN_MS, signal);
    const last = first.works === true ? first : await look();
    const moves = last.mark !== first.mark || last.received !== first.received;
    if (last.works === true || moves) return last.awaits ?? '';
    await client.query('SELECT pg_terminate_backend($1)', [pid]).catch(() => undefined);
    return undefined;
  } catch (error) {
    // A server that refuses the look is alive.
    return error instanceof pg.DatabaseError ? '' : undefined;
  } finally {
    client.end().catch(() => undefined);
  }
}
