import type { Clock, Timer } from '../../runtime/index.js';

/**
 * Many delays behind one timer of the clock. A cancelled delay may leave one idle wake-up behind; there is never more
 * than one timer, and none when nothing is delayed. When the timer fires it looks at every key: the window bounds them.
 */
export class TimerQueue<K> {
  readonly #clock: Clock;
  readonly #onDue: (keys: readonly K[]) => void;
  /** By key, when it is due: monotonic milliseconds. */
  readonly #due = new Map<K, number>();
  #lookAtMs = Infinity;
  #timer: { readonly timer: Timer; readonly atMs: number } | undefined;

  /** `onDue` is called with the keys that are due, earliest first; with none when only a wake-up was due. */
  constructor(clock: Clock, onDue: (keys: readonly K[]) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Starts or restarts the key's delay. */
  set(key: K, delayMs: number): void {
    const atMs = this.#clock.monotonic() + delayMs;
    this.#due.set(key, atMs);
    this.#arm(atMs);
  }

  /** Shortens the key's delay to this, if it has a longer one. */
  hasten(key: K, delayMs: number): void {
    if ((this.#due.get(key) ?? -Infinity) > this.#clock.monotonic() + delayMs) this.set(key, delayMs);
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
   * Sets or replaces the wake-up without a key; Infinity cancels it. Whole milliseconds: a delay below the clock's
   * resolution would be due at once, again and again.
   */
  lookAgainIn(delayMs: number): void {
    this.#lookAtMs = this.#clock.monotonic() + Math.ceil(delayMs);
    if (delayMs === Infinity) this.#disarmIfIdle();
    else this.#arm(this.#lookAtMs);
  }

  clear(): void {
    this.#due.clear();
    this.#lookAtMs = Infinity;
    this.#disarmIfIdle();
  }

  #arm(atMs: number): void {
    if (atMs === Infinity || (this.#timer !== undefined && this.#timer.atMs <= atMs)) return;
    this.#timer?.timer.cancel();
    const delayMs = Math.max(0, Math.ceil(atMs - this.#clock.monotonic()));
    this.#timer = { timer: this.#clock.setTimer(delayMs, () => this.#fire()), atMs };
  }

  #disarmIfIdle(): void {
    if (this.#due.size > 0 || this.#lookAtMs !== Infinity) return;
    this.#timer?.timer.cancel();
    this.#timer = undefined;
  }

  #fire(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonic();
    const looking = this.#lookAtMs <= nowMs;
    if (looking) this.#lookAtMs = Infinity;
    const due: [key: K, atMs: number][] = [];
    let nextAtMs = this.#lookAtMs;
    for (const [key, atMs] of this.#due) {
      if (atMs <= nowMs) due.push([key, atMs]);
      else nextAtMs = Math.min(nextAtMs, atMs);
    }
    for (const [key] of due) this.#due.delete(key);
    this.#arm(nextAtMs);
    const keys = due.sort(([, a], [, b]) => a - b).map(([key]) => key);
    if (looking || keys.length > 0) this.#onDue(keys);
  }
}
