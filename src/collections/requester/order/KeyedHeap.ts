/**
 * A binary heap with keyed entries, so that any entry can be moved or removed: every operation is O(log n), and there
 * are no stale entries. Entries of equal priority come in no particular order.
 */
export class KeyedHeap<K> {
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
