import { RunningAverage } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** The weight of one answer in the averages. */
const AVERAGE = { weight: 1 / 32 };

/**
 * How fast collections arrive at full load: measured from answer to answer, and only while nodes, slots or rate limits
 * kept further calls waiting. Three numbers.
 */
export class FetchRate {
  readonly #clock: Clock;
  readonly #callMs = new RunningAverage(AVERAGE);
  readonly #intervalMs = new RunningAverage(AVERAGE);
  /** The time of the last answer; `undefined` if at some moment since then no call had to wait. */
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

  /** Everything that may be requested has been: from now on the pace depends on demand, not on the nodes. */
  idles(): void {
    this.#answeredAtMs = undefined;
  }

  /** Expected time until this many more have arrived; `undefined` before there is any data. */
  durationMs(collections: number): number | undefined {
    const [call, interval] = [this.#callMs.value, this.#intervalMs.value];
    return call === undefined || interval === undefined ? undefined : call + collections * interval;
  }
}
