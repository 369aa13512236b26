import { isAbort, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { Metrics } from '../metrics/createMetrics.js';
import { changeOf, readTotals } from './totals.js';
import type { CountedMetrics, NodeTotals, Totals, WorkTotals } from './totals.js';

/** How often the metrics are read. */
const SAMPLE_MS = 2_000;
const MINUTE_MS = 60_000;
/** How many whole minutes are kept, besides the current one. */
export const MAX_MINUTES = 60;
/** What "now" means for rates. */
const RATE_WINDOW_MS = 30_000;
const MAX_RECENT = RATE_WINDOW_MS / SAMPLE_MS + 1;

/** What was done in one minute, or in the part of it that has passed. */
export interface Minute extends WorkTotals {
  /** Since it began. */
  readonly ageSeconds: number;
}

/** What was done in a stretch of time. */
export interface Stretch {
  readonly seconds: number;
  readonly work: WorkTotals;
  /** Calls by access node. */
  readonly nodes: ReadonlyMap<string, NodeTotals>;
}

/**
 * What the daemon has done in the last hour, minute by minute. It counts nothing itself: it samples the metrics every
 * two seconds, and keeps the samples from the start of each of the last 60 minutes and from the last half minute.
 */
export class LastHour {
  readonly #clock: Clock;
  readonly #metrics: CountedMetrics;
  /** At the beginning of each minute, the current one last. At most MAX_MINUTES + 1. */
  readonly #minutes: Totals[] = [];
  /** At most MAX_RECENT. */
  readonly #recent: Totals[] = [];

  constructor(dependencies: {
    readonly clock: Clock;
    readonly metrics: Pick<Metrics, keyof CountedMetrics>;
  }) {
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
  }

  /** Samples until the signal aborts, then resolves. No expected errors. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        this.#keep(await readTotals(this.#metrics, this.#clock.monotonic()));
        await sleep(this.#clock, SAMPLE_MS, signal);
      }
    } catch (error) {
      if (!isAbort(error)) throw error;
    }
  }

  /** Oldest first, the current minute last: 61 at most. */
  minutes(): readonly Minute[] {
    const latest = this.#recent.at(-1);
    if (latest === undefined) return [];
    const nowMs = this.#clock.monotonic();
    return this.#minutes.map((begin, index) => ({
      ageSeconds: (nowMs - begin.atMs) / 1_000,
      ...changeOf(begin, this.#minutes[index + 1] ?? latest).work,
    }));
  }

  /** The last half minute; `undefined` before the second sample. */
  now(): Stretch | undefined {
    return stretchOf(this.#recent);
  }

  /** From the beginning of the oldest minute kept. */
  hour(): Stretch | undefined {
    const latest = this.#recent.at(-1);
    return latest && stretchOf([this.#minutes[0] ?? latest, latest]);
  }

  #keep(totals: Totals): void {
    this.#recent.push(totals);
    while (this.#recent.length > MAX_RECENT) this.#recent.shift();
    const began = this.#minutes.at(-1);
    if (began === undefined || totals.atMs - began.atMs >= MINUTE_MS) this.#minutes.push(totals);
    while (this.#minutes.length > MAX_MINUTES + 1) this.#minutes.shift();
  }
}

function stretchOf(samples: readonly Totals[]): Stretch | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  return { seconds: (last.atMs - first.atMs) / 1_000, ...changeOf(first, last) };
}
