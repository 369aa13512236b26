export interface SizeEstimateOptions {
  /** The estimate before anything was seen. */
  readonly initialBytes: number;
  readonly minBytes: number;
  readonly maxBytes: number;
}

/** How much one observation moves the average. */
const WEIGHT = 1 / 16;

/** How large the next answer may be: a running average of what was seen, held between two bounds. */
export class SizeEstimate {
  readonly #options: SizeEstimateOptions;
  #averageBytes: number;

  constructor(options: SizeEstimateOptions) {
    this.#options = options;
    this.#averageBytes = options.initialBytes;
  }

  get bytes(): number {
    return Math.ceil(this.#averageBytes);
  }

  observe(bytes: number): void {
    const bounded = Math.min(this.#options.maxBytes, Math.max(this.#options.minBytes, bytes));
    this.#averageBytes += (bounded - this.#averageBytes) * WEIGHT;
  }
}
