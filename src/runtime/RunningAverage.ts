/** An exponentially weighted average of sizes or durations. */
export class RunningAverage {
  readonly #options: ConstructorParameters<typeof RunningAverage>[0];
  #value: number | undefined;

  constructor(options: {
    /** The weight of one observation: the share of the difference by which it moves the average. */
    readonly weight: number;
    /** The average before the first observation; without it the first observation is the average. */
    readonly initial?: number;
    /** Observations are clamped to these bounds. */
    readonly min?: number;
    readonly max?: number;
  }) {
    this.#options = options;
    this.#value = options.initial;
  }

  /** `undefined` before the first observation. */
  get value(): number | undefined {
    return this.#value;
  }

  observe(value: number): void {
    const { weight, min = -Infinity, max = Infinity } = this.#options;
    const bounded = Math.min(max, Math.max(min, value));
    this.#value = this.#value === undefined ? bounded : this.#value + (bounded - this.#value) * weight;
  }
}
