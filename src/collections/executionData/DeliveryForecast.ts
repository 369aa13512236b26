import { RunningAverage } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

export interface DeliveryForecastOptions {
  /** Heights ahead of the stream that may be counted on at most. */
  readonly lookaheadHeights: number;
  /** How long after its last sign of life a stream is counted on. */
  readonly freshMs: number;
}

/** What may be counted on from a stream: judged by its last sign of life and by its pace. */
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

  /** The stream was opened in good order, delivered, or is read again after a pause of ours. */
  alive(): void {
    this.#aliveAtMs = this.#clock.monotonic();
  }

  closed(): void {
    this.#aliveAtMs = undefined;
  }

  /** One height took this long from asking for it until it was handed in, although it was due when asked for. */
  took(durationMs: number): void {
    this.#heightMs.observe(durationMs);
  }

  /**
   * True when a height is counted on within this time. `ahead`: how far it is above the one that comes next. A stream
   * that we keep waiting does not go stale.
   */
  expects(ahead: number, withinMs: number, isPausedByUs: boolean): boolean {
    if (this.#aliveAtMs === undefined || ahead < 0 || ahead >= this.#options.lookaheadHeights) return false;
    if (!isPausedByUs && this.#clock.monotonic() - this.#aliveAtMs > this.#options.freshMs) return false;
    return (ahead + 1) * (this.#heightMs.value ?? 0) <= withinMs;
  }
}
