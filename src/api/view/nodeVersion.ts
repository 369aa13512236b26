import type { StoreMeta } from '../../storage/index.js';
import { nothingIndexed } from './ApiError.js';
import type { IndexedRange } from './statusDocument.js';

/** The node version info of the index, over REST and over gRPC alike. */
export interface NodeVersion {
  /** Of the program, as nodes write theirs: behind a `v`. */
  readonly semver: string;
  /** Of the newest spork that can be read; hex, empty when no node reported one. */
  readonly sporkId: string;
  readonly sporkRootHeight: number;
  /** The first indexed height. */
  readonly firstHeight: number;
  /** The heights that can be read; `undefined` while there are none. */
  readonly readable: { readonly start: number; readonly end: number } | undefined;
}

/** Expected errors: ApiError (404) before the first height is known. */
export function nodeVersion(version: string, meta: StoreMeta | undefined, range: IndexedRange): NodeVersion {
  const { firstIndexed, latestIndexed } = range;
  if (firstIndexed === null || latestIndexed === null) throw nothingIndexed(range);
  // A spork is recorded with its first durable block, which may stand above a gap.
  const reached = Math.max(firstIndexed, latestIndexed);
  const spork = meta?.sporks.findLast(({ rootHeight }) => rootHeight <= reached);
  return {
    semver: `v${version}`,
    sporkId: spork?.sporkId ?? '',
    sporkRootHeight: spork?.rootHeight ?? 0,
    firstHeight: firstIndexed,
    readable: latestIndexed < firstIndexed ? undefined : { start: firstIndexed, end: latestIndexed },
  };
}
