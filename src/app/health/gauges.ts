import type { ScrapedValues } from '../../observability/index.js';
import { countHeights, countWorkers } from '../../ranges/index.js';
import type { DaemonStatus } from './DaemonStatus.js';

/** The metrics that are read at each scrape: nothing here can be stale. */
export function gaugesOf(status: DaemonStatus): ScrapedValues {
  const { backfillWatch, config, diagnosis, leaderWatch, parts } = status;
  const { accountBuilder, backfill, diskWatch, listener, store, window } = parts;
  return {
    latest_indexed_height: () => store.latestIndexedHeight(),
    first_indexed_height: () => store.meta()?.firstHeight ?? 0,
    head_height: () => listener.finalizedHeight() ?? 0,
    sealed_height: () => listener.sealedHeight() ?? 0,
    account_index_missing_heights: () => accountBuilder.progress().coverage?.missingHeights ?? 0,
    covered_heights: () => countHeights(store.coverage()),
    unproven_heights: () => status.unprovenHeights(),
    proven_height: () => status.provenHeight() ?? 0,
    backfill_missing_heights: () => backfill.state().missingHeights,
    backfill_ranges: () => backfillWatch.counts().phases,
    backfill_held_up_ranges: () => backfillWatch.counts().heldUp,
    backfill_share: () => parts.pace.heldBack()?.share ?? 1,
    in_flight_heights: () => status.line?.mcq.size ?? 0,
    collections_missing: () => status.line?.mcq.missingCollections ?? 0,
    oldest_missing_age_seconds: () => status.line?.explainer.oldestMissing()?.ageSeconds ?? 0,
    window_heights: () => config.window,
    in_flight_bytes: () => window.bytesInHand,
    in_flight_bytes_limit: () => config.maxInFlightBytes,
    collection_requests_in_flight: () => status.line?.requester?.inFlight() ?? 0,
    unresolvable_heights: () =>
      status.line?.explainer.unresolvable(config.requester.unresolvableAfterMs).length ?? 0,
    stream_age_seconds: () => {
      const ages = new Map(listener.streamAges());
      const { edi, peer } = status.line ?? {};
      for (const [stream, source] of [
        ['execution_data', edi],
        ['peer', peer],
      ] as const) {
        const ageMs = source?.status().lastMessageAgeMs;
        if (ageMs !== undefined) ages.set(stream, ageMs / 1000);
      }
      return ages;
    },
    endpoint_state: () => parts.network.states(),
    ready: () => Number(status.readiness().ready),
    not_ready: () => new Set(status.readiness().reasons.map(({ code }) => code)),
    lag_heights: () => status.lag(),
    head_age_seconds: () => {
      const ageMs = listener.lastAdvanceAgeMs();
      return ageMs === undefined ? undefined : ageMs / 1000;
    },
    indexed_age_seconds: () => diagnosis.indexedAgeMs() / 1000,
    leads: () => store.shared && Number(store.shared.isLeading()),
    leader_age_seconds: () => leaderWatch.leaderAgeSeconds(),
    workers: () => {
      const { workers } = backfill.state();
      return workers && countWorkers(workers);
    },
    store_bytes: () => parts.storeBytes(),
    indexing_paused: () => Number(diskWatch?.pause() !== undefined),
    disk_min_free_bytes: () => diskWatch?.minFreeBytes() ?? 0,
    disk_free_bytes: () => diskWatch?.disk()?.freeBytes,
  };
}
