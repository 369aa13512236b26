import type { SporkTable } from '../../../access/index.js';
import { PEER } from '../../../collections/index.js';
import type {
  BlockCollectionIndexerOptions,
  CollectionRequesterOptions,
  ExecutionDataIndexerOptions,
} from '../../../collections/index.js';
import type { DaemonConfig } from '../../../config/index.js';
import type { FinalizedBlocksOptions, RootParent } from '../../../finality/index.js';
import { parseIdentifier } from '../../../flow/index.js';
import type { RangeStore } from '../../../storage/index.js';

/**
 * Heights and bytes of one durable batch at most: large enough that its sync costs little per height, and at most half the
 * window, so that the other half is fetched meanwhile.
 */
const GROUP_MAX_HEIGHTS = 32;
/** A height without collections costs a batch next to nothing: for those, the sync is most of the cost. */
const GROUP_MAX_EMPTY_HEIGHTS = 128;
const GROUP_MAX_BYTES = 8 * 1024 * 1024;
/** For a range of history: the live range may have to wait for its batch. */
const HISTORY_GROUP_MAX_BYTES = 2 * 1024 * 1024;

/** How often nodes without execution data are asked for it again, when it is the only source. */
const ONLY_SOURCE_PROBE_MS = 5_000;
/** A stream that has been late for this long is reopened: within ten seconds, checks included. */
const STREAM_SILENCE_MS = 7_000;

export function indexerOptions(
  { window }: DaemonConfig,
  { isHistory }: { readonly isHistory: boolean },
): BlockCollectionIndexerOptions {
  const half = Math.ceil(window / 2);
  return {
    groupMaxHeights: Math.min(GROUP_MAX_HEIGHTS, half),
    groupMaxEmptyHeights: Math.min(GROUP_MAX_EMPTY_HEIGHTS, half),
    groupMaxBytes: isHistory ? HISTORY_GROUP_MAX_BYTES : GROUP_MAX_BYTES,
  };
}

export function streamOptions({ ediOnly, requester, window }: DaemonConfig): ExecutionDataIndexerOptions {
  return {
    silenceMs: STREAM_SILENCE_MS,
    lookaheadHeights: window,
    backoffMinMs: requester.backoffMinMs,
    backoffMaxMs: requester.backoffMaxMs,
    ...(ediOnly ? { probeMs: ONLY_SOURCE_PROBE_MS } : {}),
  };
}

/** Blocks of the tip may be seconds apart: a peer that brought the last one is expected to bring the next. */
const PEER_FRESH_MS = 5_000;

export function peerOptions(config: DaemonConfig): ExecutionDataIndexerOptions {
  return { ...streamOptions(config), stream: PEER, freshMs: PEER_FRESH_MS };
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

/** The parents of root blocks in the table: a spork may have discarded the blocks that we hold there. */
export function rootParentsOf(sporks: SporkTable): RootParent[] {
  return sporks.flatMap(({ rootHeight, rootParentId, rootParentIsBelow = true }) => {
    const parsed = parseIdentifier(rootParentId ?? '');
    return parsed === undefined ? [] : [{ rootHeight, rootParentId: parsed, rootParentIsBelow }];
  });
}
