import type { Clock, Timer } from '../../runtime/index.js';

/**
 * A binary heap with keyed entries, so that any entry can be moved or removed: every operation is O(log n), and there
 * are no stale entries. Entries of equal priority come in no particular order.
 */
class KeyedHeap<K> {
  readonly #keys: K[] = [];
  readonly #priorities: number[] = [];
  readonly #places = new Map<K, number>();

  get size(): number {
    return this.#keys.length;
  }

  /** The key with the smallest priority. */
  peek(): K | undefined {
    return this.#keys[0];
  }

  /** The smallest priority; Infinity when empty. */
  peekPriority(): number {
    return this.#priorities[0] ?? Infinity;
  }

  /** Infinity for a key that is not in the heap. */
  priorityOf(key: K): number {
    const place = this.#places.get(key);
    return place === undefined ? Infinity : this.#priority(place);
  }

  has(key: K): boolean {
    return this.#places.has(key);
  }

  /** Adds the key, or moves it. */
  set(key: K, priority: number): void {
    const place = this.#places.get(key) ?? this.#keys.length;
    this.#put(place, key, priority);
    this.#settle(place);
  }

  /** False when the key was not in the heap. */
  delete(key: K): boolean {
    const place = this.#places.get(key);
    if (place === undefined) return false;
    this.#places.delete(key);
    const lastKey = this.#keys.pop();
    const lastPriority = this.#priorities.pop();
    if (place < this.#keys.length && lastKey !== undefined && lastPriority !== undefined) {
      this.#put(place, lastKey, lastPriority);
      this.#settle(place);
    }
    return true;
  }

  clear(): void {
    this.#keys.length = 0;
    this.#priorities.length = 0;
    this.#places.clear();
  }

  /** Moves one entry up or down to where it belongs. */
  #settle(start: number): void {
    let place = start;
    while (place > 0 && this.#swapIfSmaller(place, (place - 1) >> 1)) place = (place - 1) >> 1;
    for (;;) {
      const child = this.#smallerChild(place);
      if (child === undefined || !this.#swapIfSmaller(child, place)) return;
      place = child;
    }
  }

  #smallerChild(place: number): number | undefined {
    const left = 2 * place + 1;
    if (left >= this.#keys.length) return undefined;
    const right = left + 1;
    return this.#priority(right) < this.#priority(left) ? right : left;
  }

  #swapIfSmaller(lower: number, upper: number): boolean {
    if (this.#priority(lower) >= this.#priority(upper)) return false;
    const key = this.#keys[lower] as K;
    const priority = this.#priority(lower);
    this.#put(lower, this.#keys[upper] as K, this.#priority(upper));
    this.#put(upper, key, priority);
    return true;
  }

  #put(place: number, key: K, priority: number): void {
    this.#keys[place] = key;
    this.#priorities[place] = priority;
    this.#places.set(key, place);
  }

  #priority(place: number): number {
    return this.#priorities[place] ?? Infinity;
  }
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

  /** `onDue` is called with the keys that are due, earliest first; with none when only a wake-up was due. */
  constructor(clock: Clock, onDue: (keys: readonly K[]) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
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
