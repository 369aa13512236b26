import type { Timer } from '../../src/runtime/index.js';

interface PendingTimer {
  readonly dueAtMs: number;
  readonly callback: () => void;
}

/** The timers of a virtual time, in the order of their due times; equal ones in the order in which they were set. */
export class VirtualTimers {
  /** The latest first, so that the next one is taken from the end. */
  readonly #timers: PendingTimer[] = [];

  /** Set and neither taken nor cancelled. */
  get size(): number {
    return this.#timers.length;
  }

  add(dueAtMs: number, callback: () => void): Timer {
    const timer = { dueAtMs, callback };
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#timers[middle]!.dueAtMs > dueAtMs) low = middle + 1;
      else high = middle;
    }
    this.#timers.splice(low, 0, timer);
    const cancel = (): void => {
      const at = this.#timers.lastIndexOf(timer);
      if (at !== -1) this.#timers.splice(at, 1);
    };
    return { cancel };
  }

  /** The next one that is due by then, which is none of them any more. */
  take(untilMs = Infinity): PendingTimer | undefined {
    const next = this.#timers.at(-1);
    return next !== undefined && next.dueAtMs <= untilMs ? this.#timers.pop() : undefined;
  }
}
