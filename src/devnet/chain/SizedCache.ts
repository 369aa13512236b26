/** Keeps what was used last, up to a sum of sizes. */
export class SizedCache<Value> {
  readonly #maxSize: number;
  /** The one that was not used for longest comes first. */
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

  /** What is larger than all that may be kept is not kept. */
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
