import { unlessAborted } from '../cancellation/abort.js';

/** A pending timer. `cancel()` does nothing once it has fired. */
export interface Timer {
  cancel(): void;
}

/**
 * Time as a dependency, so that the simulation can run hours in milliseconds. Nothing else reads the machine's
 * clock or sets a timer.
 */
export interface Clock {
  /** Wall-clock milliseconds since the Unix epoch. May jump: only for logs and display. */
  now(): number;
  /** Monotonic milliseconds, for durations, deadlines and freshness. */
  monotonic(): number;
  /**
   * Runs `callback` once after `delayMs`; with 0, after everything already due. A pending timer keeps the process
   * alive.
   */
  setTimer(delayMs: number, callback: () => void): Timer;
}

/** `setTimeout` fires at once for longer delays. */
const LONGEST_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (delayMs, callback) => {
    if (delayMs === 0) {
      // setTimeout(0) would wait a millisecond.
      const immediate = setImmediate(callback);
      return { cancel: () => clearImmediate(immediate) };
    }
    let handle: ReturnType<typeof setTimeout>;
    const wait = (restMs: number): void => {
      const partMs = Math.min(restMs, LONGEST_MS);
      handle = setTimeout(() => (partMs < restMs ? wait(restMs - partMs) : callback()), partMs);
    };
    wait(delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
};

/**
 * Waits `delayMs`. Rejects with the signal's reason as soon as it aborts, and leaves no timer behind. Expected
 * errors: the signal's abort reason.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return unlessAborted(signal, (resolve) => {
    const timer = clock.setTimer(delayMs, resolve);
    return () => timer.cancel();
  });
}

/** Waits for work, but no longer than this. Expected errors: those of the work. */
export function within<T>(clock: Clock, limitMs: number, work: Promise<T>): Promise<T | 'late'> {
  return new Promise((resolve, reject) => {
    const limit = clock.setTimer(limitMs, () => resolve('late'));
    void work.then(resolve, reject).finally(() => limit.cancel());
  });
}

/** Runs the action after each `intervalMs` until cancelled, which the action may do itself. */
export function every(clock: Clock, intervalMs: number, action: () => void): Timer {
  let timer: Timer;
  const wait = (): void => {
    timer = clock.setTimer(intervalMs, () => {
      wait();
      action();
    });
  };
  wait();
  return { cancel: () => timer.cancel() };
}
