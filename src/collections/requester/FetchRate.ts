import { RunningAverage } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** How much one answer moves the averages. */
const AVERAGE = { weight: 1 / 32 };

/**
 * How fast collections come when as many are asked for as may be: measured from answer to answer, and only while it was
 * the nodes, their slots or their rate limits that kept more calls from leaving. Three numbers.
 */
export class FetchRate {
  readonly #clock: Clock;
  readonly #callMs = new RunningAverage(AVERAGE);
  readonly #intervalMs = new RunningAverage(AVERAGE);
  /** Of the last answer; `undefined` when since then there was a moment in which no call had to wait. */
  #answeredAtMs: number | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  /** A call brought its collection. */
  answered(callMs: number): void {
    this.#callMs.observe(callMs);
    const nowMs = this.#clock.monotonic();
    if (this.#answeredAtMs !== undefined) this.#intervalMs.observe(nowMs - this.#answeredAtMs);
    this.#answeredAtMs = nowMs;
  }

  /** Everything that may be asked for is: the pace is that of the wishes, not of the nodes. */
  idles(): void {
    this.#answeredAtMs = undefined;
  }

  /** Expected time until so many more have come; `undefined` before there is any data. */
  durationMs(collections: number): number | undefined {
    const [call, interval] = [this.#callMs.value, this.#intervalMs.value];
    return call === undefined || interval === undefined ? undefined : call + collections * interval;
  }
}
