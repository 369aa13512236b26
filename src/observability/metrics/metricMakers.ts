import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const PREFIX = 'flow_collection_indexer_';

export const latencyBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** The labels of `name{label,label}`. */
type LabelsOf<Written extends string> = Written extends `${string}{${infer Labels}}` ? Each<Labels> : never;
type Each<Labels extends string> = Labels extends `${infer First},${infer Rest}`
  ? First | Each<Rest>
  : Labels;

/** Makes the metrics of one registry; each is written as `name` or `name{label,label}`. */
export function metricMakers(registry: Registry) {
  const described = <W extends string>(written: W, help: string) => {
    const [name = '', ...labels] = written.split(/[{,}]/).filter((part) => part !== '');
    return { name: PREFIX + name, help, labelNames: labels as LabelsOf<W>[], registers: [registry] };
  };
  return {
    /** A gauge that is read at each scrape; absent while the value is `undefined`. */
    scraped: (name: string, help: string, read: () => number | undefined) =>
      new Gauge({
        ...described(name, help),
        collect() {
          const value = read();
          if (value === undefined) this.remove();
          else this.set(value);
        },
      }),
    /** The same with labels: a series for each entry; none while there are no entries. */
    scrapedEach: <W extends string>(
      written: W,
      help: string,
      read: () => Iterable<readonly [labels: Record<LabelsOf<W>, string>, value: number]> | undefined,
    ) =>
      new Gauge<LabelsOf<W>>({
        ...described(written, help),
        collect() {
          this.reset();
          for (const [labels, value] of read() ?? []) this.set(labels, value);
        },
      }),
    counter: <W extends string>(written: W, help: string) =>
      new Counter<LabelsOf<W>>(described(written, help)),
    gauge: <W extends string>(written: W, help: string) => new Gauge<LabelsOf<W>>(described(written, help)),
    histogram: <W extends string>(written: W, help: string, buckets: number[]) =>
      new Histogram<LabelsOf<W>>({ ...described(written, help), buckets }),
  };
}

/** Both threads have ports. */
export function connectionMetrics({ counter, gauge }: ReturnType<typeof metricMakers>) {
  return {
    connections: gauge('connections{port}', 'Open connections of callers, by port (api, grpc, metrics).'),
    connectionsLimit: gauge(
      'connections_limit{port}',
      'How many connections a port may have: api.maxConnections, or its share of the files that the process may open.',
    ),
    connectionsCut: counter(
      'connections_cut_total{port,reason}',
      'Connections that the daemon cut, by reason: make_room (all were taken, and this one was idle or stuck), no_room (a new one, while all others were busy), unread (its caller did not take an answer), overdue (a call or an answer did not end), talkative (it sent more than its calls account for).',
    ),
  };
}
export type ConnectionMetrics = ReturnType<typeof connectionMetrics>;

/** Both threads call access nodes, so both have this metric. */
export function upstreamRequests({ counter }: Pick<ReturnType<typeof metricMakers>, 'counter'>) {
  return counter('upstream_requests_total{endpoint,method}', 'Calls sent to access nodes.');
}
