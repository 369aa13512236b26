import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from '../../../observability/index.js';
import { sleep } from '../../../runtime/index.js';
import type { Clock } from '../../../runtime/index.js';
import { overlap, StorageError } from '../../../storage/index.js';
import type { HeightRange, PostgresDatabase, Session } from '../../../storage/index.js';
import type { KillWish, WorkerState } from '../../ports.js';
import type { Boss } from '../Boss.js';
import { giveBack } from '../Claim.js';
import { heightsOf, heldByLiving, heldOf, readRows, stateOf } from './workerRows.js';
import type { Held } from './workerRows.js';

const BEAT_EVERY_MS = 2_000;
/** Who looked at this worker for so long, and saw no beat, gives back what it holds: three beats are missing, a fourth is late. */
const SILENT_AFTER_MS = 7_000;
/** Who has not looked for so long judges nobody: the database was away, or this process slept. */
const LOOKED_AWAY_MS = 3 * BEAT_EVERY_MS;
/** Rows of workers that have stopped or died are kept for so long. */
const KEPT_MS = 24 * 60 * 60 * 1_000;

export interface WorkerOptions {
  readonly version: string;
  readonly workVersion: number;
  readonly roles: readonly string[];
}

export interface WorkerDependencies {
  readonly boss: Boss;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The operator wants this process to end. Told once. */
  readonly onKill: (wish: KillWish) => void;
}

/** A worker as it was last seen. */
interface Seen {
  readonly beat: string;
  readonly sinceMs: number;
}

/** Roles that take the rates of the nodes: whoever serves readers alone asks them for little more than their head. */
const WORKING_ROLES: ReadonlySet<string> = new Set(['live', 'backfill']);

/**
 * The row of this process among the workers: it says that the process lives and what it holds, brings it the operator's wish
 * to end, and lets the others give back what it held when it is silent. That is sooner than pg-boss would, whose shortest
 * heartbeat is ten seconds, and counts as no failure.
 */
export class WorkerRegistry {
  readonly id = randomUUID();
  readonly #options: WorkerOptions;
  readonly #deps: WorkerDependencies;
  /** By the id of the job; at most as many as this process runs at once. */
  readonly #held = new Map<string, Held>();
  /** At most as many as there are rows. */
  readonly #seen = new Map<string, Seen>();
  readonly #closing = new AbortController();
  #state: WorkerState['state'] = 'ready';
  #workers: readonly WorkerState[] = [];
  #busy: ReadonlyMap<string, readonly Held[]> = new Map();
  #readAtMs = -Infinity;
  #wish: KillWish | undefined;
  #beating: Promise<void> | undefined;

  constructor(options: WorkerOptions, dependencies: WorkerDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  /** Enters this process. Expected errors: `StorageError`. */
  async start(): Promise<void> {
    await this.#enter(this.#database);
    await this.#look();
    this.#beating = this.#beatOn();
  }

  /** All there are rows of, as of the last beat. */
  workers(): readonly WorkerState[] {
    return this.#workers;
  }

  /** Those that share the work, and the rates of the nodes: this one, and all others that do more than serve readers. */
  liveWorkers(): number {
    const works = ({ id, isAlive, roles }: WorkerState): boolean =>
      isAlive && id !== this.id && roles.some((role) => WORKING_ROLES.has(role));
    return 1 + this.#workers.filter(works).length;
  }

  /** The last look at the workers is old: the database is away. */
  isBlind(): boolean {
    return this.#deps.clock.monotonic() - this.#readAtMs > LOOKED_AWAY_MS;
  }

  /** Part of the transaction that takes the job. */
  async hold(session: Session, held: Held): Promise<void> {
    this.#held.set(held.id, held);
    try {
      await this.#writeBusy(session);
    } catch (error) {
      this.#held.delete(held.id);
      throw error;
    }
  }

  /** It is held no more, or at another attempt. */
  async update(id: string, held?: Held): Promise<void> {
    if (held === undefined) this.#held.delete(id);
    else this.#held.set(id, held);
    try {
      await this.#database.transaction((session) => this.#writeBusy(session));
    } catch (error) {
      // A job that is held no more is given back by nobody: its attempt is over.
      if (!(error instanceof StorageError)) throw error;
    }
  }

  /** The transaction that took it came to nothing. */
  forget(id: string): void {
    this.#held.delete(id);
  }

  /** True when another job, here or elsewhere, is at work on some of these heights. */
  async isBusyElsewhere(session: Session, range: HeightRange, id: string): Promise<boolean> {
    const held = await heldByLiving(session);
    return held.some((each) => each.id !== id && heightsOf(each).some((its) => overlap(its, range)));
  }

  /** The ranges that are being filled, here or elsewhere. */
  async running(session: Session): Promise<readonly HeightRange[]> {
    return (await heldByLiving(session)).flatMap(heightsOf);
  }

  /** It takes no more work. */
  setStopping(): void {
    this.#state = 'stopping';
  }

  /** Leaves the row behind, stopped. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#beating;
    this.#held.clear();
    this.#state = 'stopped';
    try {
      await this.#database.query({
        text: `UPDATE flow_store.worker SET state = 'stopped', busy = '[]', beat_at = now() WHERE id = $1`,
        values: [this.id],
      });
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
    }
  }

  get #database(): PostgresDatabase {
    return this.#deps.boss.database;
  }

  async #beatOn(): Promise<void> {
    const { signal } = this.#closing;
    const { clock } = this.#deps;
    for (;;) {
      await sleep(clock, BEAT_EVERY_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.#beat();
        await this.#look();
        await this.#buryTheDead();
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
      }
    }
  }

  async #beat(): Promise<void> {
    const state = this.#state === 'ready' && this.#held.size > 0 ? 'running' : this.#state;
    const { rows } = await this.#database.query<{ kill: KillWish | null }>({
      text: `UPDATE flow_store.worker SET beat = beat + 1, beat_at = now(), state = $2 WHERE id = $1 RETURNING kill`,
      values: [this.id, state],
    });
    const [row] = rows;
    // It was silent for so long that its row is gone.
    if (row === undefined) return this.#enter(this.#database);
    if (row.kill === null || row.kill === this.#wish) return;
    this.#wish = row.kill;
    this.#deps.logger.info({ how: row.kill }, 'the operator wants this worker to end');
    this.#deps.onKill(row.kill);
  }

  async #enter(session: Session): Promise<void> {
    const { version, workVersion, roles } = this.#options;
    await session.query({
      text: `INSERT INTO flow_store.worker VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now(), 0, now(), NULL)
        ON CONFLICT (id) DO NOTHING`,
      values: [
        ...[this.id, hostname(), process.pid, version, workVersion, roles.join(',')],
        ...[this.#state, this.#busyText()],
      ],
    });
  }

  async #writeBusy(session: Session): Promise<void> {
    await session.query({
      text: 'UPDATE flow_store.worker SET busy = $2 WHERE id = $1',
      values: [this.id, this.#busyText()],
    });
  }

  #busyText(): string {
    return JSON.stringify([...this.#held.values()]);
  }

  async #look(): Promise<void> {
    const rows = await readRows(this.#database);
    const nowMs = this.#deps.clock.monotonic();
    const lookedAway = this.isBlind();
    this.#readAtMs = nowMs;
    for (const { id, beat } of rows) {
      const before = lookedAway ? undefined : this.#seen.get(id);
      if (before?.beat !== beat) this.#seen.set(id, { beat, sinceMs: nowMs });
    }
    const there = new Set(rows.map(({ id }) => id));
    for (const id of this.#seen.keys()) if (!there.has(id)) this.#seen.delete(id);
    this.#workers = rows.map(stateOf);
    this.#busy = new Map(rows.map((row) => [row.id, heldOf(row)]));
  }

  /** Gives back what the silent hold, and forgets rows that are old. */
  async #buryTheDead(): Promise<void> {
    const { boss, clock, logger } = this.#deps;
    const nowMs = clock.monotonic();
    for (const [id, { beat, sinceMs }] of this.#seen) {
      const held = this.#busy.get(id) ?? [];
      if (id === this.id || held.length === 0 || nowMs - sinceMs < SILENT_AFTER_MS) continue;
      const given = await boss.database.transaction(async (session) => {
        const { rowCount } = await session.query({
          text: `UPDATE flow_store.worker SET busy = '[]' WHERE id = $1 AND beat = $2`,
          values: [id, beat],
        });
        // It lives after all, or another one was quicker.
        if (rowCount === 0) return 0;
        let count = 0;
        for (const key of held) if (await giveBack(boss, session, key)) count += 1;
        return count;
      });
      if (given > 0)
        logger.warn({ worker: id, jobs: given }, 'a worker is silent: what it held is given back');
    }
    await this.#database.query({
      text: `DELETE FROM flow_store.worker WHERE beat_at < now() - $1 * interval '1 millisecond'`,
      values: [KEPT_MS],
    });
  }
}
