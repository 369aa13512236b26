/** Maximum keys per read: a page of large values would block the event loop. A larger request goes alone. */
const MAX_KEYS = 32;

type Values = readonly (Buffer | undefined)[];

interface PendingRead {
  readonly keys: readonly Buffer[];
  readonly resolve: (values: (Buffer | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Combines the reads of one turn of the event loop into one. Most of the cost of a small read is the round trip to
 * another thread, which is now paid once for all of them.
 */
export class ReadBatcher {
  readonly #read: (keys: Buffer[]) => Promise<Values>;
  #pending: PendingRead[] = [];
  #keys = 0;

  /** `read`: the values of some keys, in order, all from one moment. */
  constructor(dependencies: { readonly read: (keys: Buffer[]) => Promise<Values> }) {
    this.#read = dependencies.read;
  }

  /** The values of some keys, all from one moment, not before the call. Expected errors: those of `read`. */
  getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return new Promise((resolve, reject) => {
      if (this.#keys + keys.length > MAX_KEYS) this.#flush();
      if (this.#pending.length === 0) setImmediate(() => this.#flush());
      this.#pending.push({ keys, resolve, reject });
      this.#keys += keys.length;
    });
  }

  #flush(): void {
    const reads = this.#pending;
    if (reads.length === 0) return;
    this.#pending = [];
    this.#keys = 0;
    const share = (values: Values): void => {
      let from = 0;
      for (const { keys, resolve } of reads) resolve(values.slice(from, (from += keys.length)));
    };
    this.#read(reads.flatMap(({ keys }) => keys)).then(share, () => {
      // One unreadable record must not fail the other reads.
      for (const { keys, resolve, reject } of reads)
        this.#read([...keys]).then((values) => resolve([...values]), reject);
    });
  }
}
