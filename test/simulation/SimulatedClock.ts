import type { Clock, Timer } from '../../src/runtime/index.js';

interface PendingTimer {
  readonly dueAtMs: number;
  readonly order: number;
  readonly callback: () => void;
  cancelled: boolean;
}

/** The wall clock at the beginning of every run. */
const EPOCH_MS = 1_600_000_000_000;

/**
 * The time of a simulated world: it moves from timer to timer, and what a timer sets in motion settles before the next
 * one fires. Equal due times fire in the order in which they were set, so that one seed is one sequence.
 */
export class SimulatedClock implements Clock {
  /** A binary heap, the earliest on top. */
  readonly #heap: PendingTimer[] = [];
  #elapsedMs = 0;
  #order = 0;
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
    const timer: PendingTimer = {
      dueAtMs: this.#elapsedMs + delay,
      order: this.#order++,
      callback,
      cancelled: false,
    };
    this.#push(timer);
    return { cancel: () => void (timer.cancelled = true) };
  }

  /** Fires the next timer. False when there is none. */
  step(): boolean {
    for (;;) {
      const timer = this.#pop();
      if (timer === undefined) return false;
      if (timer.cancelled) continue;
      this.#elapsedMs = Math.max(this.#elapsedMs, timer.dueAtMs);
      timer.callback();
      return true;
    }
  }

  /** Lets everything happen that needs no time. */
  settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  #push(timer: PendingTimer): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(timer);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(timer, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = timer;
  }

  #pop(): PendingTimer | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (top === undefined || last === undefined || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function isBefore(left: PendingTimer, right: PendingTimer): boolean {
  return left.dueAtMs < right.dueAtMs || (left.dueAtMs === right.dueAtMs && left.order < right.order);
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
