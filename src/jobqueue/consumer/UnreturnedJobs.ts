/** The jobs that `stop` waits for. How long each lasts depends on what its worker returned (see `Worker`). */
export class UnreturnedJobs {
  readonly #onReturn: () => void;
  readonly #onError: (error: unknown) => void;
  /** Jobs whose worker returned a promise … */
  readonly #promises = new Set<Promise<void>>();
  /** … and the indexes of those whose worker returned nothing and will call `done` later. */
  readonly #handedOver = new Set<number>();

  constructor(dependencies: {
    /** A promise has settled. */
    readonly onReturn: () => void;
    /** A promise was rejected; `onReturn` follows. */
    readonly onError: (error: unknown) => void;
  }) {
    this.#onReturn = dependencies.onReturn;
    this.#onError = dependencies.onError;
  }

  get any(): boolean {
    return this.#promises.size > 0 || this.#handedOver.size > 0;
  }

  /** The job lasts until its worker's promise settles. */
  until(returned: Promise<void>): void {
    this.#promises.add(returned);
    const hasReturned = (): void => {
      this.#promises.delete(returned);
      this.#onReturn();
    };
    returned.then(hasReturned, (error: unknown) => {
      this.#onError(error);
      hasReturned();
    });
  }

  /** The job lasts until it is done. */
  untilDone(index: number): void {
    this.#handedOver.add(index);
  }

  done(index: number): void {
    this.#handedOver.delete(index);
  }

  /** Stops waiting for them. */
  abandon(): void {
    this.#promises.clear();
    this.#handedOver.clear();
  }
}
