import type { ReaderMetrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

export type ApiMetrics = Pick<ReaderMetrics, 'apiRequests' | 'apiLatency'>;

/**
 * Called when a request has arrived. Call the returned function with its status when it is over; only the first call counts.
 * `route` is one of a bounded number of names. A lasting request, such as a stream, has no meaningful duration.
 */
export type CountRequest = (route: string, how: { readonly isLasting: boolean }) => (status: string) => void;

/** Counts the requests of one interface, each once, when it is over. What is absent of the metrics is not counted. */
export function requestCounter(
  name: 'http' | 'grpc',
  { clock, metrics = {} }: { readonly clock: Clock; readonly metrics?: Partial<ApiMetrics> | undefined },
): CountRequest {
  const { apiLatency, apiRequests } = metrics;
  return (route, { isLasting }) => {
    const beganAtMs = clock.monotonic();
    let isOver = false;
    return (status) => {
      if (isOver) return;
      isOver = true;
      const labels = { interface: name, route, status };
      apiRequests?.inc(labels);
      if (!isLasting) apiLatency?.observe(labels, (clock.monotonic() - beganAtMs) / 1_000);
    };
  };
}
