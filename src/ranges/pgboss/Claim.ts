import type { Clock, Timer } from '../../runtime/index.js';
import { AbortError } from '../../runtime/index.js';
import { RangeLostError, StorageError } from '../../storage/index.js';
import type { Session } from '../../storage/index.js';
import { affectedBy, HELD_AT_MOST_SECONDS, within } from './Boss.js';
import type { Boss, HeldJob } from './Boss.js';

/** How often the queue is told that the holder lives: three times in the time after which it takes the job away. */
const TOUCH_EVERY_MS = 3_000;
/** A job that is held for so long is taken anew, before pg-boss takes it away. */
const RENEW_AFTER_MS = (HELD_AT_MOST_SECONDS / 2) * 1_000;

/** Which attempt at which job: what every act of its holder names, so that none hits the attempt of another. */
export interface ClaimKey {
  readonly queue: string;
  readonly id: string;
  readonly attempt: number;
}

export interface ClaimDependencies {
  readonly boss: Boss;
  readonly clock: Clock;
  /** Its attempt has another number now. */
  readonly onRenewed?: (key: ClaimKey) => Promise<void>;
}

/** A job that this process holds: it keeps the queue told until it is completed or given back, and learns when it is lost. */
export class Claim<D = object> {
  readonly #deps: ClaimDependencies;
  readonly #lost = new AbortController();
  #job: HeldJob<D>;
  #heldSinceMs: number;
  #timer: Timer | undefined;
  #isOver = false;
  /** A touch then finds no job, which is no loss. */
  #isCompleted = false;
  /** Acts of the holder go one after another: a touch must not meet the attempt before the one that renews it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(job: HeldJob<D>, dependencies: ClaimDependencies) {
    this.#job = job;
    this.#deps = dependencies;
    this.#heldSinceMs = dependencies.clock.monotonic();
    this.#keepTelling();
  }

  /** Aborts when the job is another's, or gone. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** As far as its own transaction says. */
  get isCompleted(): boolean {
    return this.#isCompleted;
  }

  get data(): D {
    return this.#job.data;
  }

  get key(): ClaimKey {
    return { queue: this.#job.name, id: this.#job.id, attempt: this.#job.retryCount };
  }

  /** Done, as part of a transaction. Expected errors: `RangeLostError`, which must undo the transaction. */
  async complete(session: Session): Promise<void> {
    const { boss } = this.#deps;
    const response = await boss.run('complete a range', (jobs) =>
      jobs.complete(this.#job.name, this.#job, null, within(session)),
    );
    this.#isCompleted = affectedBy(response) === 1;
    if (this.#isCompleted) return;
    this.#lose();
    throw new RangeLostError(boss.database.place);
  }

  /** Others may take it, after `delayMs`. False: it was not ours any more. */
  async giveBack(session: Session, delayMs = 0): Promise<boolean> {
    return giveBack(this.#deps.boss, session, this.key, delayMs);
  }

  /** Nobody may take it until it is resumed. False: it was not ours any more. */
  async setAside(session: Session): Promise<boolean> {
    const response = await this.#deps.boss.run('set a range aside', (jobs) =>
      jobs.cancel(this.#job.name, this.#job, within(session)),
    );
    return affectedBy(response) === 1;
  }

  /** It failed, and others may take it after `delayMs`. False: it was not ours any more. */
  async fail(session: Session, reason: string, delayMs: number): Promise<boolean> {
    const { name, id } = this.#job;
    return this.#deps.boss.run('fail a range', async (jobs) => {
      const response = await jobs.fail(name, this.#job, { reason }, within(session));
      if (affectedBy(response) !== 1) return false;
      await jobs.update(name, undefined, { id, startAfter: seconds(delayMs), ...within(session) });
      return true;
    });
  }

  /** Nothing is told any more. Waits for what is under way. */
  async end(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    await this.#turn;
  }

  #lose(): void {
    this.#lost.abort(new AbortError('another process has the job now'));
  }

  #keepTelling(): void {
    this.#timer = this.#deps.clock.setTimer(TOUCH_EVERY_MS, () => {
      this.#turn = this.#tell().then(() => {
        if (!this.#isOver && !this.lost.aborted) this.#keepTelling();
      });
    });
  }

  async #tell(): Promise<void> {
    try {
      if (this.#deps.clock.monotonic() - this.#heldSinceMs > RENEW_AFTER_MS) {
        await this.#renew();
        return;
      }
      const { boss } = this.#deps;
      const response = await boss.run('keep a range', (jobs) => jobs.touch(this.#job.name, this.#job));
      if (affectedBy(response) !== 1 && !this.#isOver && !this.#isCompleted) this.#lose();
    } catch (error) {
      // The database is away: when it is back, it says whose the job is.
      if (!(error instanceof StorageError)) throw error;
    }
  }

  /** Back and taken again in one transaction, in which nobody else gets it. */
  async #renew(): Promise<void> {
    const { boss } = this.#deps;
    const { name, priority, id } = this.#job;
    const renewed = await boss.database.transaction(async (session) => {
      if (!(await this.giveBack(session))) return undefined;
      const band = { minPriority: priority, maxPriority: priority };
      const [job] = await boss.run('keep a range', (jobs) =>
        jobs.fetch<D>(name, { includeMetadata: true, ...band, ...within(session) }),
      );
      // Another one of the same heights: all of it is undone, and tried again.
      if (job?.id !== id) throw new RangeLostError(boss.database.place);
      return job;
    });
    if (renewed === undefined) {
      this.#lose();
      return;
    }
    this.#job = renewed;
    this.#heldSinceMs = this.#deps.clock.monotonic();
    await this.#deps.onRenewed?.(this.key);
  }
}

/**
 * Gives a job back whose holder, at this attempt, does no more with it. It is cancelled and resumed, which the queue does not
 * count as a failure. False: the attempt is over already.
 */
export async function giveBack(
  boss: Boss,
  session: Session,
  { queue, id, attempt }: ClaimKey,
  delayMs = 0,
): Promise<boolean> {
  return boss.run('give a range back', async (jobs) => {
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
