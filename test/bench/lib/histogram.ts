/** The buckets of one histogram of /metrics, all series added up: upper bound in seconds and how many are at most that. */
export type Buckets = readonly (readonly [upTo: number, count: number])[];

export function bucketsOf(text: string, name: string): Buckets {
  const counts = new Map<number, number>();
  const pattern = new RegExp(`^flow_collection_indexer_${name}_bucket\\{.*?le="([^"]+)".*?\\} (\\d+)$`, 'gm');
  for (const [, bound = '', count = ''] of text.matchAll(pattern)) {
    const upTo = bound === '+Inf' ? Infinity : Number(bound);
    counts.set(upTo, (counts.get(upTo) ?? 0) + Number(count));
  }
  return [...counts].sort(([left], [right]) => left - right);
}

/** What was added to the first by the time of the second. */
export function since(before: Buckets, after: Buckets): Buckets {
  return after.map(([upTo, count], index) => [upTo, count - (before[index]?.[1] ?? 0)]);
}

/** The value that `share` of all do not exceed, as Prometheus computes it: evenly spread within a bucket. */
export function quantile(buckets: Buckets, share: number): number {
  const total = buckets.at(-1)?.[1] ?? 0;
  const wanted = total * share;
  let [lower, below] = [0, 0];
  for (const [upTo, count] of buckets) {
    if (count >= wanted && count > below) {
      return upTo === Infinity ? lower : lower + ((upTo - lower) * (wanted - below)) / (count - below);
    }
    [lower, below] = [upTo, count];
  }
  return Number.NaN;
}
