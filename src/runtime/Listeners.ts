/** The listeners of an event. A listener must not throw; it may unsubscribe while it is being called. */
export class Listeners<T = void> {
  readonly #listeners = new Set<(event: T) => void>();

  /** Returns a function that unsubscribes. */
  add(listener: (event: T) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** In the order of subscription. */
  tell(event: T): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}
