import { PgBoss, type Db, type JobWithMetadata } from 'pg-boss';
import type { Logger } from '../../observability/index.js';
import { messageOf, whenAborted, type Clock } from '../../runtime/index.js';
import { DatabaseFault, hasCode, loadPostgres, StorageError } from '../../storage/index.js';
import type { PostgresDatabase, Session } from '../../storage/index.js';

/** The database schema of pg-boss, which creates and migrates its tables itself. */
export const JOBS_SCHEMA = 'flow_jobs';

/** After this time without a heartbeat a job goes to another process; the minimum of pg-boss. */
const HEARTBEAT_SECONDS = 10;
/** How often it looks for such jobs. */
const SUPERVISE_SECONDS = 2;
/** The longest that pg-boss lets a job be held. `WorkerRegistry` renews the start of the job before that. */
export const HELD_AT_MOST_SECONDS = 24 * 60 * 60;
/** pg-boss deletes jobs that were not taken for this time; its default of 14 days is too short for a whole chain. */
const WAITS_AT_MOST_SECONDS = 365 * 24 * 60 * 60;
/** A lost claim is not a failure, so that no job is given up because its holders died. */
const RETRIES = 1_000_000;
/** The error code of pg-boss for a missing queue. */
const NO_QUEUE = 'PGBOSS_QUEUE_NOT_FOUND';
/** How long pg-boss may take to end. */
const STOP_TIMEOUT_MS = 2_000;

export type HeldJob<D> = JobWithMetadata<D>;

/** pg-boss on our own connections, which have the TLS, retries and error messages of the store. */
export class Boss {
  readonly database: PostgresDatabase;
  readonly #jobs: PgBoss;

  private constructor(database: PostgresDatabase, jobs: PgBoss) {
    this.database = database;
    this.#jobs = jobs;
  }

  /**
   * Sends nothing to the database yet. `supervise`: false for a command, which does not maintain jobs. `patienceMs`: how long
   * to wait for a database that refuses or does not answer; default: for as long as it takes. Expected errors: OperatorError
   * `configuration`.
   */
  static async prepare(
    options: { readonly url: string; readonly supervise: boolean; readonly patienceMs: number | undefined },
    { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  ): Promise<Boss> {
    const { patienceMs, supervise, url } = options;
    const { databasePlace, PostgresDatabase } = await loadPostgres();
    const database = new PostgresDatabase(databasePlace(url), { clock, logger }, { patienceMs });
    const jobs = new PgBoss({
      db: asServer((text, values) => database.executeSql(text, values)),
      schema: JOBS_SCHEMA,
      // The store has created it.
      createSchema: false,
      supervise,
      schedule: false,
      registerInstance: false,
      superviseIntervalSeconds: SUPERVISE_SECONDS,
      monitorIntervalSeconds: SUPERVISE_SECONDS,
    });
    // Its background work fails while the database is unreachable, and is retried.
    jobs.on('error', (error) => logger.debug({ error }, 'the queue cannot maintain its jobs'));
    jobs.on('warning', ({ message, data }) => logger.debug({ data }, message));
    return new Boss(database, jobs);
  }

  /**
   * Creates the tables if needed. May be repeated after an error. Expected errors: `StorageError`; OperatorError
   * `configuration` (a pooler without sessions).
   */
  async start(): Promise<void> {
    await this.database.requireSessions();
    await this.run((jobs) => jobs.start());
  }

  /**
   * Expected errors: `StorageError` (`missing`: the queue was removed because its plan was filled or cancelled); those of
   * `action`.
   */
  async run<T>(action: (jobs: PgBoss) => Promise<T>): Promise<T> {
    try {
      return await action(this.#jobs);
    } catch (error) {
      if (hasCode(error, NO_QUEUE))
        throw new StorageError('missing', `${messageOf(error)} at ${this.database.place}.`);
      throw this.database.saidIn(error) ?? error;
    }
  }

  /** Creates a queue, outside of any transaction: an empty queue left over is harmless. */
  async makeQueue(name: string): Promise<void> {
    await this.run((jobs) =>
      jobs.createQueue(name, {
        // At most one unfinished job per key.
        policy: 'exclusive',
        heartbeatSeconds: HEARTBEAT_SECONDS,
        expireInSeconds: HELD_AT_MOST_SECONDS,
        retentionSeconds: WAITS_AT_MOST_SECONDS,
        // Never: they are removed with their queue.
        deleteAfterSeconds: 0,
        retryLimit: RETRIES,
        retryDelay: 0,
        retryBackoff: false,
      }),
    );
  }

  async close(): Promise<void> {
    this.database.giveUp();
    const stopped = this.#jobs.stop({ graceful: false }).catch(() => undefined);
    await Promise.race([stopped, whenAborted(AbortSignal.timeout(STOP_TIMEOUT_MS))]);
    await this.database.close();
  }
}

/** Runs statements of pg-boss inside a transaction of ours. */
export function within(session: Session): { readonly db: Db } {
  return { db: asServer((text, values) => session.query({ text, values: values ?? [] })) };
}

/** pg-boss handles some errors of the server itself, so it gets them unwrapped. */
function asServer(executeSql: Db['executeSql']): Db {
  return {
    executeSql: (text, values) =>
      executeSql(text, values).catch((error: unknown) => {
        throw error instanceof DatabaseFault && error.code !== undefined ? error.cause : error;
      }),
  };
}

/** `undefined` if the database refused the change or is unreachable: a claim then times out, and a silent worker is noticed. */
export async function unlessRefused<T>(change: Promise<T>): Promise<T | undefined> {
  return change.catch((error: unknown) => {
    if (!(error instanceof StorageError)) throw error;
    return undefined;
  });
}

/** How many jobs a command changed, which the types of pg-boss lack. */
export function affectedBy(response: object): number {
  return 'affected' in response ? Number(response.affected) : 0;
}
