import { PgBoss } from 'pg-boss';
import type { Db, JobWithMetadata } from 'pg-boss';
import type { Logger } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { loadPostgres, StorageError } from '../../storage/index.js';
import type { PostgresDatabase, Session } from '../../storage/index.js';

/** Where the tables of pg-boss are, which makes and migrates them itself. */
export const JOBS_SCHEMA = 'flow_jobs';

/** The shortest that pg-boss knows: a job whose holder is silent for so long goes to another. */
const HEARTBEAT_SECONDS = 10;
/** How often it looks for such jobs. */
const SUPERVISE_SECONDS = 2;
/** How often it looks for jobs whose predecessors are done. */
const FLOW_SECONDS = 1;
/** The longest that pg-boss lets a job be held; who needs longer takes it anew before (`Claim`). */
export const HELD_AT_MOST_SECONDS = 24 * 60 * 60;
/** pg-boss forgets jobs that nobody has taken for so long: by default 14 days, in which no whole chain is filled in. */
const WAITS_AT_MOST_SECONDS = 365 * 24 * 60 * 60;
/** A lost claim is no failure: no job is given up because its holders died. */
const RETRIES = 1_000_000;
/** What pg-boss says of a queue that is not there. */
const NO_QUEUE = 'PGBOSS_QUEUE_NOT_FOUND';
/** How long pg-boss may take to end. */
const STOP_TIMEOUT_MS = 2_000;

export type HeldJob<D> = JobWithMetadata<D>;

export interface BossOptions {
  readonly url: string;
  /** Default true. False for a command: it looks after no jobs. */
  readonly supervises?: boolean;
  /** How long a database is waited for that does not answer. Default: not at all. */
  readonly waitMs?: number;
}

export interface BossDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** pg-boss, on connections of our own: those are made, secured and explained as the store's are. */
export class Boss {
  readonly database: PostgresDatabase;
  readonly #jobs: PgBoss;

  private constructor(database: PostgresDatabase, jobs: PgBoss) {
    this.database = database;
    this.#jobs = jobs;
  }

  /** Makes the tables where there are none. Expected errors: `StorageError`, OperatorError `configuration`. */
  static async start(
    { url, supervises = true, waitMs = 0 }: BossOptions,
    { clock, logger }: BossDependencies,
  ): Promise<Boss> {
    const { databasePlace, PostgresDatabase } = await loadPostgres();
    const database = new PostgresDatabase(databasePlace(url), { clock, logger });
    const jobs = new PgBoss({
      db: { executeSql: (text, values) => database.executeSql(text, values) },
      ...{ schema: JOBS_SCHEMA, supervise: supervises, schedule: false, registerInstance: false },
      ...{ superviseIntervalSeconds: SUPERVISE_SECONDS, monitorIntervalSeconds: SUPERVISE_SECONDS },
      flowIntervalSeconds: FLOW_SECONDS,
    });
    // What it does on its own fails while the database is away, and is done again.
    jobs.on('error', (error) => logger.debug({ error }, 'the queue cannot look after its jobs'));
    jobs.on('warning', ({ message, data }) => logger.debug({ data }, message));
    const boss = new Boss(database, jobs);
    try {
      const untilMs = clock.monotonic() + waitMs;
      await database.persist(() => boss.run('open the queue', () => jobs.start()), untilMs);
    } catch (error) {
      await boss.close();
      throw error;
    }
    return boss;
  }

  /**
   * Expected errors: `StorageError` (`missing`: the queue was removed, by whoever filled or cancelled its plan); those of
   * `action`. `doing` completes "Cannot …".
   */
  run<T>(doing: string, action: (jobs: PgBoss) => Promise<T>): Promise<T> {
    return this.database.explained(doing, async () => {
      try {
        return await action(this.#jobs);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === NO_QUEUE)) throw error;
        throw new StorageError('missing', `Cannot ${doing} at ${this.database.place}: ${error.message}.`);
      }
    });
  }

  /** A queue is made outside of every transaction: an empty one that is left over harms nobody. */
  async makeQueue(name: string, policy: 'standard' | 'exclusive'): Promise<void> {
    await this.run('make a queue', (jobs) =>
      jobs.createQueue(name, {
        policy,
        heartbeatSeconds: HEARTBEAT_SECONDS,
        expireInSeconds: HELD_AT_MOST_SECONDS,
        retentionSeconds: WAITS_AT_MOST_SECONDS,
        // Never: jobs that were set aside wait for `redrive`, and the others go with their queue.
        deleteAfterSeconds: 0,
        ...{ retryLimit: RETRIES, retryDelay: 0, retryBackoff: false },
      }),
    );
  }

  async close(): Promise<void> {
    this.database.giveUp();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, STOP_TIMEOUT_MS)));
    await Promise.race([this.#jobs.stop({ graceful: false }).catch(() => undefined), late]);
    clearTimeout(timer);
    await this.database.close();
  }
}

/** Runs statements of pg-boss inside a transaction of ours. */
export function within(session: Session): { readonly db: Db } {
  return { db: { executeSql: (text, values) => session.query({ text, values: values ?? [] }) } };
}

/** How many jobs a command changed: pg-boss tells it, and its types do not. */
export function affectedBy(response: object): number {
  return 'affected' in response ? Number(response.affected) : 0;
}
