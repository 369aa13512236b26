import { AggregatorRegistry, prometheusContentType } from 'prom-client';
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';

/** The values of a registry at one moment. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics that consecutive threads reported: the counts of ended threads are kept, and the current thread's
 * latest report is valid until the next one arrives.
 */
export class MirroredMetrics {
  /** The sum over the threads that have ended: counters and histograms. */
  #before: MetricsSnapshot | undefined;
  #last: MetricsSnapshot | undefined;

  update(snapshot: MetricsSnapshot): void {
    this.#last = snapshot;
  }

  /** The thread has ended: its gauges are gone. */
  ended(): void {
    const counted = this.all().map((snapshot) => snapshot.filter(({ type }) => !isGauge(type)));
    // The value goes straight back into prom-client, whose types do not describe it.
    const sum = (): unknown => AggregatorRegistry.aggregate(counted).getMetricsAsArray();
    this.#before = counted.length === 0 ? undefined : (sum() as MetricsSnapshot);
    this.#last = undefined;
  }

  all(): readonly MetricsSnapshot[] {
    return [this.#before, this.#last].filter((snapshot) => snapshot !== undefined);
  }
}

/** One page from a registry and the reports of others. */
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

/** A snapshot holds the type as a word, where prom-client's types declare a number. */
function isGauge(type: unknown): boolean {
  return type === 'gauge';
}
