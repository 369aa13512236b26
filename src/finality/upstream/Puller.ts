import { abortReason } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { expectOnlyItsEnd } from './cancellation.js';

/** How long one read may take. */
export interface PullLimit {
  readonly clock: Clock;
  readonly limitMs: number;
}

export type Pulled<T> = IteratorResult<T, unknown> | 'silent';

/**
 * A stream read one item at a time, whose pending read ends at once when the signal aborts, and as 'silent' when it takes
 * longer than `limitMs`. It does not rely on the stream to notice that it was cancelled. One listener and one timer for
 * the whole stream: one of each per item costs more than the items of a fast stream. Leave it when done with it.
 */
export class Puller<T> {
  readonly #iterator: AsyncIterator<T>;
  readonly #signal: AbortSignal;
  readonly #limit: PullLimit | undefined;
  #pending: { resolve(result: Pulled<T>): void; reject(error: Error): void } | undefined;
  #pulledAtMs = 0;
  #timer: Timer | undefined;

  constructor(iterator: AsyncIterator<T>, signal: AbortSignal, limit?: PullLimit) {
    this.#iterator = iterator;
    this.#signal = signal;
    this.#limit = limit;
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** The next item; one read at a time. Expected errors: those of the stream, and the signal's abort reason. */
  pull(): Promise<Pulled<T>> {
    if (this.#signal.aborted) return Promise.reject(abortReason(this.#signal));
    return new Promise((resolve, reject) => {
      const pending = { resolve, reject };
      this.#pending = pending;
      this.#watch();
      this.#iterator.next().then(
        (result) => {
          if (this.#pending === pending) this.#pending = undefined;
          resolve(result);
        },
        (error: unknown) => {
          if (this.#pending === pending) this.#pending = undefined;
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      );
    });
  }

  /** Says that nothing more will be read. It waits for nothing: a stream that hangs cannot hold its reader. */
  leave(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#iterator.return?.().catch(expectOnlyItsEnd);
  }

  /** The timer of an earlier read serves this one too: when it fires it is set again for the rest. */
  #watch(): void {
    if (this.#limit === undefined) return;
    this.#pulledAtMs = this.#limit.clock.monotonic();
    this.#timer ??= this.#setTimer(this.#limit, this.#limit.limitMs);
  }

  #setTimer(limit: PullLimit, delayMs: number): Timer {
    return limit.clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      const pending = this.#pending;
      if (pending === undefined) return;
      const restMs = this.#pulledAtMs + limit.limitMs - limit.clock.monotonic();
      if (restMs > 0) {
        this.#timer = this.#setTimer(limit, restMs);
        return;
      }
      this.#pending = undefined;
      pending.resolve('silent');
    });
  }

  readonly #onAbort = (): void => {
    this.#pending?.reject(abortReason(this.#signal));
    this.#pending = undefined;
  };
}
