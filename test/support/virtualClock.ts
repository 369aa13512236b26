import type { Clock, Timer } from '../../src/runtime/index.js';

interface PendingTimer {
  readonly dueAtMs: number;
  readonly callback: () => void;
}

/** In the order of their due times; equal ones in the order in which they were set. */
class VirtualTimers {
  /** The latest first, so that the next one is taken from the end. */
  readonly #timers: PendingTimer[] = [];

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

/**
 * Stands still until a test moves it. Timers fire in the order of their due times (equal ones as they were set), and all that
 * they set in motion settles before the next: hours pass in milliseconds, always in the same sequence.
 */
export class VirtualClock implements Clock {
  readonly #epochMs: number;
  readonly #timers = new VirtualTimers();
  protected elapsedMs: number;

  constructor(epochMs = Date.UTC(2026, 0, 1), elapsedMs = 0) {
    this.#epochMs = epochMs;
    this.elapsedMs = elapsedMs;
  }

  now(): number {
    return this.#epochMs + this.elapsedMs;
  }

  monotonic(): number {
    return this.elapsedMs;
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    return this.#timers.add(this.elapsedMs + Math.max(0, delayMs), callback);
  }

  /** Timers that are set and neither fired nor cancelled: 0 after a clean stop. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Lets everything that needs no time happen: promises, streams in memory, timers that are due. */
  settle(): Promise<void> {
    return this.advance(0);
  }

  /** Lets this turn of the event loop end: promises and streams in memory, no timers. */
  async turn(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Moves time on by `ms`, firing what falls due on the way. */
  async advance(ms: number): Promise<void> {
    const targetMs = this.elapsedMs + ms;
    await this.turn();
    while (this.step(targetMs)) await this.turn();
    this.elapsedMs = targetMs;
  }

  /** The process stands still: what fell due meanwhile fires late. */
  async standStill(ms: number): Promise<void> {
    this.elapsedMs += ms;
    await this.settle();
  }

  /** Moves from timer to timer until `condition` holds; throws when it does not within `limitMs`. Returns the time it took. */
  async advanceUntil(condition: () => boolean, limitMs = 3_600_000): Promise<number> {
    const startMs = this.elapsedMs;
    await this.turn();
    while (!condition()) {
      if (!this.step(startMs + limitMs))
        throw new Error(`the condition did not come to hold within ${limitMs} ms`);
      await this.turn();
    }
    return this.elapsedMs - startMs;
  }

  /** Fires the next timer that is due by then. False when there is none. */
  step(untilMs = Infinity): boolean {
    const timer = this.#timers.take(untilMs);
    if (timer === undefined) return false;
    this.elapsedMs = Math.max(this.elapsedMs, timer.dueAtMs);
    timer.callback();
    return true;
  }
}
