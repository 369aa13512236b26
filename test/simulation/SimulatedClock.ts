import type { Clock, Timer } from '../../src/runtime/index.js';
import { VirtualClock } from '../support/virtualClock.js';

/** The wall clock at the beginning of every run. */
const EPOCH_MS = 1_600_000_000_000;

/**
 * The time of a simulated world: it moves from timer to timer, and what a timer sets in motion settles before the next
 * one fires. Equal due times fire in the order in which they were set, so that one seed is one sequence.
 */
export class SimulatedClock extends VirtualClock {
  /** By how much the wall clock has been set forward or back. */
  wallJumpMs = 0;

  constructor() {
    super(EPOCH_MS);
  }

  override now(): number {
    return super.now() + this.wallJumpMs;
  }

  override setTimer(delayMs: number, callback: () => void): Timer {
    return super.setTimer(Number.isFinite(delayMs) ? delayMs : Number.MAX_SAFE_INTEGER, callback);
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
