import type { Clock, Timer } from '../../src/runtime/index.js';
import { VirtualTimers } from '../support/virtualTimers.js';

/** The wall clock at the beginning of every run. */
const EPOCH_MS = 1_600_000_000_000;

/**
 * The time of a simulated world: it moves from timer to timer, and what a timer sets in motion settles before the next
 * one fires. Equal due times fire in the order in which they were set, so that one seed is one sequence.
 */
export class SimulatedClock implements Clock {
  readonly #timers = new VirtualTimers();
  #elapsedMs = 0;
  /** By how much the wall clock has been set forward or back. */
  wallJumpMs = 0;

  now(): number {
    return EPOCH_MS + this.#elapsedMs + this.wallJumpMs;
  }

  monotonic(): number {
    return this.#elapsedMs;
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const delay = Number.isFinite(delayMs) ? Math.max(0, delayMs) : Number.MAX_SAFE_INTEGER;
    return this.#timers.add(this.#elapsedMs + delay, callback);
  }

  /** Fires the next timer. False when there is none. */
  step(): boolean {
    const timer = this.#timers.take();
    if (timer === undefined) return false;
    this.#elapsedMs = Math.max(this.#elapsedMs, timer.dueAtMs);
    timer.callback();
    return true;
  }

  /** Lets everything happen that needs no time. */
  settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * The clock as one process sees it. When the process dies its timers never fire: whatever it was about to do stays
 * undone.
 */
export class ProcessClock implements Clock {
  readonly #world: SimulatedClock;
  readonly #pending = new Set<object>();
  #isDead = false;

  constructor(world: SimulatedClock) {
    this.#world = world;
  }

  now(): number {
    return this.#world.now();
  }

  monotonic(): number {
    return this.#world.monotonic();
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const token = {};
    this.#pending.add(token);
    const timer = this.#world.setTimer(delayMs, () => {
      this.#pending.delete(token);
      if (!this.#isDead) callback();
    });
    return {
      cancel: () => {
        this.#pending.delete(token);
        timer.cancel();
      },
    };
  }

  /** Timers that are set and neither fired nor cancelled. */
  get pendingTimers(): number {
    return this.#pending.size;
  }

  kill(): void {
    this.#isDead = true;
  }
}
