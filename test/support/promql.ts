/** A selector of a query: the metric and its matchers. */
export interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

const METRIC = /\b(flow_collection_indexer_\w+|process_\w+|nodejs_\w+|up|ALERTS)\b(?:\{([^}]*)\})?/g;
const MATCHER = /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g;

/** The metrics that a query reads. Prometheus itself is the judge of its grammar (`npm run test:promtool`). */
export function selectorsIn(expr: string): readonly Selector[] {
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
