/** Lets a fixed number of tasks run at once; the others wait, first come, first served. */
export class Semaphore {
  #free: number;
  /** The owner bounds how many wait. */
  readonly #waiting: (() => void)[] = [];

  constructor(options: { readonly places: number }) {
    this.#free = options.places;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
