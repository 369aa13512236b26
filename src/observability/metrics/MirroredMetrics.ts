import { AggregatorRegistry, prometheusContentType } from 'prom-client';
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';

/** The values of a registry at one moment. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics of consecutive threads, as they reported them: the counts of earlier ones stay, and the latest report
 * counts until a newer one arrives.
 */
export class MirroredMetrics {
  /** Of the threads that have ended: counters only. */
  #before: MetricsSnapshot | undefined;
  #last: MetricsSnapshot | undefined;

  told(snapshot: MetricsSnapshot): void {
    this.#last = snapshot;
  }

  /** The thread has ended: its gauges are gone. */
  ended(): void {
    const counted = this.all().map((snapshot) => snapshot.filter(({ type }) => !isGauge(type)));
    this.#before = counted.length === 0 ? undefined : summed(counted);
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
  // Of a cluster's start times none is that of all, so prom-client leaves them out; here one process has one.
  const kept = (await own.getMetricsAsJSON()).map((metric) => ({
    ...metric,
    aggregator: metric.aggregator === 'omit' ? ('first' as const) : metric.aggregator,
  }));
  const all = [kept, ...others];
  return { contentType: prometheusContentType, text: await AggregatorRegistry.aggregate(all).metrics() };
}

function summed(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  // Only prom-client writes and reads it, and its types leave it open.
  return AggregatorRegistry.aggregate([...snapshots]).getMetricsAsArray() as unknown as MetricsSnapshot;
}

/** In a snapshot, types are words; in the types, numbers. */
function isGauge(type: unknown): boolean {
  return type === 'gauge';
}
