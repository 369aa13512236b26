import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from '../../observability/index.js';
import { programVersion, type Clock, type Random } from '../../runtime/index.js';
import type { HeightRange, PostgresDatabase, Session } from '../../storage/index.js';
import type { Leadership, Term, WorkerState } from '../ports.js';
import { RETRY_BACKOFF } from '../plans.js';
import { HELD_AT_MOST_SECONDS, JOBS_SCHEMA, unlessRefused, within, type Boss, type HeldJob } from './Boss.js';
import { Claim, endJob, type ClaimKey } from './Claim.js';

/** A takeover fits in 12 s: the silence, one of these to see the last beat, one to judge it, one to lead, and ten queries. */
const BEAT_EVERY_MS = 1_000;
/** Without a beat for this time, another worker gives back its jobs. */
const SILENT_AFTER_MS = 6_000;
/** How often to show pg-boss that jobs are held: three times within its timeout. */
const TOUCH_EVERY_MS = 3_000;
/** After this time without reading the rows, a worker judges no other: the database was unreachable, or this process suspended. */
const BLIND_AFTER_MS = 5_000;
/** How long rows of workers that have stopped or died are kept. */
const KEPT_MS = 24 * 60 * 60 * 1_000;
/** How often to see whether the leader is gone. */
const LOOK_EVERY_MS = 250;
/** How often to try to lead. Also while a leader is known: its row may show a job that it no longer has. */
const TRY_EVERY_MS = { unled: 1_000, led: 4_000 } as const;

/** A worker whose last beat is older than this counts as dead, as does one from after now: the server's clock was set back. */
const DEAD_AFTER_MS = 12_000;
/** The queue whose one job is held by the process that follows the head. */
export const LIVE_QUEUE = 'live';

/** A range of a plan, or the job of the leader. */
type AnyJob = Partial<HeightRange>;
/** What a worker holds: the job, and the heights if it is a range. */
type Held = ClaimKey & { readonly [End in keyof HeightRange]?: number | undefined };

/** Roles that use the rates of the nodes: a process that only serves readers asks for little more than the head. */
const WORKING_ROLES: ReadonlySet<string> = new Set(['live', 'backfill']);

/** What the parts of the queue of a process share. */
export interface QueueParts {
  readonly boss: Boss;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Roles of this process; none for a command, which takes no work. */
  readonly roles: readonly string[];
  /** The version of work that this process does. */
  readonly workVersion: number;
  /** Called once when the operator wants this process to end. */
  readonly onKill: () => void;
}

/**
 * The row of this process in the table of workers: it shows that the process lives and what it holds, carries the operator's
 * request to end, and lets other workers give back the jobs of a silent process. That is sooner than pg-boss, whose shortest
 * heartbeat is ten seconds, and does not count as a failure. The process that holds the one job of an exclusive queue leads.
 * A command has no row, and only reads the table.
 */
export class WorkerRegistry implements Leadership {
  readonly id = randomUUID();
  readonly parts: QueueParts;
  readonly #held = new Set<Claim<AnyJob>>();
  readonly #closing = new AbortController();
  #state: WorkerState['state'] = 'ready';
  /** As of the last look. */
  #rows: readonly SeenRow[] = [];
  #readAtMs = -Infinity;
  #triedAtMs = -Infinity;
  #beating: Promise<unknown> | undefined;

  constructor(parts: QueueParts) {
    this.parts = parts;
  }

  /** False for a command. */
  get isWorker(): boolean {
    return this.parts.roles.length > 0;
  }

  /** Inserts the row of this process. May be repeated after an error. Expected errors: `StorageError`. */
  async join(): Promise<void> {
    await this.#insert();
    await this.look();
  }

  /** Starts to show that this process lives and, apart from that, as it may wait for locks, to judge the other workers. */
  start(): void {
    const repeat = (act: () => Promise<undefined>, everyMs = BEAT_EVERY_MS): Promise<undefined> =>
      this.#database.watch<never>(act, everyMs, this.#closing.signal);
    const tidy = [repeat(() => this.#releaseSilent()), repeat(() => this.#freeUndue())];
    const shown = [repeat(() => this.#beat()), repeat(() => this.#touch(), TOUCH_EVERY_MS)];
    this.#beating = Promise.all([...shown, ...tidy]);
  }

  /** All workers in the table, as of the last look. */
  known(): readonly WorkerState[] {
    return this.#rows.map(stateOf);
  }

  /** All workers in the table. Expected errors: `StorageError`. */
  async workers(): Promise<readonly WorkerState[]> {
    await this.look();
    return this.known();
  }

  /** Asks workers to end. Returns how many have not stopped yet. Expected errors: `StorageError`. */
  async kill(ids: readonly string[]): Promise<number> {
    const { rowCount } = await this.#database.query({
      text: `UPDATE flow_store.worker SET kill = 'release' WHERE id = ANY ($1::uuid[]) AND state <> 'stopped'`,
      values: [ids],
    });
    return rowCount;
  }

  /** How many known workers share the work and the rates of the nodes: this one, and all that do more than serve readers. */
  liveWorkers(): number {
    const works = ({ id, isAlive, roles }: WorkerState): boolean =>
      isAlive && id !== this.id && roles.some((role) => WORKING_ROLES.has(role));
    return 1 + this.known().filter(works).length;
  }

  /** True when the workers were last read too long ago: the database is unreachable. */
  isBlind(): boolean {
    return this.parts.clock.monotonic() - this.#readAtMs > BLIND_AFTER_MS;
  }

  /** Takes the job that `find` fetches, and records in the same transaction that it is held. Expected errors: `StorageError`. */
  async take<D extends AnyJob>(
    find: (session: Session) => Promise<HeldJob<D> | undefined>,
  ): Promise<Claim<D> | undefined> {
    let taken: Claim<D> | undefined;
    try {
      await this.#database.transaction(async (session) => {
        const job = await find(session);
        if (job === undefined) return;
        taken = new Claim(job, this.parts.boss);
        this.#held.add(taken);
        await this.#writeBusy(session);
      });
    } catch (error) {
      // The transaction that took it was undone.
      if (taken !== undefined) this.#held.delete(taken);
      throw error;
    }
    if (taken !== undefined) taken.isTaken = true;
    return taken;
  }

  /** Ends a claim. `isGivenBack`: its job is not done, and other processes may take it. */
  async release(claim: Claim<AnyJob>, isGivenBack = false): Promise<void> {
    this.#held.delete(claim);
    const end = this.#database.transaction(async (session) => {
      if (isGivenBack) await endJob(this.parts.boss, session, claim.key);
      await this.#writeBusy(session);
    });
    await unlessRefused(end);
  }

  /** The ranges that are being filled, here or elsewhere, but for that of the job `besides`. */
  async running(session: Session, besides?: string): Promise<readonly HeightRange[]> {
    const living = (await readRows(session)).filter(({ isAlive }) => isAlive);
    return living.flatMap(({ held }) => held.filter(({ id }) => id !== besides)).flatMap(heightsOf);
  }

  /** The job of the leader goes to another process after six seconds of silence; pg-boss gives it away after ten. */
  lead(signal: AbortSignal): Promise<Term | undefined> {
    const isDue = (): boolean => {
      const everyMs = TRY_EVERY_MS[this.leader() === undefined ? 'unled' : 'led'];
      return this.parts.clock.monotonic() - this.#triedAtMs >= everyMs;
    };
    return this.#database.watch(() => this.#takeLead(), LOOK_EVERY_MS, signal, { isDue });
  }

  leader(): WorkerState | undefined {
    return this.isBlind() ? undefined : this.known().find(({ leads, isAlive }) => leads && isAlive);
  }

  /** Marks the row as stopped, and leaves it. */
  async leave(): Promise<void> {
    this.#closing.abort();
    await this.#beating;
    this.#held.clear();
    this.#state = 'stopped';
    const text = `UPDATE flow_store.worker SET state = 'stopped', busy = '[]', beat_at = now() WHERE id = $1`;
    await unlessRefused(this.#database.query({ text, values: [this.id] }));
  }

  get #database(): PostgresDatabase {
    return this.parts.boss.database;
  }

  async #takeLead(): Promise<Term | undefined> {
    const { boss, clock } = this.parts;
    this.#triedAtMs = clock.monotonic();
    const takeJob = (): Promise<Claim<AnyJob> | undefined> =>
      this.take(async (session) => {
        const options = { includeMetadata: true as const, ...within(session) };
        return (await boss.run((jobs) => jobs.fetch<AnyJob>(LIVE_QUEUE, options)))[0];
      });
    let claim = await takeJob();
    // Has no effect if the job exists, queued or held.
    const key = { singletonKey: LIVE_QUEUE };
    if (claim === undefined && (await boss.run((jobs) => jobs.send(LIVE_QUEUE, {}, key))) !== null)
      claim = await takeJob();
    if (claim === undefined) return undefined;
    // The jobs of former leaders are over.
    void unlessRefused(boss.run((jobs) => jobs.deleteStoredJobs(LIVE_QUEUE)));
    let released: Promise<void> | undefined;
    return { lost: claim.lost, release: () => (released ??= this.release(claim, true)) };
  }

  async #beat(): Promise<undefined> {
    const state = this.#state === 'ready' && this.#held.size > 0 ? 'running' : this.#state;
    const { rows } = await this.#database.query<Pick<Row, 'kill'>>({
      text: `UPDATE flow_store.worker SET beat = beat + 1, beat_at = now(), state = $2, busy = $3 WHERE id = $1 RETURNING kill`,
      // Also records what was taken or released by a transaction whose answer was lost.
      values: [this.id, state, this.#busyText()],
    });
    const [row] = rows;
    // The row was removed after a long silence.
    if (row === undefined) await this.#insert();
    if ((row?.kill ?? null) !== null && this.#state !== 'stopping') {
      this.#state = 'stopping';
      this.parts.logger.info({}, 'the operator wants this worker to end');
      this.parts.onKill();
    }
    await this.look();
  }

  /** Shows pg-boss that the jobs are held, and finds those that no longer are. Skips jobs that a transaction is changing. */
  async #touch(): Promise<undefined> {
    const claims = [...this.#held].filter(({ isTaken }) => isTaken);
    if (claims.length === 0) return;
    const values = [JSON.stringify(claims.map(({ key }) => key))];
    const { rows } = await this.#database.query<Pick<ClaimKey, 'id'>>({ text: TOUCH, values });
    const left = new Set(rows.map(({ id }) => id));
    for (const claim of claims)
      if (this.#held.has(claim) && !claim.isCompleted && !left.has(claim.key.id)) claim.lose();
  }

  async #insert(): Promise<void> {
    const { roles, workVersion } = this.parts;
    await this.#database.query({
      text: `INSERT INTO flow_store.worker VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now(), 0, now(), NULL)
        ON CONFLICT (id) DO NOTHING`,
      values: [
        ...[this.id, hostname(), process.pid, programVersion, workVersion, roles.join(',')],
        ...[this.#state, this.#busyText()],
      ],
    });
  }

  async #writeBusy(session: Session): Promise<void> {
    const text = 'UPDATE flow_store.worker SET busy = $2 WHERE id = $1';
    await session.query({ text, values: [this.id, this.#busyText()] });
  }

  #busyText(): string {
    return JSON.stringify([...this.#held].map(({ key, data: { from, to } }): Held => ({ ...key, from, to })));
  }

  /** Reads the table. Expected errors: `StorageError`. */
  async look(): Promise<void> {
    const rows = await readRows(this.#database);
    const nowMs = this.parts.clock.monotonic();
    const seen = new Map(this.isBlind() ? [] : this.#rows.map((row) => [row.id, row]));
    this.#readAtMs = nowMs;
    this.#rows = rows.map((row) => {
      const before = seen.get(row.id);
      return { ...row, sinceMs: before?.beat === row.beat ? before.sinceMs : nowMs };
    });
  }

  /** Gives back the jobs of silent workers, and deletes old rows. */
  async #releaseSilent(): Promise<undefined> {
    const { boss, clock, logger } = this.parts;
    if (this.isBlind()) return;
    const nowMs = clock.monotonic();
    const isSilent = ({ id, sinceMs }: SeenRow) => id !== this.id && nowMs - sinceMs >= SILENT_AFTER_MS;
    const silent = this.#rows.filter(isSilent);
    // In a container that was started again after a crash, another process has the same name and number.
    const isGone = ({ host, pid }: SeenRow) =>
      this.#rows.every((each) => isSilent(each) || each.host !== host || each.pid !== pid);
    // They may have stopped in the middle of a write or of taking a job: those locks block their successors.
    const stopped = silent.filter((row) => row.state !== 'stopped' && isGone(row));
    if (stopped.length > 0) await boss.database.endWaitingFor(stopped);
    for (const { id, beat, held } of silent.filter((row) => row.held.length > 0)) {
      const given = await boss.database.transaction(async (session) => {
        const { rowCount } = await session.query({
          text: `UPDATE flow_store.worker SET busy = '[]' WHERE id = $1 AND beat = $2`,
          values: [id, beat],
        });
        // It is alive after all, or another worker was faster.
        if (rowCount === 0) return 0;
        let count = 0;
        for (const key of held) if (await endJob(boss, session, key)) count += 1;
        return count;
      });
      if (given === 0) continue;
      logger.warn({ worker: id, jobs: given }, 'a worker is silent: what it held is given back');
      await this.look();
    }
    await this.#database.query({
      text: `DELETE FROM flow_store.worker WHERE beat_at < now() - $1 * interval '1 millisecond'`,
      values: [KEPT_MS],
    });
  }

  /**
   * A job is due by the clock of the server. If that was set back, or a server with another clock took over, earlier jobs would
   * wait that much longer. No job has to wait longer than a range does after a failure, and the leader's never has to wait.
   */
  async #freeUndue(): Promise<undefined> {
    await this.#database.query({
      text: `UPDATE ${JOBS_SCHEMA}.job SET start_after = now() WHERE state < 'active'
        AND start_after > now() + CASE WHEN name = $1 THEN 0 ELSE $2 END * interval '1 millisecond'`,
      values: [LIVE_QUEUE, RETRY_BACKOFF.maxMs],
    });
  }
}

/** pg-boss has no call to hold a job for longer: it would have to be given back and taken again, as another attempt. */
const TOUCH = `WITH held AS (
    SELECT job.name, job.id FROM json_to_recordset($1) AS key (queue text, id uuid, attempt integer)
      JOIN ${JOBS_SCHEMA}.job ON job.name = queue AND job.id = key.id AND retry_count = attempt AND state = 'active'
  ), free AS (
    SELECT name, id FROM ${JOBS_SCHEMA}.job JOIN held USING (name, id) FOR UPDATE OF job SKIP LOCKED
  ), touched AS (
    UPDATE ${JOBS_SCHEMA}.job SET heartbeat_on = now(), started_on = CASE
        WHEN started_on > now() - ${HELD_AT_MOST_SECONDS / 2} * interval '1 second' THEN started_on ELSE now() END
      FROM free WHERE job.name = free.name AND job.id = free.id
  ) SELECT id FROM held`;

interface Row extends Omit<WorkerState, 'busyWith' | 'leads' | 'isAskedToEnd'> {
  readonly held: readonly Held[];
  readonly beat: number;
  /** `null`: keep running. Any other value asks it to end: versions before 0.1.0 knew two ways. */
  readonly kill: string | null;
}

/** `sinceMs`: when its beat was first seen. */
type SeenRow = Row & { readonly sinceMs: number };

async function readRows(session: Session): Promise<readonly Row[]> {
  const { rows } = await session.query<Row>({
    text: `SELECT id, host, pid, version, work_version AS "workVersion", string_to_array(roles, ',') AS roles, state,
        started_at AS "startedAt", busy::json AS held, beat, kill, greatest(0, round(age_ms))::bigint AS "beatAgeMs",
        state <> 'stopped' AND abs(age_ms) < ${DEAD_AFTER_MS} AS "isAlive"
      FROM flow_store.worker, LATERAL (SELECT extract(epoch FROM now() - beat_at) * 1000 AS age_ms) AS age
      ORDER BY started_at, id`,
  });
  return rows;
}

/** Empty for a job that is not a range. */
function heightsOf({ from, to }: Held): readonly HeightRange[] {
  return from === undefined || to === undefined ? [] : [{ from, to }];
}

function stateOf({ beat: _beat, held, kill, sinceMs: _sinceMs, ...row }: SeenRow): WorkerState {
  const leads = held.some(({ queue }) => queue === LIVE_QUEUE);
  return { ...row, busyWith: held.flatMap(heightsOf), leads, isAskedToEnd: kill !== null };
}
