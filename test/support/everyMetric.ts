import { Histogram } from 'prom-client';
import { createMetrics, createReaderMetrics } from '../../src/observability/index.js';
import { familyOf } from './promql.js';

/** All that a daemon exposes: of both threads, and of the process. */
export class EveryMetric {
  readonly #labels = new Map<string, readonly string[]>();
  readonly #histograms = new Set<string>();

  constructor() {
    const registries = [createMetrics({ version: '', node: '' }).registry, createReaderMetrics().registry];
    for (const metric of registries.flatMap((registry) => registry.getMetricsAsArray())) {
      const { labelNames, name } = metric as unknown as { name: string; labelNames: readonly string[] };
      this.#labels.set(name, labelNames);
      if (metric instanceof Histogram) this.#histograms.add(name);
    }
  }

  get names(): readonly string[] {
    return [...this.#labels.keys()];
  }

  family(series: string): string {
    return familyOf(series, this.#histograms);
  }

  /** The labels of a series, those included that Prometheus adds; `undefined` where nothing has the name. */
  labelsOf(series: string): readonly string[] | undefined {
    const labels = series === 'up' ? [] : this.#labels.get(this.family(series));
    if (labels === undefined) return undefined;
    return [...labels, 'job', 'instance', ...(series.endsWith('_bucket') ? ['le'] : [])];
  }
}
