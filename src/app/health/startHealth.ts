import { randomUUID } from 'node:crypto';
import type { DaemonConfig } from '../../config/index.js';
import { HealthMonitor, ProgressMeter, ProgressReporter } from '../../observability/index.js';
import type { LiveTerminal } from '../../observability/index.js';
import { storePathOf } from '../lifecycle/daemonRecord.js';
import type { IndexingLine, IndexingLineParts } from '../line/indexingLine.js';
import type { ReaderThread } from '../threads/ReaderThread.js';
import { Diagnosis } from './Diagnosis.js';
import { DiskWatch } from './DiskWatch.js';
import { HeightInspector } from './HeightInspector.js';
import { Reporter } from './Reporter.js';

/** What the daemon knows of its own state: for the servers, the metrics, the log and the progress line. */
export interface Health {
  readonly reporter: Reporter;
  readonly inspector: HeightInspector;
  readonly monitor: HealthMonitor;
  /** A line has begun: from now on it is the one that is looked at. */
  running(line: IndexingLine): void;
}

/** Begins to watch the disk and the progress. The monitor is started by whoever serves what it finds. */
export function startHealth(
  config: DaemonConfig,
  parts: IndexingLineParts & { readonly readers: ReaderThread; readonly terminal: LiveTerminal | undefined },
): Health {
  const { clock, ends, lifecycle, logger, metrics } = parts;
  const diskWatch = new DiskWatch({ path: storePathOf(config.dataDir) }, { clock });
  lifecycle.supervise(diskWatch.run(lifecycle.signal));
  const reporter = new Reporter({ config, instance: randomUUID() }, { ...parts, diskWatch });
  lifecycle.signal.addEventListener('abort', () => reporter.stopping(), { once: true });
  const { maxLag, maxHeadAgeSeconds } = config.ready;
  const diagnosis = new Diagnosis(
    {
      readyMaxLag: maxLag,
      maxHeadAgeMs: maxHeadAgeSeconds === 0 ? undefined : maxHeadAgeSeconds * 1000,
      ediOnly: config.ediOnly,
    },
    { clock, symptoms: reporter.symptoms() },
  );
  ends.onMoved(() => diagnosis.noteProgress());
  const monitor = new HealthMonitor({ clock, findings: () => diagnosis.findings(), logger });
  const meter = new ProgressMeter({ clock, source: reporter.progressSource() });
  reporter.attach(diagnosis, monitor, meter);
  metrics.bind(reporter);
  showProgress(parts, meter);
  const inspector = new HeightInspector(config, { ...parts, reporter });
  return {
    ...{ reporter, inspector, monitor },
    running: (line) => {
      reporter.running(line);
      inspector.running(line);
    },
  };
}

/** A live line on a terminal, log lines elsewhere. */
function showProgress(
  { clock, lifecycle, logger, terminal }: IndexingLineParts & { readonly terminal: LiveTerminal | undefined },
  meter: ProgressMeter,
): void {
  const progress = new ProgressReporter(
    { mode: terminal === undefined ? 'log' : 'tty' },
    { clock, meter, logger, ...(terminal === undefined ? {} : { output: terminal }) },
  );
  progress.start();
  lifecycle.onClose('progress', () => progress.close());
}
