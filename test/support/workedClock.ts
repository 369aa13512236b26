import type { Clock, Timer } from '../../src/runtime/index.js';
import { VirtualClock } from './virtualClock.js';

/** A virtual clock on which work takes time as well: what holds the event loop makes everything else later. */
export class WorkedClock implements Clock {
  readonly virtual = new VirtualClock();
  /** All the work so far. */
  workedMs = 0;

  work(ms: number): void {
    this.workedMs += ms;
  }

  now(): number {
    return this.virtual.now() + this.workedMs;
  }

  monotonic(): number {
    return this.virtual.monotonic() + this.workedMs;
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    return this.virtual.setTimer(delayMs, callback);
  }
}
