import type { Metrics } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import type { FetchRate } from '../FetchRate.js';
import type { ExecutionDataForecast } from '../../ports.js';
import type { HeightRecord } from '../../heights/HeightRecord.js';
import type { RequestOrder } from './RequestOrder.js';

/** A good value for `holdBackMs`. The silence of a stream costs less: it is then no longer expected to deliver. */
export const DEFAULT_HOLD_BACK_MS = 2_000;

/**
 * While the fetch time is unknown, heights that the stream is expected to deliver within this time are held back; later
 * ones are requested, which measures the fetch time.
 */
const UNTRIED_FETCH_MS = 500;

/** How often to check whether a held-back height is still expected. */
const CHECK_MS = 250;

export interface EdiPreferenceDependencies {
  /** Absent when execution data is not followed: nothing is held back then. */
  readonly outlook: ExecutionDataForecast | undefined;
  readonly order: Pick<RequestOrder, 'countThrough' | 'hold'>;
  readonly pace: Pick<FetchRate, 'durationMs'>;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'requestsHeldBack'>;
}

/**
 * Holds a height back while the stream is expected to deliver it sooner than a request would, and never longer than
 * `holdBackMs` (docs/decisions/0003-hold-back.md). Decides when a call is about to be sent, not when it is queued: the
 * stream may have caught up meanwhile, or fallen silent.
 */
export class EdiPreference {
  readonly #holdBackMs: number;
  readonly #dependencies: EdiPreferenceDependencies;

  /** `holdBackMs`: how long a height waits at most; 0 = never. */
  constructor(options: { readonly holdBackMs: number }, dependencies: EdiPreferenceDependencies) {
    this.#holdBackMs = options.holdBackMs;
    this.#dependencies = dependencies;
  }

  /** Milliseconds after which to check a held-back height again; `undefined`: it may be requested. */
  hold(record: HeightRecord): number | undefined {
    const { clock, metrics, order, outlook, pace } = this.#dependencies;
    const { height } = record;
    if (this.#holdBackMs <= 0 || outlook === undefined) return undefined;
    const fetchMs = pace.durationMs(order.countThrough(height)) ?? UNTRIED_FETCH_MS;
    if (!outlook.expects(height, Math.min(fetchMs, this.#holdBackMs))) return undefined;
    const nowMs = clock.monotonic();
    const known = record.requests?.holdEndsAtMs;
    if (known !== undefined && known <= nowMs) return undefined;
    if (known === undefined) metrics.requestsHeldBack.inc();
    const endsAtMs = order.hold(record, nowMs + this.#holdBackMs);
    return Math.min(endsAtMs - nowMs, CHECK_MS);
  }
}
