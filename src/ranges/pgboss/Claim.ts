import { AbortError } from '../../runtime/index.js';
import { RangeLostError, type Session } from '../../storage/index.js';
import { affectedBy, within, type Boss, type HeldJob } from './Boss.js';

/** An attempt at a job. The holder names it in every request, so that none affects another holder's attempt. */
export interface ClaimKey {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
}

/** A job that this process holds. Expected errors of `complete` and `fail`: `RangeLostError`, which must undo the transaction. */
export class Claim<D = object> {
  readonly key: ClaimKey;
  readonly data: D;
  /** True once the transaction that took the job is committed. */
  isTaken = false;
  /** A transaction has completed the job, committed or not: if the job is gone then, it was not lost. */
  isCompleted = false;
  readonly #boss: Boss;
  readonly #lost = new AbortController();

  constructor(job: HeldJob<D>, boss: Boss) {
    this.key = { queue: job.name, id: job.id, attempt: job.retryCount };
    this.data = job.data;
    this.#boss = boss;
  }

  /** Aborts when another process has the job, or the job is gone. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Completes the job as part of a transaction. */
  async complete(session: Session): Promise<void> {
    this.isCompleted = await endJob(this.#boss, session, this.key);
    if (!this.isCompleted) this.#refuse();
  }

  /** Records a failure, and lets any process take the job again after `delayMs`. */
  async fail(session: Session, reason: string, delayMs: number): Promise<void> {
    const { attempt: retryCount, id, queue } = this.key;
    const startAfter = Math.max(1, Math.round(delayMs / 1_000));
    await this.#boss.run(async (jobs) => {
      const failed = await jobs.fail(queue, { id, retryCount }, { reason }, within(session));
      if (affectedBy(failed) !== 1) this.#refuse();
      await jobs.update(queue, undefined, { id, startAfter, ...within(session) });
    });
  }

  lose(): void {
    this.#lost.abort(new AbortError('another process has the job now'));
  }

  #refuse(): never {
    this.lose();
    throw new RangeLostError(this.#boss.database.place);
  }
}

/**
 * Ends a job as part of a transaction: it is done, or abandoned, and the next worker that looks for work makes a new one.
 * False: the attempt is over already.
 */
export async function endJob(
  boss: Boss,
  session: Session,
  { attempt: retryCount, id, queue }: ClaimKey,
): Promise<boolean> {
  const ended = await boss.run((jobs) => jobs.complete(queue, { id, retryCount }, null, within(session)));
  return affectedBy(ended) === 1;
}
