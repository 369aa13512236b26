import type { JobNotReadableError } from './JobNotReadableError.js';
/** Identifies a job for `notifyJobIsDone`. Two indexes may carry the same id without blocking each other. */
export type JobId = string;

/** One piece of work. `Jobs` and `Worker` agree on what else it carries. */
export interface Job {
  readonly id: JobId;
}

/**
 * The source of jobs: consecutive indexes. `atIndex` returns `undefined` while there is no job at that index yet;
 * `head` is the latest index that is safe to ask for, and nothing above it is asked for. Both may answer synchronously
 * or asynchronously.
 *
 * Expected errors of `atIndex`: `JobNotReadableError`. Anything else thrown by either stops the consumer.
 */
export interface Jobs<J extends Job> {
  atIndex(index: number): J | undefined | Promise<J | undefined>;
  head(): number | Promise<number>;
}

/**
 * Does the work. It must call `done` exactly once, from inside `run` or any time later. It never fails: it retries.
 * Anything it throws stops the consumer.
 *
 * The result determines how long `stop` waits for the job: a promise, until it settles (so keep it pending while working
 * on the job); nothing, until `done` is called.
 */
export interface Worker<J extends Job> {
  run(job: J, done: () => void): void | Promise<void>;
}

/**
 * The highest index P such that every index up to P is finished. It never goes down. A progress that its owner writes,
 * together with the data, omits `setProcessedIndex`, and the consumer only reads it; the owner must move it before
 * calling the job's `done`, or call `check` afterwards.
 */
export interface ConsumerProgress {
  /** `undefined` while nothing has been stored: the consumer then starts from its default index. */
  processedIndex(): number | undefined | Promise<number | undefined>;
  setProcessedIndex?(index: number): void | Promise<void>;
}

/**
 * Called once per finished job. A promise is awaited; anything a hook throws stops the consumer. `progress` is P once
 * this job is accounted for.
 */
export interface JobHooks<J extends Job> {
  /** Before progress moves: at least once per job, whatever crashes. */
  pre?(job: J, progress: number): void | Promise<void>;
  /** After progress moved: may be lost in a crash. The place for one queue to wake the next. */
  post?(job: J, progress: number): void | Promise<void>;
  /** The job at `index` could not be read this time; the next check tries again. */
  notReadable?(index: number, error: JobNotReadableError): void;
}

/** Wakes a consumer: resolves once per wake-up, however many arrived. Expected errors: the signal's reason. */
export interface WakeUp {
  wait(signal: AbortSignal): Promise<void>;
}

/** The other end of a `WakeUp`. Never blocks, never queues more than one wake-up. */
export interface Notifiable {
  notify(): void;
}
