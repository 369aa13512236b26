/** What a stream has brought so far, for tests that wait for it; their own time limit bounds each wait. */
export class Arrivals<T> {
  protected readonly arrived: T[] = [];
  #isOver = false;
  #error: Error | undefined;
  #wake = (): void => undefined;

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The first `count`, once they are there. Rejects when the stream ends before, with the error that it ends with. */
  async first(count: number): Promise<readonly T[]> {
    await this.#until(() => this.arrived.length >= count);
    if (this.arrived.length < count)
      throw this.#error ?? new Error(`the stream ended after ${JSON.stringify(this.arrived)}`);
    return this.arrived.slice(0, count);
  }

  /** Resolves with the error that the stream ended with, if it did with one. */
  async over(): Promise<Error | undefined> {
    await this.#until(() => false);
    return this.#error;
  }

  protected arrives(item: T): void {
    this.arrived.push(item);
    this.#wake();
  }

  protected ends(error?: Error): void {
    this.#isOver = true;
    this.#error ??= error;
    this.#wake();
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds() && !this.#isOver) await new Promise<void>((resolve) => (this.#wake = resolve));
  }
}
