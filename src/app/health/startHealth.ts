import type { DaemonConfig } from '../../config/index.js';
import {
  HealthMonitor,
  LastHour,
  ProgressReporter,
  formatCount,
  formatDuration,
  formatRate,
  readinessCodes,
} from '../../observability/index.js';
import type { LiveTerminal, ProgressMeter, ProgressState, Readiness } from '../../observability/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import type { Output } from '../../runtime/index.js';
import type { IndexStore } from '../../storage/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import type { Descriptors } from '../lifecycle/Descriptors.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { IndexingParts } from '../line/runIndexing.js';
import type { ReaderThread } from '../threads/ReaderThread.js';
import { BackfillWatch } from './watches/BackfillWatch.js';
import { DatabaseWatch } from './watches/DatabaseWatch.js';
import { DaemonState } from './DaemonState.js';
import { DaemonStatus } from './DaemonStatus.js';
import { Diagnosis } from './Diagnosis.js';
import { DiskWatch } from './watches/DiskWatch.js';
import { gaugesOf } from './gauges.js';
import { inspectHeights } from './inspectHeights.js';
import { withoutIds } from './heldUp.js';
import { LeaderWatch } from './watches/LeaderWatch.js';
import { symptomsOf } from './symptoms.js';

/** The daemon's view of its own state: for the servers, the metrics, the log and the progress line. */
export interface Health {
  readonly report: DaemonStatus;
  readonly inspector: ReturnType<typeof inspectHeights>;
  readonly monitor: HealthMonitor;
  /** What it is doing, in one line. Call it every few seconds: each call measures the rate. */
  summary(): string;
  /** A line has started: from now on reports are about it. */
  running(line: IndexingLine): void;
  /** No line runs here: another process leads, or none does. */
  following(): void;
  /** What counts as ready has changed. */
  setLimits(ready: DaemonConfig['ready']): void;
}

/** Watches the disk or the database of the store. */
export type StorageWatch = DiskWatch | DatabaseWatch;

/** Begins to watch the disk of the store, or the database. */
export function watchStorage(
  { dataDir, disk }: DaemonConfig,
  { clock, lifecycle, store }: Pick<IndexingParts, 'clock' | 'store'> & { readonly lifecycle: Lifecycle },
): StorageWatch {
  const { shared } = store;
  const watch =
    shared === undefined
      ? new DiskWatch({ path: storePathOf(dataDir), minFreeBytes: disk.minFreeBytes }, { clock })
      : new DatabaseWatch({ store: shared, clock });
  lifecycle.supervise(watch.run(lifecycle.signal));
  return watch;
}

/** Begins to watch the progress. The caller starts the monitor once the servers run. */
export function startHealth(
  config: DaemonConfig,
  parts: IndexingParts & {
    readonly descriptors: Descriptors;
    readonly diskWatch: StorageWatch;
    readonly outputs: readonly Output[];
    readonly readers: ReaderThread | undefined;
    readonly replica: IndexStore | undefined;
    readonly queue: SharedQueue | undefined;
    readonly terminal: LiveTerminal | undefined;
  },
): Health {
  const { clock, lifecycle, logger, metrics, window } = parts;
  const backfillWatch = new BackfillWatch(config, parts);
  lifecycle.supervise(backfillWatch.run(lifecycle.signal));
  const leaderWatch = new LeaderWatch(parts);
  const state = new DaemonState(config, { ...parts, backfillWatch, leaderWatch });
  lifecycle.signal.addEventListener('abort', () => state.stopping(), { once: true });
  const diagnosis = new Diagnosis(
    { ...limitsOf(config.ready), ediOnly: config.ediOnly },
    { clock, symptoms: symptomsOf(state) },
  );
  window.onMoved(() => diagnosis.noteProgress());
  const monitor = new HealthMonitor({ clock, findings: () => diagnosis.findings(), logger });
  const lastHour = new LastHour(parts);
  lifecycle.supervise(lastHour.run(lifecycle.signal));
  const report = new DaemonStatus({ state, diagnosis, monitor, lastHour, outputs: parts.outputs });
  metrics.bind(gaugesOf(report));
  showProgress(parts, report.meter);
  return {
    report,
    inspector: inspectHeights(report),
    monitor,
    summary: () => serviceStatus(report.meter.state(), monitor.readiness()),
    running: (line) => state.running(line),
    following: () => state.following(),
    setLimits: (ready) => diagnosis.setLimits(limitsOf(ready)),
  };
}

function limitsOf({ maxLag, maxHeadAgeSeconds }: DaemonConfig['ready']) {
  return {
    readyMaxLag: maxLag,
    maxHeadAgeMs: maxHeadAgeSeconds === 0 ? undefined : maxHeadAgeSeconds * 1000,
  };
}

/** A live line on a terminal, log lines elsewhere. */
function showProgress(
  { clock, lifecycle, logger, terminal }: IndexingParts & { readonly terminal: LiveTerminal | undefined },
  meter: ProgressMeter,
): void {
  const progress = new ProgressReporter(
    { mode: terminal === undefined ? 'log' : 'tty' },
    { clock, meter, logger, ...(terminal === undefined ? {} : { output: terminal }) },
  );
  progress.start();
  lifecycle.onClose('progress', () => progress.close());
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
