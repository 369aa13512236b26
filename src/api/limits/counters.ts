import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

export type ApiMetrics = Pick<ReaderMetrics, 'apiRequests' | 'apiLatency'>;
export type ForwardMetrics = Pick<ReaderMetrics, 'forwardedCalls' | 'forwardedLatency' | 'forwardedUnderWay'>;

/**
 * Called when a request has arrived. Call the returned function with its status when it is over; only the first call counts.
 * `route` is one of a bounded number of names. A lasting request, such as a stream, has no meaningful duration.
 */
export type CountRequest = (route: string, how: { readonly isLasting: boolean }) => (status: string) => void;

/** Counts the requests of one interface, each once, when it is over. Absent metrics are not counted. */
export function requestCounter(
  name: 'http' | 'grpc',
  { clock, metrics }: { readonly clock: Clock; readonly metrics: Partial<ApiMetrics> },
): CountRequest {
  const { apiLatency, apiRequests } = metrics;
  return (route, { isLasting }) =>
    timed(clock, (status: string, seconds) => {
      const labels = { interface: name, route, status };
      apiRequests?.inc(labels);
      if (!isLasting) apiLatency?.observe(labels, seconds);
    });
}

/** Calls `end` at the first call, with the time since now. */
function timed<T>(clock: Clock, end: (outcome: T, seconds: number) => void): (outcome: T) => void {
  const beganAtMs = clock.monotonic();
  let isOver = false;
  return (outcome) => {
    if (isOver) return;
    isOver = true;
    end(outcome, (clock.monotonic() - beganAtMs) / 1_000);
  };
}

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

/** Counts what one interface forwards. `method` is one of a bounded number of names. */
export type ForwardCounter = ReturnType<typeof forwardCounter>;

export function forwardCounter(
  protocol: 'grpc' | 'rest',
  { clock, metrics }: { readonly clock: Clock; readonly metrics: ForwardMetrics },
) {
  return {
    /** A call that was not begun. */
    turnedAway: (method: string, outcome: 'busy' | 'refused'): void =>
      metrics.forwardedCalls.inc({ protocol, method, outcome }),
    /** A call has begun. Call the returned function when it is over; only the first call counts. */
    begin: (method: string, kind: 'call' | 'stream'): ((outcome: ForwardedOutcome) => void) => {
      metrics.forwardedUnderWay.inc({ protocol, kind });
      return timed(clock, (outcome, seconds) => {
        metrics.forwardedUnderWay.dec({ protocol, kind });
        metrics.forwardedCalls.inc({ protocol, method, outcome });
        if (kind === 'call' && fromNode.has(outcome))
          metrics.forwardedLatency.observe({ protocol, method }, seconds);
      });
    },
  };
}
