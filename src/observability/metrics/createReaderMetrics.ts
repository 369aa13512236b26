import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { Registry } from 'prom-client';
import { connectionMetrics, latencyBuckets, metricMakers, upstreamRequests } from './metricMakers.js';
import type { MetricsSnapshot } from './mirrorMetrics.js';

/** Each kind has its own limit on how many are forwarded at once. */
const forwardedKinds = [
  { protocol: 'grpc', kind: 'call' },
  { protocol: 'grpc', kind: 'stream' },
  { protocol: 'rest', kind: 'call' },
] as const;

const NANOSECONDS_PER_SECOND = 1e9;
const LOOP_DELAY_RESOLUTION_MS = 20;

/** Every metric of a reader thread, made once per thread; otherwise like `createMetrics`. */
export function createReaderMetrics() {
  const registry = new Registry();
  const makers = metricMakers(registry);
  const { counter, gauge, histogram, scraped } = makers;
  const delay = monitorEventLoopDelay({ resolution: LOOP_DELAY_RESOLUTION_MS });
  delay.enable();
  scraped(
    'reader_event_loop_lag_p99_seconds',
    'How late the event loop of the reader thread is: the 99th percentile since the last scrape.',
    () => {
      const seconds = delay.percentile(99) / NANOSECONDS_PER_SECOND;
      delay.reset();
      return Number.isFinite(seconds) ? seconds : 0;
    },
  );
  scraped(
    'reader_heap_used_bytes',
    'Heap in use by the reader thread.',
    () => getHeapStatistics().used_heap_size,
  );
  const metrics = {
    registry,
    /** The current values, for another thread. */
    snapshot: (): Promise<MetricsSnapshot> => registry.getMetricsAsJSON(),
    apiRequests: counter(
      'api_requests_total{interface,route,status}',
      'Finished requests of callers, forwarded ones included, by interface (http or grpc), route (the pattern of a path; the path of a gRPC method) and status (of HTTP, or the name of a gRPC code).',
    ),
    apiLatency: histogram(
      'api_request_seconds{interface,route,status}',
      'Duration of the requests of callers, from their first byte to the end of the answer; streams left out.',
      latencyBuckets,
    ),
    forwardedCalls: counter(
      'forwarded_calls_total{protocol,method,outcome}',
      'Calls of callers that were to be forwarded, by outcome.',
    ),
    forwardedLatency: histogram(
      'forwarded_call_seconds{protocol,method}',
      'Duration of forwarded calls that a node answered, errors included; streams left out.',
      latencyBuckets,
    ),
    forwardedUnderWay: gauge(
      'forwarded_calls_in_flight{protocol,kind}',
      'Forwarded calls and streams under way.',
    ),
    ...connectionMetrics(makers),
    feedFollowers: gauge('feed_followers{kind}', 'Open streams of the change feed, by interface.'),
    feedEvents: counter('feed_events_total{kind}', 'Events of the change feed that callers took.'),
    feedFollowersCut: counter(
      'feed_followers_cut_total{kind}',
      'Streams of the change feed that were ended because the caller took nothing for too long.',
    ),
    upstreamRequests: upstreamRequests(makers),
  };
  for (const forwarded of forwardedKinds) metrics.forwardedUnderWay.set({ ...forwarded }, 0);
  return metrics;
}

/** All metrics; each part takes those that it updates by `Pick<ReaderMetrics, …>`. */
export type ReaderMetrics = ReturnType<typeof createReaderMetrics>;
