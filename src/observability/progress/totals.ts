import type { Metrics } from '../metrics/createMetrics.js';

/** The metrics that `LastHour` samples. */
export type CountedMetrics = Pick<
  Metrics,
  | 'collectionsReceived'
  | 'duplicateCollections'
  | 'commitDuration'
  | 'commitHeights'
  | 'commitBytes'
  | 'upstreamRequests'
  | 'upstreamErrors'
>;

/** Collections from one source: those that it delivered first, and those that had arrived already. */
export interface RaceTotals {
  readonly first: number;
  readonly late: number;
}

/** Work done, by all lines together. */
export interface WorkTotals {
  readonly requester: RaceTotals;
  readonly edi: RaceTotals;
  readonly peer: RaceTotals;
  readonly commits: CommitTotals;
}

export interface CommitTotals {
  readonly count: number;
  readonly heights: number;
  /** Collection bytes. */
  readonly bytes: number;
  /** The sum of their durations. */
  readonly seconds: number;
  /** How many took at most `bound` seconds, by ascending bound; the last bound is Infinity. */
  readonly within: readonly (readonly [bound: number, count: number])[];
}

/** Calls to one access node. */
export interface NodeTotals {
  readonly calls: number;
  readonly errors: number;
  /** Errors by kind. */
  readonly kinds: ReadonlyMap<string, number>;
}

/** A sample of the metrics. */
export interface Totals {
  readonly atMs: number;
  readonly work: WorkTotals;
  readonly nodes: ReadonlyMap<string, NodeTotals>;
}

/** Reads a sample. Its size is bounded by the metrics' labels: sources, nodes, methods and kinds of error. */
export async function readTotals(metrics: CountedMetrics, atMs: number): Promise<Totals> {
  const [received, duplicate, calls, errors] = await Promise.all([
    metrics.collectionsReceived.get(),
    metrics.duplicateCollections.get(),
    metrics.upstreamRequests.get(),
    metrics.upstreamErrors.get(),
  ]);
  const race = (source: string): RaceTotals => {
    const late = sumOf(duplicate.values, ({ labels }) => labels.source === source);
    return { first: sumOf(received.values, ({ labels }) => labels.source === source) - late, late };
  };
  const nodes = new Map<string, NodeTotals>();
  for (const endpoint of new Set(calls.values.map(({ labels }) => String(labels.endpoint)))) {
    const kinds = new Map<string, number>();
    for (const { labels, value } of errors.values) {
      if (labels.endpoint !== endpoint) continue;
      kinds.set(String(labels.kind), (kinds.get(String(labels.kind)) ?? 0) + value);
    }
    nodes.set(endpoint, {
      calls: sumOf(calls.values, ({ labels }) => labels.endpoint === endpoint),
      errors: [...kinds.values()].reduce((sum, count) => sum + count, 0),
      kinds,
    });
  }
  const races = { requester: race('requester'), edi: race('edi'), peer: race('peer') };
  const work = { ...races, commits: await commitsOf(metrics) };
  return { atMs, work, nodes };
}

async function commitsOf({
  commitBytes,
  commitDuration,
  commitHeights,
}: CountedMetrics): Promise<CommitTotals> {
  const [durations, heights, bytes] = await Promise.all([
    commitDuration.get(),
    commitHeights.get(),
    commitBytes.get(),
  ]);
  const partOf = ({ values }: typeof durations, part: 'count' | 'sum'): number =>
    values.find(({ metricName }) => metricName?.endsWith(`_${part}`))?.value ?? 0;
  return {
    count: partOf(durations, 'count'),
    heights: partOf(heights, 'sum'),
    bytes: partOf(bytes, 'sum'),
    seconds: partOf(durations, 'sum'),
    within: durations.values.flatMap(({ labels: { le }, value }) =>
      le === undefined ? [] : [[le === '+Inf' ? Infinity : Number(le), value] as const],
    ),
  };
}

/** What happened between two samples. */
export function changeOf(from: Totals, to: Totals): Pick<Totals, 'work' | 'nodes'> {
  const race = (source: 'requester' | 'edi' | 'peer'): RaceTotals => ({
    first: to.work[source].first - from.work[source].first,
    late: to.work[source].late - from.work[source].late,
  });
  const [before, after] = [from.work.commits, to.work.commits];
  const commits: CommitTotals = {
    count: after.count - before.count,
    heights: after.heights - before.heights,
    bytes: after.bytes - before.bytes,
    seconds: after.seconds - before.seconds,
    within: after.within.map(([bound, count], index) => [bound, count - (before.within[index]?.[1] ?? 0)]),
  };
  const nodes = [...to.nodes].map(([name, now]) => [name, changeOfNode(from.nodes.get(name), now)] as const);
  return {
    work: { requester: race('requester'), edi: race('edi'), peer: race('peer'), commits },
    nodes: new Map(nodes),
  };
}

function changeOfNode(before: NodeTotals | undefined, now: NodeTotals): NodeTotals {
  const kinds = [...now.kinds].map(
    ([kind, count]) => [kind, count - (before?.kinds.get(kind) ?? 0)] as const,
  );
  return {
    calls: now.calls - (before?.calls ?? 0),
    errors: now.errors - (before?.errors ?? 0),
    kinds: new Map(kinds.filter(([, count]) => count > 0)),
  };
}

/**
 * The 95th percentile of the duration of commits in seconds, rounded up to a bound of the histogram. `undefined`
 * without commits, or if it is beyond the last bound.
 */
export function slowestUsual({ count, within }: CommitTotals): number | undefined {
  const bound = within.find(([, commits]) => commits >= count * USUAL_SHARE)?.[0];
  return count === 0 || bound === Infinity ? undefined : bound;
}

const USUAL_SHARE = 0.95;

function sumOf<V extends { readonly value: number }>(
  values: readonly V[],
  counts: (value: V) => boolean,
): number {
  return values.reduce((sum, each) => (counts(each) ? sum + each.value : sum), 0);
}
