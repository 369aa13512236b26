import type { Job, JobId } from '../types.js';

/**
 * The bookkeeping of a consumer, without I/O or callbacks. Jobs are handed out in ascending order without gaps, so
 * three facts suffice: every index up to `processed` is finished, every index below `next` was handed out, and those in
 * between either run or wait, finished, for the gap below them to close. Each operation is amortised O(1), whatever the
 * size of the window.
 */
export class JobWindow<J extends Job> {
  readonly #maxProcessing: number;
  readonly #maxSearchAhead: number;
  readonly #running = new Map<number, J>();
  readonly #runningById = new Map<JobId, Set<number>>();
  readonly #doneAboveGap = new Set<number>();
  /** The lowest possible P: the first index of a queue may be 0. */
  #processed = -1;
  #next = 0;

  constructor(options: { readonly maxProcessing: number; readonly maxSearchAhead: number }) {
    this.#maxProcessing = options.maxProcessing;
    this.#maxSearchAhead = options.maxSearchAhead;
  }

  get processed(): number {
    return this.#processed;
  }

  /** The lowest index that was not handed out yet. */
  get next(): number {
    return this.#next;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  /** Jobs that are running, or finished above a gap. */
  get size(): number {
    return this.#running.size + this.#doneAboveGap.size;
  }

  /** True when a slot is free and the next index is within the search bound. */
  mayTake(): boolean {
    return (
      this.#running.size < this.#maxProcessing &&
      (this.#maxSearchAhead === 0 || this.#next - this.#processed <= this.#maxSearchAhead)
    );
  }

  /** Marks the next index as running. */
  take(job: J): number {
    if (!this.mayTake()) throw new Error(`job ${this.#next} would break the bounds of the queue`);
    const index = this.#next;
    this.#next = index + 1;
    this.#running.set(index, job);
    const sameId = this.#runningById.get(job.id);
    if (sameId === undefined) this.#runningById.set(job.id, new Set([index]));
    else sameId.add(index);
    return index;
  }

  isRunning(index: number): boolean {
    return this.#running.has(index);
  }

  /** The lowest running index of a job id. */
  runningIndex(id: JobId): number | undefined {
    return this.#runningById.get(id)?.values().next().value;
  }

  /** Marks a running index as finished and returns its job; `undefined` when it is not running. */
  complete(index: number): J | undefined {
    const job = this.#running.get(index);
    if (job === undefined) return undefined;
    this.#running.delete(index);
    const sameId = this.#runningById.get(job.id);
    sameId?.delete(index);
    if (sameId?.size === 0) this.#runningById.delete(job.id);
    if (index > this.#processed) this.#doneAboveGap.add(index);
    return job;
  }

  /** How far P could move now: through everything finished without a gap. */
  contiguous(): number {
    let index = this.#processed;
    while (this.#doneAboveGap.has(index + 1)) index += 1;
    return index;
  }

  /** Moves P up. An owner who moves it may skip indexes that were never handed out. */
  moveTo(processed: number): void {
    if (processed < this.#processed)
      throw new Error(`progress went down from ${this.#processed} to ${processed}`);
    if (processed - this.#processed <= this.#doneAboveGap.size) {
      for (let index = this.#processed + 1; index <= processed; index += 1) this.#doneAboveGap.delete(index);
    } else {
      for (const index of this.#doneAboveGap) if (index <= processed) this.#doneAboveGap.delete(index);
    }
    this.#processed = processed;
    this.#next = Math.max(this.#next, processed + 1);
  }
}
