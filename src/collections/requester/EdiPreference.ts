import type { Metrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import type { FetchRate } from './FetchRate.js';
import type { ExecutionDataForecast } from '../ports.js';
import type { HeightRecord } from '../heights/HeightRecord.js';
import type { RequestOrder } from './RequestOrder.js';

/** A good length for `holdBackMs`. A stream that falls silent is counted on no longer, so its silence costs less. */
export const DEFAULT_HOLD_BACK_MS = 2_000;

/**
 * While it is not known how long fetching would take, the stream is counted on for what it brings within this time;
 * what lies beyond is asked for, and shows how long it takes.
 */
const UNTRIED_FETCH_MS = 500;

/** How often it is asked again whether a height that is held back is still expected. */
const CHECK_MS = 250;

export interface EdiPreferenceDependencies {
  /** Absent where execution data is not followed: nothing is held back then. */
  readonly outlook: ExecutionDataForecast | undefined;
  readonly order: Pick<RequestOrder, 'countThrough' | 'hold'>;
  readonly pace: Pick<FetchRate, 'durationMs'>;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'requestsHeldBack'>;
}

/**
 * A height is held back while the stream is expected to bring it before we could have fetched it, and never beyond its
 * time (docs/decisions/0003-hold-back.md). Judged when a call is about to leave, not when it was wished for: the stream
 * may have come near meanwhile, or fallen silent.
 */
export class EdiPreference {
  readonly #holdBackMs: number;
  readonly #dependencies: EdiPreferenceDependencies;

  /** `holdBackMs`: how long a height waits at most; 0 = never. */
  constructor(options: { readonly holdBackMs: number }, dependencies: EdiPreferenceDependencies) {
    this.#holdBackMs = options.holdBackMs;
    this.#dependencies = dependencies;
  }

  /** Milliseconds after which to ask again about a height that is held back from now on; `undefined`: it may leave. */
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
