import { unlessAborted } from '../../runtime/index.js';
import type { Notifiable, WakeUp } from '../types.js';

/**
 * One slot for "there may be work". Any number of `notify` calls without a waiter make one wake-up; a `notify` while the
 * waiter is working is kept, and causes exactly one more round. A wake-up is never lost: neither if it comes before there
 * is a waiter, nor if a waiter is cancelled.
 */
export class WorkSignal implements WakeUp, Notifiable {
  #pending = false;
  #wake: (() => void) | undefined;

  notify(): void {
    if (this.#wake === undefined) this.#pending = true;
    else this.#wake();
  }

  /**
   * Resolves at the next wake-up, at once when one is pending. One waiter at a time. Expected errors: the signal's
   * abort reason.
   */
  wait(signal?: AbortSignal): Promise<void> {
    if (this.#wake !== undefined) throw new Error('a WorkSignal wakes one waiter, and it already has one');
    if (this.#pending && signal?.aborted !== true) {
      this.#pending = false;
      return Promise.resolve();
    }
    return unlessAborted(signal, (resolve) => {
      this.#wake = resolve;
      return () => (this.#wake = undefined);
    });
  }
}
