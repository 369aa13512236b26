/** Those who want to hear of an event. A listener must not throw; it may leave while it is being told. */
export class Listeners<T = void> {
  readonly #listeners = new Set<(event: T) => void>();

  /** Returns a function that ends it. */
  add(listener: (event: T) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** In the order in which they came. */
  tell(event: T): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}
