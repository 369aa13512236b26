import type { DaemonConfig } from '../../config/index.js';
import { reportProgress, type ScrapedValues } from '../../observability/index.js';
import { countHeights, countWorkers } from '../../ranges/index.js';
import { sleep } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import type { IndexingParts } from '../line/runIndexing.js';
import type { DaemonParts } from './diagnose.js';
import { reportStatus, type DaemonStatus } from './reportStatus.js';
import { watchDisk } from './watches/watchDisk.js';

/** The shortest pause between two measurements of the store's size; of a database, whose server stats all of its files. */
const WEIGH_EVERY_MS = 5_000;
const WEIGH_DATABASE_EVERY_MS = 5 * 60_000;
/** A measurement that took t is followed by a pause of this many t: LevelDB keeps a file for every 2 to 4 MiB. */
const REST_PER_WEIGHING = 20;

/**
 * Starts to measure the size of the store, and to watch its disk. A database's disks are not watched: without space it refuses
 * writes, and the writer waits for it.
 */
export function watchStorage(
  config: DaemonConfig,
  { clock, lifecycle, store }: Pick<IndexingParts, 'clock' | 'lifecycle' | 'store'>,
): Pick<DaemonParts, 'diskWatch' | 'storeBytes'> {
  const { signal } = lifecycle;
  const where = { path: storePathOf(config.dataDir), minFreeBytes: () => config.disk.minFreeBytes };
  const diskWatch = store.shared === undefined ? watchDisk(where, { clock }) : undefined;
  if (diskWatch !== undefined) lifecycle.supervise(diskWatch.run(signal));
  let bytes: number | undefined;
  /** Separate from the disk watch, since it may take minutes, in which a full disk must be noticed. */
  const weigh = async (): Promise<void> => {
    for (;;) {
      const beganAtMs = clock.monotonic();
      const weighed = await store.sizeBytes(signal).catch((error: unknown) => {
        // While the database is away, the last size stays.
        if (diskWatch !== undefined || !(error instanceof StorageError)) throw error;
      });
      bytes = weighed ?? bytes;
      const tookMs = clock.monotonic() - beganAtMs;
      const isThere = diskWatch === undefined && weighed !== undefined;
      const leastMs = isThere ? WEIGH_DATABASE_EVERY_MS : WEIGH_EVERY_MS;
      await sleep(clock, Math.max(leastMs, REST_PER_WEIGHING * tookMs), signal);
    }
  };
  lifecycle.supervise(weigh());
  return { diskWatch, storeBytes: () => bytes };
}

/** Starts to watch the progress. The caller starts the monitor once the servers run. */
export function startHealth(config: DaemonConfig, parts: DaemonParts): DaemonStatus {
  const { lifecycle, metrics, window } = parts;
  const health = reportStatus(config, parts);
  lifecycle.supervise(health.backfillWatch.run(lifecycle.signal));
  window.onMoved(health.diagnosis.noteProgress);
  lifecycle.supervise(health.lastHour.run(lifecycle.signal));
  metrics.bind(gaugesOf(health));
  lifecycle.onClose('progress', reportProgress({ ...parts, meter: health.meter }));
  return health;
}

/** The metrics that are read at each scrape, so none of them can be stale. */
function gaugesOf(status: DaemonStatus): ScrapedValues {
  const { backfillWatch, config, diagnosis, monitor, parts } = status;
  const { accountBuilder, backfill, diskWatch, listener, store, window } = parts;
  const { line } = diagnosis;
  const { unresolvableAfterMs } = config.requester;
  const inSeconds = (ms: number | undefined): number | undefined => ms && ms / 1_000;
  return {
    latest_indexed_height: () => store.latestIndexedHeight(),
    first_indexed_height: () => store.meta()?.firstHeight,
    head_height: () => listener.finalized.height,
    sealed_height: () => listener.sealed.height,
    account_index_missing_heights: () => accountBuilder.progress().missingHeights ?? 0,
    covered_heights: () => countHeights(store.coverage()),
    unproven_heights: status.unprovenHeights,
    proven_height: () => status.provenHeight() ?? 0,
    backfill_missing_heights: () => backfill.state().missingHeights,
    backfill_ranges: () => backfillWatch.counts().phases,
    backfill_held_up_ranges: () => backfillWatch.counts().heldUp,
    backfill_share: () => parts.pace.heldBack()?.share ?? 1,
    in_flight_heights: () => line()?.window.inHand ?? 0,
    collections_missing: () => line()?.mcq.missingCollections ?? 0,
    oldest_missing_age_seconds: () => (line()?.explainer.oldestMissing()?.ageMs ?? 0) / 1000,
    window_heights: () => config.window,
    in_flight_bytes: () => window.bytesInHand,
    in_flight_bytes_limit: () => config.maxInFlightBytes,
    collection_requests_in_flight: () => line()?.requester?.inFlight() ?? 0,
    unresolvable_heights: () => line()?.explainer.unresolvable(unresolvableAfterMs).length ?? 0,
    stream_age_seconds: () => {
      const ages = Object.entries({
        finalized: inSeconds(listener.finalized.advanceAgeMs()),
        sealed: inSeconds(listener.sealed.advanceAgeMs()),
        execution_data: line()?.edi?.state.status().ageSeconds,
        peer: line()?.peer?.state.status().ageSeconds,
      });
      return new Map(ages.flatMap(([name, age]) => (typeof age === 'number' ? [[name, age]] : [])));
    },
    endpoint_state: () => parts.network.states(),
    ready: () => Number(monitor.readiness().ready),
    not_ready: () => new Set(monitor.readiness().reasons.map(({ code }) => code)),
    lag_heights: status.lag,
    head_age_seconds: () => inSeconds(listener.finalized.advanceAgeMs()),
    indexed_age_seconds: () => diagnosis.indexedAgeMs() / 1000,
    leads: () => store.shared && Number(store.shared.isLeading()),
    leader_age_seconds: diagnosis.leaderAgeSeconds,
    workers: () => {
      const { workers } = backfill.state();
      return workers && countWorkers(workers);
    },
    store_bytes: parts.storeBytes,
    indexing_paused: () => Number(diskWatch?.pause() !== undefined),
    disk_min_free_bytes: () => (diskWatch === undefined ? 0 : config.disk.minFreeBytes),
    disk_free_bytes: () => diskWatch?.disk()?.freeBytes,
  };
}
