import { isAbort } from '../../runtime/index.js';
import { deferred, handledElsewhere } from './deferred.js';
import { FinishedJobs } from './FinishedJobs.js';
import { JobWindow } from './JobWindow.js';
import { isThenable } from './isThenable.js';
import { readJob } from './readJob.js';
import type { ConsumerProgress, Job, JobHooks, JobId, Jobs, Worker } from '../types.js';

/** The jobs that `stop` waits for. How long each lasts depends on what its worker returned (see `Worker`). */
class UnreturnedJobs {
  readonly #onReturn: () => void;
  readonly #onError: (error: unknown) => void;
  /** Jobs whose worker returned a promise … */
  readonly #promises = new Set<Promise<void>>();
  /** … and the indexes of those whose worker returned nothing and will call `done` later. */
  readonly #handedOver = new Set<number>();

  constructor(dependencies: {
    /** A promise has settled. */
    readonly onReturn: () => void;
    /** A promise was rejected; `onReturn` follows. */
    readonly onError: (error: unknown) => void;
  }) {
    this.#onReturn = dependencies.onReturn;
    this.#onError = dependencies.onError;
  }

  get any(): boolean {
    return this.#promises.size > 0 || this.#handedOver.size > 0;
  }

  /** The job lasts until its worker's promise settles. */
  until(returned: Promise<void>): void {
    this.#promises.add(returned);
    const hasReturned = (): void => {
      this.#promises.delete(returned);
      this.#onReturn();
    };
    returned.then(hasReturned, (error: unknown) => {
      this.#onError(error);
      hasReturned();
    });
  }

  /** The job lasts until it is done. */
  untilDone(index: number): void {
    this.#handedOver.add(index);
  }

  done(index: number): void {
    this.#handedOver.delete(index);
  }

  /** Stops waiting for them. */
  abandon(): void {
    this.#promises.clear();
    this.#handedOver.clear();
  }
}

export interface JobConsumerOptions {
  /**
   * P for a progress that was never stored; the first job is the one above it. Default 0: the first index is 1. With -1
   * it is 0. It is not written.
   */
  readonly defaultIndex?: number;
  /** Jobs running at once. */
  readonly maxProcessing: number;
  /** How far above P a job may be handed out; 0 = as far as there are jobs. */
  readonly maxSearchAhead: number;
}

export interface JobConsumerDependencies<J extends Job> {
  readonly jobs: Jobs<J>;
  readonly worker: Worker<J>;
  readonly progress: ConsumerProgress;
  readonly hooks?: JobHooks<J>;
}

/**
 * Hands out jobs in ascending order, concurrently within two bounds, and keeps the progress P: the end of the contiguous
 * run of finished jobs. At least once: after a restart everything above P runs again. Guide: docs/jobqueue.md.
 *
 * - `check` and every `done` only set a flag; reading, handing out, progress and hooks happen in a pass that starts in a
 *   later microtask. So both may be called from anywhere, even from inside the worker's own call. One pass runs at a
 *   time; a flag set during a pass causes exactly one more round of it.
 * - A pass does not revisit what was handed out before: it continues where it ended.
 * - An unknown error (of the worker, the jobs, the progress, a hook) ends the consumer: nothing more is handed out, no
 *   hook is called, progress stands, `done` rejects with the error, and `stop` still resolves.
 */
export class JobConsumer<J extends Job> {
  readonly #jobs: Jobs<J>;
  readonly #worker: Worker<J>;
  readonly #progress: ConsumerProgress;
  readonly #hooks: JobHooks<J>;
  readonly #defaultIndex: number;
  readonly #window: JobWindow<J>;
  readonly #finished: FinishedJobs<J>;
  readonly #unreturned: UnreturnedJobs;
  readonly #ready = deferred();
  readonly #done = deferred();
  readonly #stopped = deferred();

  #startCalled = false;
  /** True once P is known: no passes run before that. */
  #started = false;
  #passing = false;
  #again = false;
  #stopping = false;
  #failure: { readonly error: unknown } | undefined;
  #closed = false;

  constructor(options: JobConsumerOptions, dependencies: JobConsumerDependencies<J>) {
    const { maxProcessing, maxSearchAhead, defaultIndex = 0 } = options;
    requireInteger('maxProcessing', maxProcessing, 1);
    requireInteger('maxSearchAhead', maxSearchAhead, 0);
    requireInteger('defaultIndex', defaultIndex, -1);
    this.#jobs = dependencies.jobs;
    this.#worker = dependencies.worker;
    this.#progress = dependencies.progress;
    this.#hooks = dependencies.hooks ?? {};
    this.#defaultIndex = defaultIndex;
    this.#window = new JobWindow({ maxProcessing, maxSearchAhead });
    this.#finished = new FinishedJobs({
      window: this.#window,
      progress: this.#progress,
      hooks: this.#hooks,
    });
    this.#unreturned = new UnreturnedJobs({
      onReturn: () => this.#closeIfIdle(),
      onError: (error) => this.#fail(error),
    });
    handledElsewhere(this.#ready.promise);
  }

  /** Resolves when `start` has finished; rejects when it failed. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /**
   * Resolves when the consumer has stopped; rejects with the first unknown error, at once. Its rejection must be handled.
   */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** P as far as the consumer knows. */
  get processedIndex(): number {
    return this.#window.processed;
  }

  /** Jobs that were handed out and have not finished. */
  get running(): number {
    return this.#window.runningCount;
  }

  /** Jobs the consumer remembers: those running, and those finished above a gap. */
  size(): number {
    return this.#window.size;
  }

  /**
   * Reads P and checks for the first time; resolves when that first pass has ended. Once per instance. No expected
   * errors: any rejection is the end of this consumer.
   */
  async start(): Promise<void> {
    if (this.#startCalled) throw new Error('the consumer was started before');
    if (this.#stopping) throw new Error('the consumer was stopped before it was started');
    this.#startCalled = true;
    this.#passing = true;
    await this.#pass(async () => {
      const stored = (await this.#progress.processedIndex()) ?? this.#defaultIndex;
      requireInteger('the stored progress', stored, -1);
      this.#window.moveTo(stored);
      this.#started = true;
    });
    if (this.#failure === undefined) {
      this.#ready.resolve();
      return;
    }
    handledElsewhere(this.#done.promise);
    this.#ready.reject(this.#failure.error);
    throw this.#failure.error;
  }

  /** There may be new jobs. No effect before `start`, which checks anyway. */
  check(): void {
    if (this.#started && !this.#stopping && this.#failure === undefined) this.#mark();
  }

  /**
   * Reports that the job is finished; of several running jobs with this id, the lowest. Returns false, without effect,
   * when no job with this id is running (finished twice, or never handed out).
   */
  notifyJobIsDone(id: JobId): boolean {
    const index = this.#window.runningIndex(id);
    return index !== undefined && this.#complete(index);
  }

  /**
   * Hands out nothing more and resolves once the pass under way has ended and every job has returned (see `Worker`).
   * Jobs that finish meanwhile still move progress and call their hooks. When `giveUp` aborts, jobs that have not
   * returned are no longer waited for, and what they report later is ignored. May be called several times.
   */
  stop(giveUp?: AbortSignal): Promise<void> {
    this.#stopping = true;
    const abandon = (): void => {
      this.#unreturned.abandon();
      this.#closeIfIdle();
    };
    if (giveUp?.aborted === true) abandon();
    else giveUp?.addEventListener('abort', abandon, { once: true });
    this.#closeIfIdle();
    return this.#stopped.promise.finally(() => giveUp?.removeEventListener('abort', abandon));
  }

  #complete(index: number): boolean {
    if (this.#closed) return false;
    const job = this.#window.complete(index);
    if (job === undefined) return false;
    this.#unreturned.done(index);
    if (this.#failure !== undefined) {
      this.#closeIfIdle();
      return true;
    }
    this.#finished.add(job);
    this.#mark();
    return true;
  }

  #mark(): void {
    this.#again = true;
    if (this.#passing) return;
    this.#passing = true;
    queueMicrotask(() => void this.#pass());
  }

  /** Repeats until no flag was set during the last round. Entered with `#passing` set; never rejects. */
  async #pass(prepare?: () => Promise<void>): Promise<void> {
    try {
      await prepare?.();
      do {
        this.#again = false;
        if (this.#failure === undefined) await this.#finished.settle();
        await this.#handOut();
      } while (this.#mayTurnAgain());
    } catch (error) {
      this.#fail(error);
    }
    // Synchronous with the last check of `#again`: a flag set after it starts a pass of its own.
    this.#passing = false;
    this.#closeIfIdle();
  }

  #mayTurnAgain(): boolean {
    return this.#again && this.#failure === undefined;
  }

  #fail(error: unknown): void {
    // Work cancelled by `stop` may reject with the abort.
    if (this.#failure !== undefined || (this.#stopping && isAbort(error))) return;
    this.#failure = { error };
    this.#done.reject(error);
  }

  #closeIfIdle(): void {
    if (!this.#stopping || this.#passing || this.#closed || this.#unreturned.any) return;
    this.#closed = true;
    this.#stopped.resolve();
    this.#done.resolve();
  }

  async #handOut(): Promise<void> {
    if (!this.#mayTake()) return;
    const head = await this.#jobs.head();
    while (this.#mayTake() && this.#window.next <= head) {
      const read = readJob(this.#jobs, this.#window.next, this.#hooks);
      // Jobs that are available synchronously are handed out in one go.
      const job = isThenable(read) ? await read : read;
      if (job === undefined || !this.#mayTake()) return;
      this.#run(job);
      // A worker that finishes inside its own call would otherwise pile up completions all the way to the head.
      if (this.#finished.any) await this.#finished.settle();
    }
  }

  #mayTake(): boolean {
    return !this.#stopping && this.#failure === undefined && this.#window.mayTake();
  }

  #run(job: J): void {
    const index = this.#window.take(job);
    const returned = this.#worker.run(job, () => {
      this.#complete(index);
    });
    if (isThenable(returned)) this.#unreturned.until(returned);
    else if (this.#window.isRunning(index)) this.#unreturned.untilDone(index);
  }
}

function requireInteger(name: string, value: number, lowest: number): void {
  if (!Number.isSafeInteger(value) || value < lowest)
    throw new RangeError(`${name} must be an integer of at least ${lowest}, not ${value}`);
}
