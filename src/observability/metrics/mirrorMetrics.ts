import { AggregatorRegistry, prometheusContentType } from 'prom-client';
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';

/** The values of a registry at one moment. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics of consecutive threads: keeps the counts of ended threads, and the current thread's latest report until
 * the next one arrives.
 */
export function mirrorMetrics() {
  /** The sum over the threads that have ended: counters and histograms. */
  let before: MetricsSnapshot | undefined;
  let last: MetricsSnapshot | undefined;
  const all = (): readonly MetricsSnapshot[] => [before, last].filter((snapshot) => snapshot !== undefined);
  return {
    all,
    update: (snapshot: MetricsSnapshot): void => void (last = snapshot),
    /** The thread has ended: its gauges are gone. */
    ended: (): void => {
      // At run time `type` is a word, though prom-client's types declare a number.
      const counted = all().map((snapshot) => snapshot.filter(({ type }) => String(type) !== 'gauge'));
      // The value goes straight back into prom-client, whose types do not describe it.
      const sum = (): unknown => AggregatorRegistry.aggregate(counted).getMetricsAsArray();
      before = counted.length === 0 ? undefined : (sum() as MetricsSnapshot);
      last = undefined;
    },
  };
}

/** One page from a registry and the reports of other threads. */
export async function mergedPage(
  own: Registry,
  others: readonly MetricsSnapshot[],
): Promise<{ readonly contentType: string; readonly text: string }> {
  // prom-client omits start times, because processes of a cluster differ in them. Here there is only one process.
  const kept = (await own.getMetricsAsJSON()).map((metric) => ({
    ...metric,
    aggregator: metric.aggregator === 'omit' ? ('first' as const) : metric.aggregator,
  }));
  const all = [kept, ...others];
  return { contentType: prometheusContentType, text: await AggregatorRegistry.aggregate(all).metrics() };
}
