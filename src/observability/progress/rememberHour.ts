import { sleep, type Clock } from '../../runtime/index.js';
import type { Metrics } from '../metrics/createMetrics.js';

const SAMPLE_MS = 2_000;
const MINUTE_MS = 60_000;
/** How many whole minutes are kept, besides the current one. */
export const MAX_MINUTES = 60;
/** Current rates are measured over this window. */
const RATE_WINDOW_MS = 30_000;
const MAX_RECENT = RATE_WINDOW_MS / SAMPLE_MS + 1;

/** The counters that are sampled, with the labels that distinguish their series. */
const sampled = {
  collectionsReceived: ['source'],
  duplicateCollections: ['source'],
  upstreamRequests: ['endpoint'],
  upstreamErrors: ['endpoint', 'kind'],
} as const;
const names = Object.keys(sampled) as (keyof typeof sampled)[];

type CountedMetrics = Pick<Metrics, keyof typeof sampled>;

/** `counts`: by the name of the counter and the values of its labels. Bounded by sources, nodes and kinds of error. */
interface Sample {
  readonly atMs: number;
  readonly counts: ReadonlyMap<string, number>;
}

/**
 * What the daemon has done in the last hour. It counts nothing itself: it samples the metrics every
 * two seconds, and keeps the samples from the start of each of the last 60 minutes and from the last half minute.
 */
export function rememberHour({
  clock,
  metrics,
}: {
  readonly clock: Clock;
  readonly metrics: CountedMetrics;
}) {
  /** At the beginning of each minute, the current one last. At most MAX_MINUTES + 1. */
  const begun: Sample[] = [];
  /** At most MAX_RECENT. */
  const recent: Sample[] = [];
  return {
    /** Samples. Expected errors: the signal's abort reason. */
    run: async (signal: AbortSignal): Promise<void> => {
      for (;;) {
        const sample = await sampleOf(metrics, clock.monotonic());
        recent.push(sample);
        if (recent.length > MAX_RECENT) recent.shift();
        if (sample.atMs - (begun.at(-1)?.atMs ?? -Infinity) >= MINUTE_MS) begun.push(sample);
        if (begun.length > MAX_MINUTES + 1) begun.shift();
        await sleep(clock, SAMPLE_MS, signal);
      }
    },
    /** The last half minute; `undefined` before the second sample. */
    now: () => stretchOf(recent[0], recent.at(-1)),
    /** From the beginning of the oldest minute kept; `undefined` before the second sample. */
    hour: () => stretchOf(begun[0], recent.at(-1)),
  };
}

async function sampleOf(metrics: CountedMetrics, atMs: number): Promise<Sample> {
  const counts = new Map<string, number>();
  // Started together, so that all are read before anything else runs.
  const series = await Promise.all(names.map((name) => metrics[name].get()));
  for (const [index, name] of names.entries())
    for (const each of series[index]?.values ?? []) {
      const labels: Readonly<Record<string, unknown>> = each.labels;
      const key = [name, ...sampled[name].map((label) => labels[label])].join(' ');
      counts.set(key, (counts.get(key) ?? 0) + each.value);
    }
  return { atMs, counts };
}

/** The work done between two samples; `undefined` if no time has passed between them. */
function stretchOf(first: Sample | undefined, last: Sample | undefined) {
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  const grown = (key: string): number => (last.counts.get(key) ?? 0) - (first.counts.get(key) ?? 0);
  /** Collections from one source: those that it delivered first, and those that had arrived already. */
  const race = (source: string) => {
    const late = grown(`duplicateCollections ${source}`);
    return { first: grown(`collectionsReceived ${source}`) - late, late };
  };
  return {
    seconds: (last.atMs - first.atMs) / 1_000,
    /** Of all lines together. */
    races: { requester: race('requester'), edi: race('edi'), peer: race('peer') },
    /** Calls to one access node, its errors, and those by kind. */
    callsTo: (endpoint: string) => {
      const errorOf = `upstreamErrors ${endpoint} `;
      const kinds = [...last.counts.keys()]
        .filter((key) => key.startsWith(errorOf) && grown(key) > 0)
        .map((key) => ({ kind: key.slice(errorOf.length), count: grown(key) }));
      const errors = kinds.reduce((sum, { count }) => sum + count, 0);
      return { calls: grown(`upstreamRequests ${endpoint}`), errors, kinds };
    },
  };
}
