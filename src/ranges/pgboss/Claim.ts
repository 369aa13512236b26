import { AbortError, type Clock } from '../../runtime/index.js';
import { RangeLostError, type Session } from '../../storage/index.js';
import { affectedBy, HELD_AT_MOST_SECONDS, JOBS_SCHEMA, within, type Boss, type HeldJob } from './Boss.js';

/** How often to show pg-boss that a job is held: three times within its timeout. */
const TOUCH_EVERY_MS = 3_000;
/** After this time pg-boss is told that a job is held anew, before it takes it away. */
const RENEW_AFTER_MS = (HELD_AT_MOST_SECONDS / 2) * 1_000;

/** An attempt at a job. The holder names it in every request, so that none affects another holder's attempt. */
export interface ClaimKey {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
}

/** A job that this process holds: heartbeats show that it does, and notice when it is lost. */
export class Claim<D = object> {
  readonly key: ClaimKey;
  readonly data: D;
  readonly #boss: Boss;
  readonly #clock: Clock;
  readonly #job: HeldJob<D>;
  readonly #lost = new AbortController();
  readonly #ended = new AbortController();
  #heldSinceMs: number;
  /** A heartbeat then finds no job, which does not mean that it is lost. */
  #isCompleted = false;
  #beating: Promise<unknown> | undefined;

  constructor(job: HeldJob<D>, { boss, clock }: { readonly boss: Boss; readonly clock: Clock }) {
    this.key = { queue: job.name, id: job.id, attempt: job.retryCount };
    this.data = job.data;
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

  /** Completes the job as part of a transaction. Expected errors: `RangeLostError`, which must undo the transaction. */
  async complete(session: Session): Promise<void> {
    const boss = this.#boss;
    const response = await boss.run((jobs) =>
      jobs.complete(this.#job.name, this.#job, null, within(session)),
    );
    this.#isCompleted = affectedBy(response) === 1;
    this.#requireOne(response);
  }

  /** Records a failure, and lets other processes take it after `delayMs`. Expected errors: as of `complete`. */
  async fail(session: Session, reason: string, delayMs: number): Promise<void> {
    const { name, id } = this.#job;
    await this.#boss.run(async (jobs) => {
      this.#requireOne(await jobs.fail(name, this.#job, { reason }, within(session)));
      await jobs.update(name, undefined, { id, startAfter: seconds(delayMs), ...within(session) });
    });
  }

  /** Else the job is not ours any more. */
  #requireOne(response: object): void {
    if (affectedBy(response) === 1) return;
    this.#lose();
    throw new RangeLostError(this.#boss.database.place);
  }

  /** Call it when the transaction that took the job is committed: before, a heartbeat would find no such job. */
  begin(): void {
    // Each claim for itself: an answer that is late holds up no other.
    this.#beating = this.#boss.database.watch<never>(() => this.#beat(), TOUCH_EVERY_MS, this.#ended.signal);
  }

  /** No heartbeat counts any more. Waits for the one under way. */
  async end(): Promise<void> {
    this.#ended.abort();
    await this.#beating;
  }

  #lose(): void {
    this.#lost.abort(new AbortError('another process has the job now'));
  }

  /** While the database is away, the job may still be ours. */
  async #beat(): Promise<undefined> {
    if (this.lost.aborted) return;
    if (this.#clock.monotonic() - this.#heldSinceMs > RENEW_AFTER_MS) await this.#renew();
    const response = await this.#boss.run((jobs) => jobs.touch(this.#job.name, this.#job));
    if (affectedBy(response) !== 1 && !this.#ended.signal.aborted && !this.#isCompleted) this.#lose();
  }

  /** pg-boss has no call for that: only a job that is given back could be taken anew, as another attempt. */
  async #renew(): Promise<void> {
    const { queue, id, attempt } = this.key;
    await this.#boss.database.query({
      text: `UPDATE ${JOBS_SCHEMA}.job SET started_on = now()
        WHERE name = $1 AND id = $2 AND retry_count = $3 AND state = 'active'`,
      values: [queue, id, attempt],
    });
    this.#heldSinceMs = this.#clock.monotonic();
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
