import { AggregatorRegistry, prometheusContentType } from 'prom-client';
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';

/** The values of a registry at one moment. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/**
 * The metrics of threads that follow each other, as they told them: what those of before counted stays, and what was told last
 * holds until something newer is.
 */
export class MirroredMetrics {
  /** Of the threads that have ended: what never goes back. */
  #before: MetricsSnapshot | undefined;
  #last: MetricsSnapshot | undefined;

  told(snapshot: MetricsSnapshot): void {
    this.#last = snapshot;
  }

  /** The thread has ended: its levels are gone. */
  ended(): void {
    const counted = this.all().map((snapshot) => snapshot.filter(({ type }) => !isGauge(type)));
    this.#before = counted.length === 0 ? undefined : summed(counted);
    this.#last = undefined;
  }

  all(): readonly MetricsSnapshot[] {
    return [this.#before, this.#last].filter((snapshot) => snapshot !== undefined);
  }
}

/** A registry, and what others told of theirs, as one page. */
export async function mergedPage(
  own: Registry,
  others: readonly MetricsSnapshot[],
): Promise<{ readonly contentType: string; readonly text: string }> {
  const all = [await own.getMetricsAsJSON(), ...others];
  return { contentType: prometheusContentType, text: await AggregatorRegistry.aggregate(all).metrics() };
}

function summed(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  // It is written and read by prom-client alone, whose types leave it open.
  return AggregatorRegistry.aggregate([...snapshots]).getMetricsAsArray() as unknown as MetricsSnapshot;
}

/** In a snapshot, types are words; in the types, numbers. */
function isGauge(type: unknown): boolean {
  return type === 'gauge';
}
