import type { IndexReader } from '../../storage/index.js';
import { rewound } from '../view/ApiError.js';

/**
 * Reads indexed heights through a cache of the latest ones, which all followers of the tip want. What was read before a
 * rewind is forgotten, and what is being read then is not kept.
 */
export class RecentHeights<T> {
  readonly #max: number;
  readonly #reader: Pick<IndexReader, 'rewinds'>;
  readonly #readHeight: (height: number) => Promise<T | undefined>;
  readonly #sizeOf: (value: T) => number;
  /** By height, in the order in which they were read. */
  readonly #kept = new Map<number, T>();
  #keptSize = 0;
  /** Reads in progress, shared by all callers that want the same height. */
  readonly #reading = new Map<number, Promise<T>>();
  #rewinds = 0;

  /** `max`: of all sizes together. */
  constructor(
    { max }: { readonly max: number },
    dependencies: {
      readonly reader: Pick<IndexReader, 'rewinds'>;
      /** `undefined`: the height is not indexed. */
      readonly read: (height: number) => Promise<T | undefined>;
      readonly sizeOf: (value: T) => number;
    },
  ) {
    this.#max = max;
    this.#reader = dependencies.reader;
    this.#readHeight = dependencies.read;
    this.#sizeOf = dependencies.sizeOf;
  }

  /** Expected errors: those of `read`; ApiError (rewound). */
  async get(height: number): Promise<T> {
    this.#forgetRewound();
    const kept = this.#kept.get(height);
    if (kept !== undefined) return kept;
    const known = this.#reading.get(height);
    if (known !== undefined) return known;
    const reading = this.#read(height);
    this.#reading.set(height, reading);
    try {
      const value = await reading;
      if (this.#reading.get(height) === reading) this.#keep(height, value);
      return value;
    } finally {
      if (this.#reading.get(height) === reading) this.#reading.delete(height);
    }
  }

  forget(height: number): void {
    const kept = this.#kept.get(height);
    if (kept !== undefined) this.#keptSize -= this.#sizeOf(kept);
    this.#kept.delete(height);
  }

  async #read(height: number): Promise<T> {
    const value = await this.#readHeight(height);
    // It was indexed when it was asked for.
    if (value === undefined) throw rewound(height);
    return value;
  }

  #forgetRewound(): void {
    const rewinds = this.#reader.rewinds();
    if (rewinds === this.#rewinds) return;
    this.#rewinds = rewinds;
    this.#reading.clear();
    for (const height of [...this.#kept.keys()]) this.forget(height);
  }

  #keep(height: number, value: T): void {
    this.#kept.set(height, value);
    this.#keptSize += this.#sizeOf(value);
    for (const oldest of this.#kept.keys()) {
      if (this.#keptSize <= this.#max) return;
      this.forget(oldest);
    }
  }
}
