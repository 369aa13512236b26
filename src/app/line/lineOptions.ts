import type { SporkTable } from '../../access/index.js';
import type {
  BlockCollectionIndexerOptions,
  CollectionRequesterOptions,
  ExecutionDataIndexerOptions,
} from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalizedBlocksOptions, RootParent } from '../../finality/index.js';
import { parseIdentifier } from '../../flow/index.js';
import type { RangeStore } from '../../storage/index.js';

/**
 * Heights and bytes of one durable batch at most: large enough that the sync of a batch costs nothing, and at most half
 * the window, so that the other half is fetched meanwhile.
 */
const GROUP_MAX_HEIGHTS = 32;
/** A height without collections costs a batch next to nothing: of those, the sync is most of the cost. */
const GROUP_MAX_EMPTY_HEIGHTS = 128;
const GROUP_MAX_BYTES = 8 * 1024 * 1024;

/** Where execution data is the only source, nodes without it are asked again whether they have it so often. */
const ONLY_SOURCE_PROBE_MS = 5_000;
/**
 * Execution data that is due and does not come for this long has the stream opened again: within ten seconds, looks
 * included.
 */
const EDI_SILENCE_MS = 7_000;

export function indexerOptions({ window }: DaemonConfig): BlockCollectionIndexerOptions {
  const half = Math.ceil(window / 2);
  return {
    groupMaxHeights: Math.min(GROUP_MAX_HEIGHTS, half),
    groupMaxEmptyHeights: Math.min(GROUP_MAX_EMPTY_HEIGHTS, half),
    groupMaxBytes: GROUP_MAX_BYTES,
  };
}

export function ediOptions({ ediOnly, requester, window }: DaemonConfig): ExecutionDataIndexerOptions {
  return {
    silenceMs: EDI_SILENCE_MS,
    lookaheadHeights: window,
    backoffMinMs: requester.backoffMinMs,
    backoffMaxMs: requester.backoffMaxMs,
    ...(ediOnly ? { probeMs: ONLY_SOURCE_PROBE_MS } : {}),
  };
}

export function requesterOptions({
  requester,
  workersPerHeight,
}: DaemonConfig): Omit<CollectionRequesterOptions, 'holdBackMs'> {
  const { concurrency, timeoutMs, backoffMinMs, backoffMaxMs } = requester;
  return { concurrency, workersPerHeight, timeoutMs, backoffMinMs, backoffMaxMs };
}

export function blocksOptions(
  { requester, stopHeight, window }: DaemonConfig,
  { store }: { readonly store: Pick<RangeStore, 'meta'> },
): FinalizedBlocksOptions {
  return {
    window,
    stopHeight,
    firstHeight: store.meta()?.firstHeight,
    backoffMinMs: requester.backoffMinMs,
    backoffMaxMs: requester.backoffMaxMs,
  };
}

/** The table's parents of root blocks: a spork may have discarded blocks that we hold as the parent. */
export function rootParentsOf(sporks: SporkTable): RootParent[] {
  return sporks.flatMap(({ rootHeight, rootParentId, rootParentIsBelow = true }) => {
    const parsed = parseIdentifier(rootParentId);
    return parsed === undefined ? [] : [{ rootHeight, rootParentId: parsed, rootParentIsBelow }];
  });
}
