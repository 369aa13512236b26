import type { Clock } from '../../runtime/index.js';
import { AbortError } from '../../runtime/index.js';
import { RangeLostError, StorageError } from '../../storage/index.js';
import type { Session } from '../../storage/index.js';
import { affectedBy, HELD_AT_MOST_SECONDS, within } from './Boss.js';
import type { Boss, HeldJob } from './Boss.js';

/** A job held for this time is taken again, before pg-boss takes it away. */
const RENEW_AFTER_MS = (HELD_AT_MOST_SECONDS / 2) * 1_000;

/** An attempt at a job. The holder names it in every request, so that none affects another holder's attempt. */
export interface ClaimKey {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
}

/** A job that this process holds: heartbeats show that it does, and notice when it is lost. */
export class Claim<D = object> {
  readonly #boss: Boss;
  readonly #clock: Clock;
  readonly #lost = new AbortController();
  #job: HeldJob<D>;
  #heldSinceMs: number;
  /** From the transaction that took it, once that is committed, to the end. */
  #isHeld = false;
  /** A heartbeat then finds no job, which does not mean that it is lost. */
  #isCompleted = false;
  /** The heartbeat under way. */
  #beating: Promise<boolean> | undefined;

  constructor(job: HeldJob<D>, { boss, clock }: { readonly boss: Boss; readonly clock: Clock }) {
    this.#job = job;
    this.#boss = boss;
    this.#clock = clock;
    this.#heldSinceMs = clock.monotonic();
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
    const boss = this.#boss;
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
    return giveBack(this.#boss, session, this.key, delayMs);
  }

  /** No process may take it until it is resumed. False: it was no longer ours. */
  async setAside(session: Session): Promise<boolean> {
    const response = await this.#boss.run((jobs) => jobs.cancel(this.#job.name, this.#job, within(session)));
    return affectedBy(response) === 1;
  }

  /** Records a failure, and lets other processes take it after `delayMs`. False: it was no longer ours. */
  async fail(session: Session, reason: string, delayMs: number): Promise<boolean> {
    const { name, id } = this.#job;
    return this.#boss.run(async (jobs) => {
      const response = await jobs.fail(name, this.#job, { reason }, within(session));
      if (affectedBy(response) !== 1) return false;
      await jobs.update(name, undefined, { id, startAfter: seconds(delayMs), ...within(session) });
      return true;
    });
  }

  /**
   * One heartbeat, unless one is under way: a late one must not name the attempt before a renewal. True: it has taken the job again,
   * and the attempt has another number.
   */
  beat(): Promise<boolean> {
    if (!this.#isHeld || this.lost.aborted) return Promise.resolve(false);
    this.#beating ??= this.#beat().finally(() => (this.#beating = undefined));
    return this.#beating;
  }

  /** Call it when the transaction that took the job is committed: before, a heartbeat would find no such job. */
  begin(): void {
    this.#isHeld = true;
  }

  /** No heartbeat counts any more. Waits for the one under way. */
  async end(): Promise<void> {
    this.#isHeld = false;
    await this.#beating;
  }

  #lose(): void {
    this.#lost.abort(new AbortError('another process has the job now'));
  }

  async #beat(): Promise<boolean> {
    try {
      if (this.#clock.monotonic() - this.#heldSinceMs > RENEW_AFTER_MS) return await this.#renew();
      const response = await this.#boss.run((jobs) => jobs.touch(this.#job.name, this.#job));
      if (affectedBy(response) !== 1 && this.#isHeld && !this.#isCompleted) this.#lose();
    } catch (error) {
      // The database is away; the next heartbeat shows whether the job is still ours.
      if (!(error instanceof StorageError)) throw error;
    }
    return false;
  }

  /** Gives the job back and takes it again in one transaction, so that no other process gets it. */
  async #renew(): Promise<boolean> {
    const boss = this.#boss;
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
      return false;
    }
    this.#job = renewed;
    this.#heldSinceMs = this.#clock.monotonic();
    return true;
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
