/** No collection's extra time is longer than this many times the mean: limits what the head must remember. */
const MAX_SPREAD_FACTOR = 8;

export interface CollectionLagOptions {
  readonly collectionLagMs: number;
  readonly collectionLagSpreadMs: number;
}

/**
 * How long after its block's finalization a collection is available. Each collection has its own extra time, the
 * same in every run, exponentially distributed with the given mean, as fetching is.
 */
export function collectionLagMs(options: CollectionLagOptions, id: string): number {
  const { collectionLagMs: leastMs, collectionLagSpreadMs: meanMs } = options;
  if (meanMs === 0) return leastMs;
  const chance = Number.parseInt(id.slice(0, 8), 16) / 2 ** 32;
  return leastMs + Math.min(MAX_SPREAD_FACTOR, -Math.log(1 - chance)) * meanMs;
}

/** The longest lag of any collection. */
export function longestCollectionLagMs(options: CollectionLagOptions): number {
  return options.collectionLagMs + MAX_SPREAD_FACTOR * options.collectionLagSpreadMs;
}
