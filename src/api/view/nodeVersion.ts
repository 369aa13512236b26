import type { StoreMeta } from '../../storage/index.js';
import { nothingIndexed } from './ApiError.js';
import type { IndexedRange } from './indexedRange.js';

/** The index described as a node, for REST and gRPC. Expected errors: ApiError (404) before the first height is known. */
export function nodeVersion(version: string, meta: StoreMeta | undefined, range: IndexedRange) {
  const { firstIndexed, latestIndexed } = range;
  if (firstIndexed === null || latestIndexed === null) throw nothingIndexed(range);
  // A spork is recorded with its first durable block, which may be above a gap.
  const reached = Math.max(firstIndexed, latestIndexed);
  const spork = meta?.sporks.findLast(({ rootHeight }) => rootHeight <= reached);
  return {
    semver: `v${version}`,
    /** Hex; empty when no node reported one. */
    sporkId: spork?.sporkId ?? '',
    sporkRootHeight: spork?.rootHeight ?? 0,
    firstHeight: firstIndexed,
    /** `undefined` while no height can be read. */
    readable: latestIndexed < firstIndexed ? undefined : { start: firstIndexed, end: latestIndexed },
  };
}
