import { childOf, isAbort, whenAborted } from '../../runtime/index.js';
import { JobNotReadableError } from '../JobNotReadableError.js';
import { JobWindow } from './JobWindow.js';
import type { ConsumerProgress, Job, JobHooks, JobId, Jobs, Notifiable, WakeUp, Worker } from '../types.js';

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
  /** For `run`: signals that there may be new jobs. Wake-ups before the consumer is ready cause one check afterwards. */
  readonly wakeUp?: WakeUp;
  /** Notified when jobs have finished, after their hooks: the wake-up of the next queue. */
  readonly wakes?: Notifiable;
}

/**
 * Hands out jobs in ascending order, concurrently within two bounds, and keeps the progress P: the end of the contiguous
 * run of finished jobs. At least once: after a restart everything above P runs again. `run` is its whole life cycle, of
 * which `start`, `check` and `stop` are the steps. Guide: docs/jobqueue.md.
 *
 * - `check` and every `done` only set a flag; reading, handing out, progress and hooks happen in a pass that starts in a
 *   later microtask. So both may be called from anywhere, even from inside the worker's own call. One pass runs at a
 *   time; a flag set during a pass causes exactly one more round of it.
 * - A pass does not revisit what was handed out before: it continues where it ended.
 * - An unknown error (of the worker, the jobs, the progress, a hook) ends the consumer: nothing more is handed out, no
 *   hook is called, progress stands, `done` rejects with the error, and `stop` still resolves.
 */
export class JobConsumer<J extends Job> {
  readonly #deps: JobConsumerDependencies<J>;
  readonly #defaultIndex: number;
  readonly #window: JobWindow<J>;
  /** Jobs finished since the last round and not accounted for yet, in order of completion; at most `maxProcessing` per round. */
  #finished: J[] = [];
  /** The jobs that `stop` waits for: those whose worker returned a promise … */
  readonly #promises = new Set<Promise<void>>();
  /** … and the indexes of those whose worker returned nothing and will call `done` later. */
  readonly #handedOver = new Set<number>();
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
    this.#deps = dependencies;
    this.#defaultIndex = defaultIndex;
    this.#window = new JobWindow({ maxProcessing, maxSearchAhead });
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
   * Starts, checks at every wake-up until `signal` aborts, then waits for the running jobs, or until `giveUp` aborts too.
   * Rejects only with an unknown error of the worker, the jobs, the progress, a hook or the wake-up, and then without
   * waiting for any job.
   */
  async run(signal: AbortSignal, giveUp?: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const ended = childOf(signal);
    const failed = this.done.catch((error: unknown) => {
      ended.abort();
      throw error;
    });
    try {
      await this.start();
      await this.#checkUntil(ended.signal);
    } catch (error) {
      failed.catch(() => undefined);
      await this.stop(AbortSignal.abort());
      throw error;
    } finally {
      ended.abort();
    }
    await Promise.race([this.stop(giveUp), failed]);
    await failed;
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
      const stored = (await this.#deps.progress.processedIndex()) ?? this.#defaultIndex;
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
      this.#promises.clear();
      this.#handedOver.clear();
      this.#closeIfIdle();
    };
    if (giveUp?.aborted === true) abandon();
    else giveUp?.addEventListener('abort', abandon, { once: true });
    this.#closeIfIdle();
    return this.#stopped.promise.finally(() => giveUp?.removeEventListener('abort', abandon));
  }

  async #checkUntil(ended: AbortSignal): Promise<void> {
    const { wakeUp } = this.#deps;
    if (wakeUp === undefined) return whenAborted(ended);
    for (;;) {
      try {
        await wakeUp.wait(ended);
      } catch (error) {
        if (ended.aborted) return;
        throw error;
      }
      this.check();
    }
  }

  #complete(index: number): boolean {
    if (this.#closed) return false;
    const job = this.#window.complete(index);
    if (job === undefined) return false;
    this.#handedOver.delete(index);
    if (this.#failure !== undefined) {
      this.#closeIfIdle();
      return true;
    }
    this.#finished.push(job);
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
        if (this.#failure === undefined) await this.#settle();
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
    if (!this.#stopping || this.#passing || this.#closed) return;
    if (this.#promises.size > 0 || this.#handedOver.size > 0) return;
    this.#closed = true;
    this.#stopped.resolve();
    this.#done.resolve();
  }

  async #handOut(): Promise<void> {
    if (!this.#mayTake()) return;
    const head = await this.#deps.jobs.head();
    while (this.#mayTake() && this.#window.next <= head) {
      const read = this.#read(this.#window.next);
      // Jobs that are available synchronously are handed out in one go.
      const job = isThenable(read) ? await read : read;
      if (job === undefined || !this.#mayTake()) return;
      this.#run(job);
      // A worker that finishes inside its own call would otherwise pile up completions all the way to the head.
      if (this.#finished.length > 0) await this.#settle();
    }
  }

  #mayTake(): boolean {
    return !this.#stopping && this.#failure === undefined && this.#window.mayTake();
  }

  #run(job: J): void {
    const index = this.#window.take(job);
    const returned = this.#deps.worker.run(job, () => {
      this.#complete(index);
    });
    if (isThenable(returned)) this.#awaitReturn(returned);
    else if (this.#window.isRunning(index)) this.#handedOver.add(index);
  }

  /** The job lasts until its worker's promise settles. */
  #awaitReturn(returned: Promise<void>): void {
    this.#promises.add(returned);
    const hasReturned = (): void => {
      this.#promises.delete(returned);
      this.#closeIfIdle();
    };
    returned.then(hasReturned, (error: unknown) => {
      this.#fail(error);
      hasReturned();
    });
  }

  /** The job at an index; `undefined` while there is none, or while it cannot be read, which is reported to the hook. */
  #read(index: number): J | undefined | Promise<J | undefined> {
    const unreadable = (error: unknown): undefined => {
      if (!(error instanceof JobNotReadableError)) throw error;
      this.#deps.hooks?.notReadable?.(index, error);
    };
    try {
      const job = this.#deps.jobs.atIndex(index);
      return isThenable(job) ? job.then(undefined, unreadable) : job;
    } catch (error) {
      unreadable(error);
      return undefined;
    }
  }

  /** Accounts for everything finished since the last time: hooks around one write of progress, only if P moved. */
  async #settle(): Promise<void> {
    const jobs = this.#finished;
    this.#finished = [];
    const isOurs = this.#deps.progress.setProcessedIndex !== undefined;
    const processed = isOurs
      ? this.#window.contiguous()
      : ((await this.#deps.progress.processedIndex()) ?? this.#window.processed);
    await this.#callHook('pre', jobs, processed);
    if (processed !== this.#window.processed) {
      await this.#deps.progress.setProcessedIndex?.(processed);
      this.#window.moveTo(processed);
    }
    await this.#callHook('post', jobs, processed);
    if (jobs.length > 0) this.#deps.wakes?.notify();
  }

  /** Awaits only promises: hundreds of jobs whose hooks return nothing do not cost a promise each. */
  async #callHook(name: 'pre' | 'post', jobs: readonly J[], progress: number): Promise<void> {
    const { hooks } = this.#deps;
    if (hooks?.[name] === undefined) return;
    for (const job of jobs) {
      const returned = hooks[name](job, progress);
      if (isThenable(returned)) await returned;
    }
  }
}

/** A promise with its resolve and reject functions. */
function deferred() {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

/** Declares that a promise's rejection is delivered elsewhere as well. */
function handledElsewhere(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}

/** Callers in plain JavaScript may return anything. */
function isThenable<T>(returned: T | Promise<T>): returned is Promise<T> {
  return typeof (returned as Partial<Promise<T>> | undefined)?.then === 'function';
}

function requireInteger(name: string, value: number, lowest: number): void {
  if (!Number.isSafeInteger(value) || value < lowest)
    throw new RangeError(`${name} must be an integer of at least ${lowest}, not ${value}`);
}
