const PREFIX = 'flow_collection_indexer_';

type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

/** One scrape of Prometheus text. Names are given without the daemon's prefix. */
export class ScrapedMetrics {
  readonly #lines: readonly string[];

  constructor(text: string) {
    this.#lines = text.split('\n');
  }

  /** The value of the one series with exactly these labels; throws when there is none. */
  value(name: string, labels: Labels = {}): number {
    const found = this.#of(name).filter((sample) => sameLabels(sample.labels, labels));
    const [sample] = found;
    if (sample === undefined || found.length > 1)
      throw new Error(`${found.length} series ${name} ${JSON.stringify(labels)}`);
    return sample.value;
  }

  /** The sum over all series that have at least these labels; 0 when there is none. */
  sum(name: string, labels: Labels = {}): number {
    return this.series(name, labels).reduce((sum, { value }) => sum + value, 0);
  }

  /** All series that have at least these labels. */
  series(name: string, labels: Labels = {}): readonly Sample[] {
    return this.#of(name).filter((sample) =>
      Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
    );
  }

  #of(name: string): readonly Sample[] {
    const names = [PREFIX + name, name];
    return this.#lines
      .filter((line) => names.some((each) => line.startsWith(each) && /[ {]/.test(line.charAt(each.length))))
      .map(parseLine);
  }
}

interface Metrics {
  readonly registry: { metrics(): Promise<string> };
}

/** What a scrape would give now. */
export async function scraped({ registry }: Metrics): Promise<ScrapedMetrics> {
  return new ScrapedMetrics(await registry.metrics());
}

/** As `ScrapedMetrics.sum`, of a registry now; of histograms by `…_sum` or `…_count`. */
export async function counted(
  metrics: Metrics,
  ...series: Parameters<ScrapedMetrics['sum']>
): Promise<number> {
  return (await scraped(metrics)).sum(...series);
}

/** What became of the calls that were forwarded, and how many of them were timed: a line for each series, in order. */
export async function forwardedIn(metrics: Metrics, protocol: 'grpc' | 'rest') {
  const now = await scraped(metrics);
  const linesOf = (name: string, ...labels: string[]) =>
    now
      .series(name, { protocol })
      .map((series) => [...labels.map((label) => series.labels[label]), series.value].join(' '))
      .sort();
  return {
    calls: linesOf('forwarded_calls_total', 'method', 'outcome'),
    timed: linesOf('forwarded_call_seconds_count', 'method'),
  };
}

function parseLine(line: string): Sample {
  const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
  if (match === null) throw new Error(`not a line of metrics: ${line}`);
  const [, name = '', inside = '', value = ''] = match;
  const labels = [...inside.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
    ([, key = '', text = '']) => [key, text] as const,
  );
  return { name, labels: Object.fromEntries(labels), value: Number(value.replace('Inf', 'Infinity')) };
}

function sameLabels(a: Labels, b: Labels): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}
