import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

/** The metrics of what is forwarded. */
export type ForwardMetrics = Pick<ReaderMetrics, 'forwardedCalls' | 'forwardedLatency' | 'forwardedUnderWay'>;

/** What became of a call that was to be forwarded. */
export type ForwardedOutcome =
  | 'answered'
  /** With an error of the node's, that was passed on. */
  | 'failed'
  /** No node had what the index has not: the index's own refusal was told. */
  | 'missed'
  | 'unreachable'
  /** The connection broke. */
  | 'lost'
  | 'busy'
  /** The thread that indexes did not say in time whether the node takes it. */
  | 'silent'
  /** The node took too long. */
  | 'overdue'
  /** Not sent: there was something wrong with it. */
  | 'refused'
  /** The caller left. */
  | 'cancelled';

/** The outcomes that come from a node. The others say nothing about how long nodes take. */
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

  /** A call that was not even begun. `method` is one of a bounded number of names, here and below. */
  turnedAway(method: string, outcome: 'busy' | 'refused'): void {
    this.#metrics?.forwardedCalls.inc({ protocol: this.#protocol, method, outcome });
  }

  /** A call that is under way; the function that comes back is to be called when it is over. Only the first time counts. */
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
