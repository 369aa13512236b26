// Queries of the dashboard, for the instances that are selected at its top.
const PREFIX = 'flow_collection_indexer_';
const SELECTED = 'instance=~"$instance"';

/** A query and the legend of its series. */
export type Query = readonly [expr: string, legend: string];

/** One of the daemon's own metrics. `where`: further matchers, such as `source="edi"`. */
export function own(name: string, where = ''): string {
  return `${PREFIX}${name}{${SELECTED}${where === '' ? '' : `, ${where}`}}`;
}

/** A metric that every Node.js process has. */
export function ofProcess(name: string): string {
  return `${name}{${SELECTED}}`;
}

/** Per second, summed over all labels but those in `by`. */
export function rate(name: string, by: readonly string[] = [], where = ''): string {
  return summed(`rate(${own(name, where)}[$__rate_interval])`, by);
}

/** The increase within the interval of one point of the graph. */
export function increase(name: string, by: readonly string[] = [], where = ''): string {
  return summed(`increase(${own(name, where)}[$__rate_interval])`, by);
}

/** The mean of what a histogram observed. */
export function mean(histogram: string, by: readonly string[] = []): string {
  return `${rate(`${histogram}_sum`, by)} / ${rate(`${histogram}_count`, by)}`;
}

/** The 50th, 90th and 99th percentile of a histogram. */
export function quantiles(histogram: string, by: readonly string[] = []): readonly Query[] {
  const legend = ['{{instance}}', ...by.map((label) => `{{${label}}}`)].join(' ');
  return [0.5, 0.9, 0.99].map((share) => [
    `histogram_quantile(${share}, ${rate(`${histogram}_bucket`, [...by, 'le'])})`,
    `${legend} p${share * 100}`,
  ]);
}

/** Several gauges with the same unit, for one panel. */
export function gauges(names: Readonly<Record<string, string>>): readonly Query[] {
  return Object.entries(names).map(([name, legend]) => [own(name), `{{instance}} ${legend}`]);
}

function summed(expr: string, by: readonly string[]): string {
  return `sum by (${['instance', ...by].join(', ')}) (${expr})`;
}
