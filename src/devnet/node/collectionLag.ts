/** No collection takes longer than so many times the average: bounds what the head has to remember. */
const LONGEST = 8;

export interface CollectionLagOptions {
  readonly collectionLagMs: number;
  readonly collectionLagSpreadMs: number;
}

/**
 * How long after its block was finalized a collection is there. The spread is a further time of its own for each collection, the
 * same in every run: most take little of it and few take much, as fetching does (exponentially distributed, with that mean).
 */
export function collectionLagMs(options: CollectionLagOptions, id: string): number {
  const { collectionLagMs: leastMs, collectionLagSpreadMs: meanMs } = options;
  if (meanMs === 0) return leastMs;
  const chance = Number.parseInt(id.slice(0, 8), 16) / 2 ** 32;
  return leastMs + Math.min(LONGEST, -Math.log(1 - chance)) * meanMs;
}

/** The longest that any collection takes. */
export function longestCollectionLagMs(options: CollectionLagOptions): number {
  return options.collectionLagMs + LONGEST * options.collectionLagSpreadMs;
}
