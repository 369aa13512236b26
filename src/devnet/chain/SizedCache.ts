/** Keeps the most recently used items, up to a total size. */
export class SizedCache<Value> {
  readonly #maxSize: number;
  /** Least recently used first. */
  readonly #entries = new Map<number, { readonly value: Value; readonly size: number }>();
  #size = 0;

  constructor({ maxSize }: { readonly maxSize: number }) {
    this.#maxSize = maxSize;
  }

  get(key: number): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Items larger than the whole cache are not kept. */
  set(key: number, value: Value, size: number): void {
    this.#remove(key);
    if (size > this.#maxSize) return;
    this.#entries.set(key, { value, size });
    this.#size += size;
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= this.#maxSize) return;
      this.#remove(oldest);
    }
  }

  #remove(key: number): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }
}
