import { Counter, Gauge, Histogram } from 'prom-client';
import type { Registry } from 'prom-client';

export const PREFIX = 'flow_collection_indexer_';

export const latencyBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** Makes the metrics of one registry. */
export function metricMakers(registry: Registry) {
  const registers = [registry];
  return {
    counter: <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Counter<L>({ name: PREFIX + name, help, labelNames: [...labelNames], registers }),
    gauge: <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Gauge<L>({ name: PREFIX + name, help, labelNames: [...labelNames], registers }),
    histogram: <L extends string>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: readonly L[] = [],
    ) => new Histogram<L>({ name: PREFIX + name, help, buckets, labelNames: [...labelNames], registers }),
  };
}

/** Both threads have ports. */
export function connectionMetrics({ counter, gauge }: ReturnType<typeof metricMakers>) {
  return {
    connections: gauge('connections', 'Open connections of callers, by port (api, grpc, metrics).', ['port']),
    connectionsLimit: gauge(
      'connections_limit',
      'How many connections a port may have: api.maxConnections, or its share of the files that the process may open.',
      ['port'],
    ),
    connectionsCut: counter(
      'connections_cut_total',
      'Connections that the daemon cut, by reason: make_room (all were taken, and this one was idle or stuck), no_room (a new one, while all others were busy), unread (its caller did not take an answer), overdue (a call or an answer did not end), talkative (it sent more than its calls account for).',
      ['port', 'reason'],
    ),
  };
}
export type ConnectionMetrics = ReturnType<typeof connectionMetrics>;

/** Both threads call access nodes, so both have this metric. */
export function upstreamRequests({ counter }: Pick<ReturnType<typeof metricMakers>, 'counter'>) {
  return counter('upstream_requests_total', 'Calls sent to access nodes.', ['endpoint', 'method']);
}
