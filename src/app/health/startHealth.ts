import type { DaemonConfig } from '../../config/index.js';
import {
  formatCount,
  formatDuration,
  formatRate,
  readinessCodes,
  reportProgress,
  withoutIds,
} from '../../observability/index.js';
import type { ProgressState } from '../../observability/index.js';
import { sleep } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import type { IndexingParts } from '../line/runIndexing.js';
import type { DaemonParts } from './DaemonState.js';
import { DaemonStatus } from './DaemonStatus.js';
import { watchDisk } from './watches/watchDisk.js';
import { gaugesOf } from './gauges.js';

/** How often the size of a database is measured: the server stats all of its files. */
const WEIGH_EVERY_MS = 5 * 60_000;
/** The same, while the database is away. */
const WEIGH_AGAIN_MS = 5_000;

/**
 * Begins to watch the disk of the store, or to measure the size of a database: its disks are not watched, as one without space
 * refuses writes, and the writer waits for it.
 */
export function watchStorage(
  { dataDir, disk }: DaemonConfig,
  { clock, lifecycle, store }: Pick<IndexingParts, 'clock' | 'lifecycle' | 'store'>,
): Pick<DaemonParts, 'diskWatch' | 'storeBytes'> {
  const { shared } = store;
  if (shared !== undefined) {
    let bytes: number | undefined;
    const weigh = async (): Promise<void> => {
      for (;;) {
        let pauseMs = WEIGH_EVERY_MS;
        try {
          bytes = await shared.sizeBytes();
        } catch (error) {
          if (!(error instanceof StorageError)) throw error;
          // The database is away: the last size stays.
          pauseMs = WEIGH_AGAIN_MS;
        }
        await sleep(clock, pauseMs, lifecycle.signal);
      }
    };
    lifecycle.supervise(weigh());
    return { diskWatch: undefined, storeBytes: () => bytes };
  }
  const diskWatch = watchDisk({ path: storePathOf(dataDir), minFreeBytes: disk.minFreeBytes }, { clock });
  lifecycle.supervise(diskWatch.run(lifecycle.signal));
  return { diskWatch, storeBytes: () => diskWatch.storeBytes() };
}

/** Begins to watch the progress. The caller starts the monitor once the servers run. */
export function startHealth(config: DaemonConfig, parts: DaemonParts): DaemonStatus {
  const { lifecycle, metrics, window } = parts;
  const { signal } = lifecycle;
  const health = new DaemonStatus(config, parts);
  lifecycle.supervise(health.backfillWatch.run(signal));
  window.onMoved(() => health.diagnosis.noteProgress());
  lifecycle.supervise(health.lastHour.run(signal));
  metrics.bind(gaugesOf(health));
  lifecycle.onClose('progress', reportProgress({ ...parts, meter: health.meter }));
  return health;
}

/**
 * What the daemon is doing, in one line for its service manager: first what holds it up, then its height and lag. Call it every
 * few seconds: each call measures the rate.
 */
export function serviceStatus({ meter, monitor }: DaemonStatus): string {
  const progress = meter.state();
  const { reasons } = monitor.readiness();
  const trouble = reasons.find(({ code }) => readinessCodes[code].severity === 'trouble');
  const waiting = trouble ?? (progress.mode === 'waiting' ? reasons[0] : undefined);
  const where = placeOf(progress);
  return waiting === undefined ? where : withoutIds(`${waiting.code}: ${waiting.message} (${where})`);
}

function placeOf({ etaSeconds, head, lag, latestIndexed, mode, ratePerSecond }: ProgressState): string {
  // An empty store is at height -1.
  const height =
    latestIndexed === undefined || latestIndexed < 0
      ? 'nothing indexed yet'
      : `height ${formatCount(latestIndexed)}`;
  if (lag === undefined || head === undefined) return `${height}, head unknown`;
  if (mode === 'following') return `${height}, lag ${formatCount(lag)}, following the head`;
  const eta = etaSeconds === undefined ? 'ETA unknown' : `ETA ${formatDuration(etaSeconds)}`;
  return `${height} of ${formatCount(head)}, lag ${formatCount(lag)}, ${formatRate(ratePerSecond)}, ${eta}`;
}
