import type { DaemonConfig } from '../../config/index.js';
import {
  HealthMonitor,
  LastHour,
  ProgressReporter,
  formatCount,
  formatDuration,
  formatRate,
  readinessCodes,
  withoutIds,
} from '../../observability/index.js';
import type { ProgressState, Readiness } from '../../observability/index.js';
import { sleep } from '../../runtime/index.js';
import { StorageError } from '../../storage/index.js';
import type { SharedStore } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import type { IndexingParts } from '../line/runIndexing.js';
import { BackfillWatch } from './watches/BackfillWatch.js';
import { DaemonState } from './DaemonState.js';
import type { DaemonParts } from './DaemonState.js';
import { DaemonStatus } from './DaemonStatus.js';
import { Diagnosis } from './Diagnosis.js';
import { DiskWatch } from './watches/DiskWatch.js';
import { gaugesOf } from './gauges.js';
import { inspectHeights } from './inspectHeights.js';
import { LeaderWatch } from './watches/LeaderWatch.js';

/** How often the size of a database is measured: the server stats all of its files. */
const WEIGH_EVERY_MS = 5 * 60_000;
/** The same, while the size is unknown. */
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
        const measured = await sizeOf(shared);
        bytes = measured ?? bytes;
        await sleep(clock, measured === undefined ? WEIGH_AGAIN_MS : WEIGH_EVERY_MS, lifecycle.signal);
      }
    };
    lifecycle.supervise(weigh());
    return { diskWatch: undefined, storeBytes: () => bytes };
  }
  const diskWatch = new DiskWatch({ path: storePathOf(dataDir), minFreeBytes: disk.minFreeBytes }, { clock });
  lifecycle.supervise(diskWatch.run(lifecycle.signal));
  return { diskWatch, storeBytes: () => diskWatch.storeBytes() };
}

/** `undefined` while the database is away: then the last size stays. */
async function sizeOf(store: SharedStore): Promise<number | undefined> {
  try {
    return await store.sizeBytes();
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return undefined;
  }
}

/** The daemon's view of its own state: for the servers, the metrics, the log and the progress line. */
export type Health = ReturnType<typeof startHealth>;

/** Begins to watch the progress. The caller starts the monitor once the servers run. */
export function startHealth(config: DaemonConfig, parts: DaemonParts) {
  const { clock, lifecycle, logger, metrics, window } = parts;
  const backfillWatch = new BackfillWatch(config, parts);
  lifecycle.supervise(backfillWatch.run(lifecycle.signal));
  const leaderWatch = new LeaderWatch(parts);
  const state = new DaemonState(config, { ...parts, backfillWatch, leaderWatch });
  const diagnosis = new Diagnosis(state);
  window.onMoved(() => diagnosis.noteProgress());
  const monitor = new HealthMonitor({ clock, findings: () => diagnosis.findings(), logger });
  const lastHour = new LastHour(parts);
  lifecycle.supervise(lastHour.run(lifecycle.signal));
  const report = new DaemonStatus({ state, diagnosis, monitor, lastHour });
  metrics.bind(gaugesOf(report));
  const progress = new ProgressReporter({ clock, meter: report.meter, logger, terminal: parts.terminal });
  progress.start();
  lifecycle.onClose('progress', () => progress.close());
  return {
    report,
    inspector: inspectHeights(report),
    monitor,
    /** What it is doing, in one line. Call it every few seconds: each call measures the rate. */
    summary: (): string => serviceStatus(report.meter.state(), monitor.readiness()),
    state,
    /** What counts as ready has changed. */
    setLimits: (ready: DaemonConfig['ready']): void => diagnosis.setLimits(ready),
  };
}

/**
 * What the daemon is doing, in one line for its service manager: first what holds it up, then its height and lag.
 */
function serviceStatus(progress: ProgressState, { reasons }: Readiness): string {
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
