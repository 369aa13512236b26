import type { Clock } from '../../../runtime/index.js';
import type { Symptoms } from './Symptoms.js';

/** Execution data exists up to the sealed head, which moves in leaps; waiting this long for it is normal. */
const SEALING_PAUSES_MS = 10_000;

type ProgressSymptoms = Pick<
  Symptoms,
  'phase' | 'latestIndexedHeight' | 'target' | 'sealedHeight' | 'sealedAgeMs'
>;

/** Tracks since when the watermark has not moved, with and without work to do. */
export class Progress {
  readonly #ediOnly: boolean;
  readonly #clock: Clock;
  readonly #symptoms: ProgressSymptoms;
  readonly #startedAtMs: number;
  #watermark: number;
  #progressAtMs: number;
  #indexedAtMs: number;

  constructor(
    options: { readonly ediOnly: boolean },
    dependencies: { readonly clock: Clock; readonly symptoms: ProgressSymptoms },
  ) {
    this.#ediOnly = options.ediOnly;
    this.#clock = dependencies.clock;
    this.#symptoms = dependencies.symptoms;
    this.#startedAtMs = this.#progressAtMs = this.#indexedAtMs = this.#clock.monotonic();
    this.#watermark = dependencies.symptoms.latestIndexedHeight();
  }

  /** When the watermark moved last, or there was nothing to do; as of the last `note`. */
  get atMs(): number {
    return this.#progressAtMs;
  }

  /** When the watermark moved last, or the start; as of the last `note`. */
  get indexedAtMs(): number {
    return this.#indexedAtMs;
  }

  /** Call it when the watermark has moved, and regularly: a daemon without work makes progress by definition. */
  note(): void {
    const watermark = this.#symptoms.latestIndexedHeight();
    const target = this.#symptoms.phase() === 'running' ? this.#symptoms.target() : undefined;
    const isIdle = target === undefined || watermark >= target || this.#waitsForSealing(watermark + 1);
    const nowMs = this.#clock.monotonic();
    if (watermark !== this.#watermark) this.#progressAtMs = this.#indexedAtMs = nowMs;
    else if (isIdle) this.#progressAtMs = nowMs;
    this.#watermark = watermark;
  }

  /** Execution data follows the sealed head, some seconds behind the finalized one. */
  #waitsForSealing(height: number): boolean {
    if (!this.#ediOnly || height <= (this.#symptoms.sealedHeight() ?? -1)) return false;
    const movesMs = this.#symptoms.sealedAgeMs() ?? this.#clock.monotonic() - this.#startedAtMs;
    return movesMs < SEALING_PAUSES_MS;
  }
}
