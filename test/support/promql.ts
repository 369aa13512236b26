const METRIC = /\b(flow_collection_indexer_\w+|process_\w+|nodejs_\w+|up|ALERTS)\b(?:\{([^}]*)\})?/g;
const MATCHER = /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g;

/** The metrics that a query reads, each with its matchers. Prometheus itself is the judge of its grammar (`npm run test:promtool`). */
export function selectorsIn(expr: string) {
  return [...expr.matchAll(METRIC)].map(([, metric = '', inside = '']) => ({
    metric,
    matchers: [...inside.matchAll(MATCHER)].map(([, label = '', operator = '', value = '']) => ({
      label,
      operator,
      value,
    })),
  }));
}

/** The name of a histogram for the names of its parts. */
export function familyOf(metric: string, histograms: ReadonlySet<string>): string {
  const family = metric.replace(/_(?:bucket|sum|count)$/, '');
  return histograms.has(family) ? family : metric;
}
