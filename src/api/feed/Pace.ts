import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** Of the event loop's time, for all followers together, while indexing has work to do. */
const SHARE_BESIDE_INDEXING = 0.25;
/** The same while the index is at the head. */
const SHARE_AT_HEAD = 0.75;
/** Work after which it rests. */
const SLICE_MS = 4;
/** What one read of a block takes of the event loop at most; the rest of the time it waits for the disk. */
const READ_COST_MS = 0.2;

/**
 * Keeps the feed from slowing indexing down: one event per turn of the event loop, one read at a time, and after each slice
 * of work a rest that makes it the stated share.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #isIndexingBusy: () => boolean;
  #spentMs = 0;

  constructor(options: { readonly isIndexingBusy: () => boolean }, dependencies: { readonly clock: Clock }) {
    this.#isIndexingBusy = options.isIndexingBusy;
    this.#clock = dependencies.clock;
  }

  /** Before every piece of work. */
  async turn(): Promise<void> {
    const spentMs = this.#spentMs;
    if (spentMs < SLICE_MS) return sleep(this.#clock, 0);
    this.#spentMs = 0;
    const share = this.#isIndexingBusy() ? SHARE_BESIDE_INDEXING : SHARE_AT_HEAD;
    return sleep(this.#clock, (spentMs * (1 - share)) / share);
  }

  /** Counts work that holds the event loop. */
  work(task: () => void): void {
    const startedMs = this.#clock.monotonic();
    task();
    this.#spentMs += this.#clock.monotonic() - startedMs;
  }

  /** Counts a read. */
  async read<T>(task: () => Promise<T>): Promise<T> {
    const startedMs = this.#clock.monotonic();
    const result = await task();
    this.#spentMs += Math.min(READ_COST_MS, this.#clock.monotonic() - startedMs);
    return result;
  }
}
