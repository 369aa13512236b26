import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { readSporkTable, redirectGrpcLog } from '../access/index.js';
import type { OpenChannel } from '../access/index.js';
import { MetricsServer } from '../api/index.js';
import type { DaemonConfig } from '../config/index.js';
import {
  createLogger,
  createMetrics,
  HealthMonitor,
  LiveTerminal,
  mergedPage,
  ProgressMeter,
  ProgressReporter,
} from '../observability/index.js';
import type { Logger, ProgramLogger, TerminalStream } from '../observability/index.js';
import {
  abortReason,
  exitCodeOf,
  messageOf,
  OperatorError,
  packageRoot,
  programVersion,
  systemClock,
  systemRandom,
} from '../runtime/index.js';
import type { ExitReason } from '../runtime/index.js';
import { TableScrubber } from '../storage/index.js';
import type { IndexStore } from '../storage/index.js';
import { removeDaemonRecord, storePathOf, writeDaemonRecord } from './lifecycle/daemonRecord.js';
import { warnOfOpenDirectory } from './lifecycle/dataDirectory.js';
import { Diagnosis } from './health/Diagnosis.js';
import { DiskWatch } from './health/DiskWatch.js';
import { openUpstream, runIndexing, userAgent } from './line/runIndexing.js';
import type { IndexingLineParts } from './line/indexingLine.js';
import { Lifecycle } from './lifecycle/Lifecycle.js';
import { Reporter } from './health/Reporter.js';
import { announceRun } from './lifecycle/runRegistry.js';
import { checkStartOfFilledStore } from './line/startHeight.js';
import { hasReachedStop } from './line/stopHeight.js';
import { openLevelStore, openStoreToIndex } from './stores.js';
import type { OpenStore } from './stores.js';
import { HeightInspector } from './health/HeightInspector.js';
import { ReaderThread } from './threads/ReaderThread.js';
import type { ReaderAddresses } from './threads/messages.js';
import { startWorker } from './threads/startWorker.js';
import type { StartReader } from './threads/startWorker.js';

/** What the daemon needs of the process it runs in. */
export interface Host {
  readonly stdout: TerminalStream;
  /** True when that is a terminal on which a line can be drawn anew, and that is what is wanted. */
  readonly isLive: boolean;
  /** Aborted by the operator, to stop gracefully; the message of its reason is the name of the signal. */
  readonly signal: AbortSignal;
  /** Tells of an error that nobody caught, before it ends the process. */
  readonly onBug?: (listener: (error: unknown) => void) => void;
}

/** What the daemon reaches the world through. Default: the disk, gRPC, standard output, a thread for readers. */
export interface DaemonPorts {
  readonly openStore?: OpenStore;
  readonly openChannel?: OpenChannel;
  readonly createLogger?: typeof createLogger;
  readonly startReader?: StartReader;
}

/**
 * Runs the daemon until it is stopped, reaches its stop height or fails. Expected errors: OperatorError; whatever else it
 * throws is a bug.
 */
export async function runDaemon(
  config: DaemonConfig,
  host: Host,
  ports: DaemonPorts = {},
): Promise<ExitReason> {
  const clock = systemClock;
  const terminal = host.isLive ? new LiveTerminal({ stream: host.stdout }) : undefined;
  const logger = (ports.createLogger ?? createLogger)({
    ...config.log,
    colorize: host.isLive && process.env['NO_COLOR'] === undefined,
    ...(terminal === undefined ? {} : { destination: terminal }),
  });
  redirectGrpcLog({ logger });
  const lifecycle = new Lifecycle({ clock, logger });
  // Where logs are for people, the sentence on standard error is enough.
  const tellEnd = (error: unknown): void => {
    if (config.log.format === 'json') logFatal(logger, error);
  };
  host.onBug?.(tellEnd);
  const onStop = (): void => {
    const { message: by } = abortReason(host.signal);
    logger.info({ signal: by, stopWithinSeconds: 10 }, 'stopping; a second signal forces');
    lifecycle.stop();
  };
  host.signal.addEventListener('abort', onStop, { once: true });
  try {
    await lifecycle.waitFor('work in hand', run(config, { ports, lifecycle, logger, terminal }));
    host.signal.removeEventListener('abort', onStop);
    await lifecycle.close();
  } catch (error) {
    // What nobody expected is told by whoever ends the process for it.
    if (error instanceof OperatorError) tellEnd(error);
    throw error;
  }
  logger.info({}, 'stopped');
  return 'done';
}

/** The log's last line: the sentence that the operator gets, and the exit code with its name. */
function logFatal(logger: ProgramLogger, error: unknown): void {
  const exit = error instanceof OperatorError ? error.exit : 'bug';
  const stack = error instanceof Error && exit === 'bug' ? { stack: error.stack } : {};
  logger.fatal({ exitCode: exitCodeOf(exit), exit, ...stack }, messageOf(error));
}

/** Builds the daemon from the ground up and waits until it is to stop. Closing is the life cycle's. */
async function run(
  config: DaemonConfig,
  {
    ports,
    lifecycle,
    logger,
    terminal,
  }: { ports: DaemonPorts; lifecycle: Lifecycle; logger: Logger; terminal: LiveTerminal | undefined },
): Promise<void> {
  const { openStore = openLevelStore, openChannel, startReader = startWorker } = ports;
  const clock = systemClock;
  const random = systemRandom;
  const { signal } = lifecycle;
  const version = programVersion();
  const metrics = createMetrics({ version, node: process.version });
  logger.info({ version, network: config.network, dataDir: config.dataDir }, 'starting');

  const path = storePathOf(config.dataDir);
  // It loads what it needs while the store is opened.
  const readers = new ReaderThread(readerOptionsOf(config), { start: startReader, clock, logger, metrics });
  lifecycle.onClose('reader thread', () => readers.close());
  const store = await openStoreToIndex(config, { openStore, clock, logger });
  // A thread that cannot be ended, because the disk hangs, still reads it. What was committed is on the disk.
  lifecycle.onClose('store', async () => {
    await readers.close();
    await store.close();
  });
  // The directory is ours now: a record found in it is of a daemon that was killed.
  removeDaemonRecord(config.dataDir);
  if (config.store === undefined) await warnOfOpenDirectory(config.dataDir, { logger });
  checkStartOfFilledStore(config, store);
  if (hasReachedStop(config, store) && !lacksAccounts(store)) {
    logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'stop height is indexed already');
    return;
  }

  const sporks = await readSporkTable(join(packageRoot, 'config', 'sporks.json'), config.network);
  const parts = openUpstream(config, {
    ...{ store, lifecycle, sporks, clock, random, metrics, logger, openChannel },
  });
  const { accountBuilder, network, listener } = parts;
  const diskWatch = new DiskWatch({ path }, { clock });
  // A database has disks of its own.
  if (config.store === undefined) lifecycle.supervise(diskWatch.run(signal));
  const reporter = new Reporter(
    { config, instance: randomUUID() },
    { store, network, listener, accountBuilder, diskWatch, readers, clock },
  );
  const work = new HeightInspector(config, { network, reporter, store });
  signal.addEventListener('abort', () => reporter.stopping(), { once: true });
  await serve(config, { ...parts, reporter, work, readers, terminal });
  if (signal.aborted) return;

  const scrubber = new TableScrubber(
    { path, bytesPerSecond: config.scrub.bytesPerSecond },
    { clock, logger, metrics },
  );
  if (config.store === undefined) lifecycle.supervise(scrubber.run(signal));
  await runIndexing(config, { ...parts, onIndexed: () => readers.notify() }, (line) => {
    reporter.running(line);
    work.running(line);
  });
}

/** There is something to do without any access node. */
function lacksAccounts({ accounts }: IndexStore): boolean {
  return (accounts.coverage()?.missingHeights ?? 0) > 0;
}

function readerOptionsOf(config: DaemonConfig): ConstructorParameters<typeof ReaderThread>[0] {
  const { accessNodes, access, api, chainId, dataDir, log, store } = config;
  const version = programVersion();
  return {
    ...{ accessNodes, api, chainId, version },
    storePath: storePathOf(dataDir),
    storeUrl: store,
    maxMessageBytes: access.maxMessageBytes,
    userAgent: userAgent(),
    logLevel: log.level,
  };
}

/** All servers, from the first second on, and the record by which other commands find them. */
async function serve(
  config: DaemonConfig,
  parts: IndexingLineParts & {
    readonly reporter: Reporter;
    readonly work: HeightInspector;
    readonly readers: ReaderThread;
    readonly terminal: LiveTerminal | undefined;
  },
): Promise<void> {
  const { lifecycle, listener, logger, metrics, network, readers, reporter, store, work } = parts;
  const clock = systemClock;
  const { maxLag, maxHeadAgeSeconds } = config.ready;
  const diagnosis = new Diagnosis(
    {
      readyMaxLag: maxLag,
      maxHeadAgeMs: maxHeadAgeSeconds === 0 ? undefined : maxHeadAgeSeconds * 1000,
      ediOnly: config.ediOnly,
    },
    { clock, symptoms: reporter.symptoms() },
  );
  const monitor = new HealthMonitor({ clock, findings: () => diagnosis.findings(), logger });
  const meter = new ProgressMeter({ clock, source: reporter.progressSource() });
  reporter.attach(diagnosis, monitor, meter);
  showProgress(parts, meter);
  metrics.bind(reporter);
  const metricsServer = new MetricsServer(config.metrics, {
    ...{ clock, logger, health: monitor },
    fail: (error) => lifecycle.fail(error),
    page: async () => mergedPage(metrics.registry, await readers.metrics()),
  });
  await metricsServer.start();
  lifecycle.onClose('metrics server', () => metricsServer.close());
  const serving = readers.serve({
    moment: () => ({
      shown: {
        meta: store.meta(),
        latestIndexedHeight: store.latestIndexedHeight(),
        coverage: store.coverage(),
        latestBlock: store.latestBlock(),
        accounts: store.accounts.coverage(),
      },
      head: listener.finalizedHeight() ?? null,
      sealed: listener.sealedHeight() ?? null,
    }),
    surroundings: () => ({
      isReady: monitor.readiness().ready,
      // Answers of two chains must not come from one interface.
      forwardingOff: network.chainReplaced()?.message,
      nodes: config.api.forward ? network.forwardingNodes() : [],
    }),
    status: () => reporter.status(),
    momentAt: (height) => work.momentAt(height),
    naming: (id) => work.naming(id),
    desk: network.forwardingDesk,
  });
  lifecycle.onClose('servers of readers', () => readers.close());
  listener.onSealed(() => readers.notify());
  listener.onHead(() => readers.notify());
  network.onAnswering(() => readers.notifyOfSurroundings());
  const addresses: ReaderAddresses = await serving;
  monitor.start();
  lifecycle.onClose('health monitor', () => monitor.close());
  const all = { ...addresses, metrics: metricsServer.address() };
  writeDaemonRecord(config.dataDir, { pid: process.pid, instance: reporter.instance, ...all });
  const withdraw = announceRun(config.dataDir, process.env);
  lifecycle.onClose('daemon record', () => {
    withdraw();
    removeDaemonRecord(config.dataDir);
  });
  logger.info(all, 'listening');
}

/** A live line on a terminal, log lines elsewhere. */
function showProgress(
  {
    lifecycle,
    logger,
    terminal,
  }: { lifecycle: Lifecycle; logger: Logger; terminal: LiveTerminal | undefined },
  meter: ProgressMeter,
): void {
  const progress = new ProgressReporter(
    { mode: terminal === undefined ? 'log' : 'tty' },
    { clock: systemClock, meter, logger, ...(terminal === undefined ? {} : { output: terminal }) },
  );
  progress.start();
  lifecycle.onClose('progress', () => progress.close());
}
