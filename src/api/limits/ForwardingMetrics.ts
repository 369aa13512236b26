import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

export type ForwardMetrics = Pick<ReaderMetrics, 'forwardedCalls' | 'forwardedLatency' | 'forwardedUnderWay'>;

/** How a forwarded call ended. */
export type ForwardedOutcome =
  | 'answered'
  /** The node returned an error, which was passed on. */
  | 'failed'
  /** No node had what the index lacks: the caller got the index's refusal. */
  | 'missed'
  | 'unreachable'
  /** The connection broke. */
  | 'lost'
  | 'busy'
  /** The indexing thread did not answer in time whether the call may be sent. */
  | 'silent'
  /** The node took too long. */
  | 'overdue'
  /** Not sent: the request was wrong, or forwarding is off. */
  | 'refused'
  /** The caller left. */
  | 'cancelled';

/** Outcomes decided by a node. Only these say how long nodes take. */
const fromNode: ReadonlySet<ForwardedOutcome> = new Set<ForwardedOutcome>(['answered', 'failed', 'missed']);

/** Counts what one interface forwards. */
export class ForwardingMetrics {
  readonly #protocol: 'grpc' | 'rest';
  readonly #clock: Clock;
  readonly #metrics: ForwardMetrics | undefined;

  constructor(
    options: { readonly protocol: 'grpc' | 'rest' },
    dependencies: { readonly clock: Clock; readonly metrics?: ForwardMetrics | undefined },
  ) {
    this.#protocol = options.protocol;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
  }

  /** A call that was not begun. `method` is one of a bounded number of names, here and below. */
  turnedAway(method: string, outcome: 'busy' | 'refused'): void {
    this.#metrics?.forwardedCalls.inc({ protocol: this.#protocol, method, outcome });
  }

  /** A call has begun. Call the returned function when it is over; only the first call counts. */
  begin(method: string, kind: 'call' | 'stream'): (outcome: ForwardedOutcome) => void {
    const metrics = this.#metrics;
    if (metrics === undefined) return () => undefined;
    const protocol = this.#protocol;
    const beganAtMs = this.#clock.monotonic();
    metrics.forwardedUnderWay.inc({ protocol, kind });
    let isOver = false;
    return (outcome) => {
      if (isOver) return;
      isOver = true;
      metrics.forwardedUnderWay.dec({ protocol, kind });
      metrics.forwardedCalls.inc({ protocol, method, outcome });
      if (kind === 'stream' || !fromNode.has(outcome)) return;
      metrics.forwardedLatency.observe({ protocol, method }, (this.#clock.monotonic() - beganAtMs) / 1_000);
    };
  }
}
