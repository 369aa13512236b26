import { sleep, type Clock } from '../../runtime/index.js';
import type { Metrics } from '../metrics/createMetrics.js';

const SAMPLE_MS = 2_000;
const MINUTE_MS = 60_000;
/** How many whole minutes are kept, besides the current one. */
export const MAX_MINUTES = 60;
/** What "now" means for rates. */
const RATE_WINDOW_MS = 30_000;
const MAX_RECENT = RATE_WINDOW_MS / SAMPLE_MS + 1;

type CountedMetrics = Pick<
  Metrics,
  'collectionsReceived' | 'duplicateCollections' | 'upstreamRequests' | 'upstreamErrors'
>;

type Totals = Awaited<ReturnType<typeof readTotals>>;

/** What was done in a stretch of time. */
export interface Stretch extends Pick<Totals, 'races' | 'nodes'> {
  readonly seconds: number;
}

/**
 * What the daemon has done in the last hour. It counts nothing itself: it samples the metrics every
 * two seconds, and keeps the samples from the start of each of the last 60 minutes and from the last half minute.
 */
export function rememberHour(dependencies: { readonly clock: Clock; readonly metrics: CountedMetrics }) {
  const { clock, metrics } = dependencies;
  /** At the beginning of each minute, the current one last. At most MAX_MINUTES + 1. */
  const begun: Totals[] = [];
  /** At most MAX_RECENT. */
  const recent: Totals[] = [];

  /** Samples. Expected errors: the signal's abort reason. */
  const run = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      keep(await readTotals(metrics, clock.monotonic()));
      await sleep(clock, SAMPLE_MS, signal);
    }
  };

  /** The last half minute; `undefined` before the second sample. */
  const now = (): Stretch | undefined => stretchOf(recent);

  /** From the beginning of the oldest minute kept. */
  const hour = (): Stretch | undefined => {
    const latest = recent.at(-1);
    return latest && stretchOf([begun[0] ?? latest, latest]);
  };

  const keep = (totals: Totals): void => {
    recent.push(totals);
    while (recent.length > MAX_RECENT) recent.shift();
    const began = begun.at(-1);
    if (began === undefined || totals.atMs - began.atMs >= MINUTE_MS) begun.push(totals);
    while (begun.length > MAX_MINUTES + 1) begun.shift();
  };

  return { run, now, hour };
}

function stretchOf(samples: readonly Totals[]): Stretch | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
  const { atMs, ...change } = changeOf(first, last);
  return { seconds: atMs / 1_000, ...change };
}

/** Reads a sample. Its size is bounded by the metrics' labels: sources, nodes, methods and kinds of error. */
async function readTotals(metrics: CountedMetrics, atMs: number) {
  const [received, duplicate, calls, errors] = await Promise.all([
    metrics.collectionsReceived.get(),
    metrics.duplicateCollections.get(),
    metrics.upstreamRequests.get(),
    metrics.upstreamErrors.get(),
  ]);
  /** Collections from one source: those that it delivered first, and those that had arrived already. */
  const race = (source: string) => {
    const late = sumOf(duplicate.values, ({ labels }) => labels.source === source);
    return { first: sumOf(received.values, ({ labels }) => labels.source === source) - late, late };
  };
  /** Calls to one access node, its errors, and those by kind. */
  const callsTo = (endpoint: string) => {
    const failed = errors.values.filter(({ labels }) => labels.endpoint === endpoint);
    const kinds = new Map<string, number>();
    for (const { labels, value } of failed)
      kinds.set(String(labels.kind), (kinds.get(String(labels.kind)) ?? 0) + value);
    return {
      calls: sumOf(calls.values, ({ labels }) => labels.endpoint === endpoint),
      errors: sumOf(failed, () => true),
      kinds,
    };
  };
  const endpoints = new Set(calls.values.map(({ labels }) => String(labels.endpoint)));
  return {
    atMs,
    /** Of all lines together. */
    races: { requester: race('requester'), edi: race('edi'), peer: race('peer') },
    nodes: new Map([...endpoints].map((endpoint) => [endpoint, callsTo(endpoint)] as const)),
  };
}

/** What happened between two samples: the difference of every number in them. */
function changeOf<T>(from: T | undefined, to: T): T;
function changeOf(from: unknown, to: unknown): unknown {
  if (typeof to === 'number') return to - (typeof from === 'number' ? from : 0);
  if (to instanceof Map) {
    const before = from instanceof Map ? from : new Map<unknown, unknown>();
    return new Map([...to].map(([key, now]) => [key, changeOf(before.get(key), now as unknown)]));
  }
  const before = (from ?? {}) as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.entries(to as object).map(([key, now]) => [key, changeOf(before[key], now)]),
  );
}

function sumOf<V extends { readonly value: number }>(
  values: readonly V[],
  counts: (value: V) => boolean,
): number {
  return values.reduce((sum, each) => (counts(each) ? sum + each.value : sum), 0);
}
