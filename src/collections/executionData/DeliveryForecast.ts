import { RunningAverage } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

export interface DeliveryForecastOptions {
  /** Most heights ahead of the stream that may be expected from it. */
  readonly lookaheadHeights: number;
  /** How long after its last sign of life a stream is still expected to deliver. */
  readonly freshMs: number;
}

/** Predicts what a stream will deliver, from its last sign of life and its pace. */
export class DeliveryForecast {
  readonly #options: DeliveryForecastOptions;
  readonly #clock: Clock;
  #aliveAtMs: number | undefined;
  /** Milliseconds per height while data was due. */
  readonly #heightMs = new RunningAverage({ weight: 1 / 16 });

  constructor(options: DeliveryForecastOptions, dependencies: { readonly clock: Clock }) {
    this.#options = options;
    this.#clock = dependencies.clock;
  }

  /** The stream opened without error, delivered, or is read again after we paused it. */
  alive(): void {
    this.#aliveAtMs = this.#clock.monotonic();
  }

  closed(): void {
    this.#aliveAtMs = undefined;
  }

  /** One height, due when it was requested, took this long until it was handed in. */
  took(durationMs: number): void {
    this.#heightMs.observe(durationMs);
  }

  /**
   * True when a height is expected within this time. `ahead`: its distance from the next height. A stream that we pause
   * does not go stale.
   */
  expects(ahead: number, withinMs: number, isPausedByUs: boolean): boolean {
    if (this.#aliveAtMs === undefined || ahead < 0 || ahead >= this.#options.lookaheadHeights) return false;
    if (!isPausedByUs && this.#clock.monotonic() - this.#aliveAtMs > this.#options.freshMs) return false;
    return (ahead + 1) * (this.#heightMs.value ?? 0) <= withinMs;
  }
}
