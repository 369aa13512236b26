import type { Clock, Timer } from '../../src/runtime/index.js';
import { VirtualClock } from '../support/virtualClock.js';

/** The wall clock at the beginning of every run. */
const EPOCH_MS = 1_600_000_000_000;

/** It moves from timer to timer; equal due times fire in the order in which they were set, so that one seed is one sequence. */
export class SimulatedClock extends VirtualClock {
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

/** As one process sees it. When that dies its timers never fire: whatever it was about to do stays undone. */
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

  get pendingTimers(): number {
    return this.#pending.size;
  }

  kill(): void {
    this.#isDead = true;
  }
}
