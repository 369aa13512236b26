import type { Clock, Timer } from '../../runtime/index.js';
import { AbortError } from '../../runtime/index.js';
import { RangeLostError, StorageError } from '../../storage/index.js';
import type { Session } from '../../storage/index.js';
import { affectedBy, HELD_AT_MOST_SECONDS, within } from './Boss.js';
import type { Boss, HeldJob } from './Boss.js';

/** How often to send a heartbeat: three times within the timeout. */
const HEARTBEAT_EVERY_MS = 3_000;
/** A job held for this time is taken again, before pg-boss takes it away. */
const RENEW_AFTER_MS = (HELD_AT_MOST_SECONDS / 2) * 1_000;

/** An attempt at a job. The holder names it in every request, so that none affects another holder's attempt. */
export interface ClaimKey {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
}

interface ClaimDependencies {
  readonly boss: Boss;
  readonly clock: Clock;
  /** Called when the attempt has a new number. */
  readonly onRenewed: (key: ClaimKey) => Promise<void>;
}

/** A job that this process holds: sends heartbeats until it is completed or given back, and notices when it is lost. */
export class Claim<D = object> {
  readonly #deps: ClaimDependencies;
  readonly #lost = new AbortController();
  #job: HeldJob<D>;
  #heldSinceMs: number;
  #timer: Timer | undefined;
  #isOver = false;
  /** A heartbeat then finds no job, which does not mean that it is lost. */
  #isCompleted = false;
  /** Heartbeats run one after another: a late one must not name the attempt before a renewal. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(job: HeldJob<D>, dependencies: ClaimDependencies) {
    this.#job = job;
    this.#deps = dependencies;
    this.#heldSinceMs = dependencies.clock.monotonic();
    this.#scheduleHeartbeat();
  }

  /** Aborts when another process has the job, or it is gone. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** True once its transaction says so, committed or not. */
  get isCompleted(): boolean {
    return this.#isCompleted;
  }

  get data(): D {
    return this.#job.data;
  }

  get key(): ClaimKey {
    return { queue: this.#job.name, id: this.#job.id, attempt: this.#job.retryCount };
  }

  /** Completes the job as part of a transaction. Expected errors: `RangeLostError`, which must undo the transaction. */
  async complete(session: Session): Promise<void> {
    const { boss } = this.#deps;
    const response = await boss.run((jobs) =>
      jobs.complete(this.#job.name, this.#job, null, within(session)),
    );
    this.#isCompleted = affectedBy(response) === 1;
    if (this.#isCompleted) return;
    this.#lose();
    throw new RangeLostError(boss.database.place);
  }

  /** Lets other processes take it, after `delayMs`. False: it was no longer ours. */
  async giveBack(session: Session, delayMs = 0): Promise<boolean> {
    return giveBack(this.#deps.boss, session, this.key, delayMs);
  }

  /** No process may take it until it is resumed. False: it was no longer ours. */
  async setAside(session: Session): Promise<boolean> {
    const response = await this.#deps.boss.run((jobs) =>
      jobs.cancel(this.#job.name, this.#job, within(session)),
    );
    return affectedBy(response) === 1;
  }

  /** Records a failure, and lets other processes take it after `delayMs`. False: it was no longer ours. */
  async fail(session: Session, reason: string, delayMs: number): Promise<boolean> {
    const { name, id } = this.#job;
    return this.#deps.boss.run(async (jobs) => {
      const response = await jobs.fail(name, this.#job, { reason }, within(session));
      if (affectedBy(response) !== 1) return false;
      await jobs.update(name, undefined, { id, startAfter: seconds(delayMs), ...within(session) });
      return true;
    });
  }

  /** Ends the heartbeats. Waits for one under way. */
  async end(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    await this.#turn;
  }

  #lose(): void {
    this.#lost.abort(new AbortError('another process has the job now'));
  }

  #scheduleHeartbeat(): void {
    this.#timer = this.#deps.clock.setTimer(HEARTBEAT_EVERY_MS, () => {
      this.#turn = this.#sendHeartbeat().then(() => {
        if (!this.#isOver && !this.lost.aborted) this.#scheduleHeartbeat();
      });
    });
  }

  async #sendHeartbeat(): Promise<void> {
    try {
      if (this.#deps.clock.monotonic() - this.#heldSinceMs > RENEW_AFTER_MS) {
        await this.#renew();
        return;
      }
      const { boss } = this.#deps;
      const response = await boss.run((jobs) => jobs.touch(this.#job.name, this.#job));
      if (affectedBy(response) !== 1 && !this.#isOver && !this.#isCompleted) this.#lose();
    } catch (error) {
      // The database is away; the next heartbeat shows whether the job is still ours.
      if (!(error instanceof StorageError)) throw error;
    }
  }

  /** Gives the job back and takes it again in one transaction, so that no other process gets it. */
  async #renew(): Promise<void> {
    const { boss } = this.#deps;
    const { name, priority, id } = this.#job;
    const renewed = await boss.database.transaction(async (session) => {
      if (!(await this.giveBack(session))) return undefined;
      const band = { minPriority: priority, maxPriority: priority };
      const [job] = await boss.run((jobs) =>
        jobs.fetch<D>(name, { includeMetadata: true, ...band, ...within(session) }),
      );
      // Got another job of the same heights: undo everything and try again.
      if (job?.id !== id) throw new RangeLostError(boss.database.place);
      return job;
    });
    if (renewed === undefined) {
      this.#lose();
      return;
    }
    this.#job = renewed;
    this.#heldSinceMs = this.#deps.clock.monotonic();
    await this.#deps.onRenewed(this.key);
  }
}

/**
 * Gives back a job, for a holder that has stopped working on this attempt. It is cancelled and resumed, which the queue does
 * not count as a failure. False: the attempt is over already.
 */
export async function giveBack(
  boss: Boss,
  session: Session,
  { queue, id, attempt }: ClaimKey,
  delayMs = 0,
): Promise<boolean> {
  return boss.run(async (jobs) => {
    const cancelled = await jobs.cancel(queue, { id, retryCount: attempt }, within(session));
    if (affectedBy(cancelled) !== 1) return false;
    await jobs.resume(queue, id, within(session));
    if (delayMs > 0)
      await jobs.update(queue, undefined, { id, startAfter: seconds(delayMs), ...within(session) });
    return true;
  });
}

function seconds(ms: number): number {
  return Math.max(1, Math.round(ms / 1_000));
}
