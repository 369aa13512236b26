import type { ScrapedValues } from '../../observability/index.js';
import { countHeights, countWorkers } from '../../ranges/index.js';
import type { DaemonStatus } from './DaemonStatus.js';

/** The metrics that are read at each scrape: nothing here can be stale. */
export function gaugesOf(status: DaemonStatus): ScrapedValues {
  const { diagnosis, state } = status;
  const { config, parts } = state;
  const { accountBuilder, backfill, backfillWatch, diskWatch, leaderWatch, listener, store, window } = parts;
  return {
    latestIndexedHeight: () => store.latestIndexedHeight(),
    firstIndexedHeight: () => store.meta()?.firstHeight ?? 0,
    headHeight: () => listener.finalizedHeight() ?? 0,
    sealedHeight: () => listener.sealedHeight() ?? 0,
    accountIndexMissingHeights: () => accountBuilder.progress().coverage?.missingHeights ?? 0,
    coveredHeights: () => countHeights(store.coverage()),
    unprovenHeights: () => status.unprovenHeights(),
    provenHeight: () => status.provenHeight() ?? 0,
    backfillMissingHeights: () => backfill.state().missingHeights,
    backfillRanges: () => backfillWatch.counts().phases,
    backfillHeldUpRanges: () => backfillWatch.counts().heldUp,
    backfillShare: () => backfill.heldBack()?.share ?? 1,
    inFlightHeights: () => state.line?.mcq.size ?? 0,
    collectionsMissing: () => state.line?.mcq.missingCollections ?? 0,
    oldestMissingAgeSeconds: () => state.line?.explainer.oldestMissing()?.ageSeconds ?? 0,
    windowHeights: () => config.window,
    bytesInFlight: () => window.bytesInHand,
    bytesInFlightLimit: () => config.maxInFlightBytes,
    requestsInFlight: () => state.line?.requester?.inFlight() ?? 0,
    unresolvableHeights: () =>
      state.line?.explainer.unresolvable(config.requester.unresolvableAfterMs).length ?? 0,
    streamAgeSeconds: () => {
      const ages = new Map(listener.streamAges());
      const { edi, peer } = state.line ?? {};
      for (const [stream, source] of [
        ['execution_data', edi],
        ['peer', peer],
      ] as const) {
        const ageMs = source?.status().lastMessageAgeMs;
        if (ageMs !== undefined) ages.set(stream, ageMs / 1000);
      }
      return ages;
    },
    endpointStates: () => parts.network.states(),
    notReady: () => new Set(status.readiness().reasons.map(({ code }) => code)),
    lagHeights: () => status.lag(),
    headAgeSeconds: () => {
      const ageMs = listener.lastAdvanceAgeMs();
      return ageMs === undefined ? undefined : ageMs / 1000;
    },
    indexedAgeSeconds: () => diagnosis.indexedAgeMs() / 1000,
    leads: () => store.shared && Number(store.shared.isLeading()),
    leaderAgeSeconds: () => leaderWatch.leaderAgeSeconds(),
    workers: () => {
      const { workers } = backfill.state();
      return workers && countWorkers(workers);
    },
    storeBytes: () => diskWatch.storeBytes(),
    paused: () => Number(diskWatch.pause() !== undefined),
    diskMinFreeBytes: () => diskWatch.minFreeBytes,
    diskFreeBytes: () => diskWatch.disk()?.freeBytes,
  };
}
