import type { Clock, Timer } from '../../../runtime/index.js';
import { KeyedHeap } from './KeyedHeap.js';

export interface TimerQueueDependencies<K> {
  readonly clock: Clock;
  /** The keys that are due, earliest first; none when only a wake-up was due. */
  onDue(keys: readonly K[]): void;
}

/**
 * Many delays behind one timer of the clock. A cancelled delay may leave one idle wake-up behind; there is never more
 * than one timer, and none when nothing is delayed.
 */
export class TimerQueue<K> {
  readonly #clock: Clock;
  readonly #onDue: (keys: readonly K[]) => void;
  readonly #due = new KeyedHeap<K>();
  #lookAtMs = Infinity;
  #timer: { readonly timer: Timer; readonly atMs: number } | undefined;

  constructor(dependencies: TimerQueueDependencies<K>) {
    this.#clock = dependencies.clock;
    this.#onDue = (keys) => dependencies.onDue(keys);
  }

  /** Starts or restarts the key's delay. */
  set(key: K, delayMs: number): void {
    this.#due.set(key, this.#clock.monotonic() + delayMs);
    this.#arm();
  }

  /** Shortens the key's delay to this, if it has a longer one. */
  hasten(key: K, delayMs: number): void {
    if (this.#due.has(key) && this.#due.priorityOf(key) > this.#clock.monotonic() + delayMs)
      this.set(key, delayMs);
  }

  /** Nothing is delayed. */
  get isEmpty(): boolean {
    return this.#due.size === 0;
  }

  has(key: K): boolean {
    return this.#due.has(key);
  }

  delete(key: K): void {
    if (this.#due.delete(key)) this.#disarmIfIdle();
  }

  /**
   * Sets or replaces the wake-up without a key; `undefined` cancels it. Whole milliseconds: a delay below the clock's
   * resolution would be due at once, again and again.
   */
  lookAgainIn(delayMs: number | undefined): void {
    this.#lookAtMs = delayMs === undefined ? Infinity : this.#clock.monotonic() + Math.ceil(delayMs);
    if (delayMs === undefined) this.#disarmIfIdle();
    else this.#arm();
  }

  clear(): void {
    this.#due.clear();
    this.#lookAtMs = Infinity;
    this.#disarmIfIdle();
  }

  #nextAtMs(): number {
    return Math.min(this.#lookAtMs, this.#due.peekPriority());
  }

  #arm(): void {
    const atMs = this.#nextAtMs();
    if (atMs === Infinity || (this.#timer !== undefined && this.#timer.atMs <= atMs)) return;
    this.#timer?.timer.cancel();
    const delayMs = Math.max(0, Math.ceil(atMs - this.#clock.monotonic()));
    this.#timer = { timer: this.#clock.setTimer(delayMs, () => this.#fire()), atMs };
  }

  #disarmIfIdle(): void {
    if (this.#timer === undefined || this.#nextAtMs() !== Infinity) return;
    this.#timer.timer.cancel();
    this.#timer = undefined;
  }

  #fire(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonic();
    const looking = this.#lookAtMs <= nowMs;
    if (looking) this.#lookAtMs = Infinity;
    const keys: K[] = [];
    while (this.#due.peekPriority() <= nowMs) {
      const key = this.#due.peek() as K;
      this.#due.delete(key);
      keys.push(key);
    }
    this.#arm();
    if (looking || keys.length > 0) this.#onDue(keys);
  }
}
