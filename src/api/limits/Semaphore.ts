import { unlessAborted } from '../../runtime/index.js';

/** Lets a fixed number of tasks run at once; the others wait, first come, first served. */
export class Semaphore {
  #free: number;
  /** The owner bounds how many wait. */
  readonly #waiting = new Set<() => void>();

  constructor(options: { readonly places: number }) {
    this.#free = options.places;
  }

  /** Whoever aborts leaves the queue at once. Expected errors: those of the task; the signal's abort reason. */
  async run<T>(task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else
      await unlessAborted(signal, (resolve) => {
        this.#waiting.add(resolve);
        return () => void this.#waiting.delete(resolve);
      });
    try {
      return await task();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
