import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { readSporkTable, redirectGrpcLog } from '../access/index.js';
import type { AccessNetwork, OpenChannel } from '../access/index.js';
import {
  ApiServer,
  ChangeFeed,
  GrpcApiServer,
  machinePace,
  MetricsServer,
  ReadGovernor,
} from '../api/index.js';
import type { DaemonConfig } from '../config/index.js';
import {
  createLogger,
  createMetrics,
  HealthMonitor,
  LiveTerminal,
  ProgressMeter,
  ProgressReporter,
} from '../observability/index.js';
import type { Logger, Metrics, ProgramLogger, TerminalStream } from '../observability/index.js';
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
import { openUpstream, runIndexing } from './line/runIndexing.js';
import { Lifecycle } from './lifecycle/Lifecycle.js';
import { Reporter } from './health/Reporter.js';
import { announceRun } from './lifecycle/runRegistry.js';
import { checkStartOfFilledStore } from './line/startHeight.js';
import { hasReachedStop } from './line/stopHeight.js';
import { openLevelStore } from './stores.js';
import type { OpenStore } from './stores.js';
import { HeightInspector } from './health/HeightInspector.js';

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

/** What the daemon reaches the world through. Default: the disk, gRPC, standard output. */
export interface DaemonPorts {
  readonly openStore?: OpenStore;
  readonly openChannel?: OpenChannel;
  readonly createLogger?: typeof createLogger;
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
  const { openStore = openLevelStore, openChannel } = ports;
  const clock = systemClock;
  const random = systemRandom;
  const { signal } = lifecycle;
  const version = programVersion();
  const metrics = createMetrics({ version, node: process.version });
  logger.info({ version, network: config.network, dataDir: config.dataDir }, 'starting');

  const store = await openStore(
    { path: storePathOf(config.dataDir), chainId: config.chainId, accounts: config.index.accounts },
    { clock, logger },
  );
  lifecycle.onClose('store', () => store.close());
  // The directory is ours now: a record found in it is of a daemon that was killed.
  removeDaemonRecord(config.dataDir);
  await warnOfOpenDirectory(config.dataDir, { logger });
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
  const diskWatch = new DiskWatch({ path: storePathOf(config.dataDir) }, { clock });
  lifecycle.supervise(diskWatch.run(signal));
  const reporter = new Reporter(
    { config, instance: randomUUID() },
    { store, network, listener, accountBuilder, diskWatch, clock },
  );
  const work = new HeightInspector(config, { network, reporter });
  signal.addEventListener('abort', () => reporter.stopping(), { once: true });
  const governor = new ReadGovernor(
    { catchUpShare: config.api.catchUpShare / 100, pace: machinePace({ clock }) },
    { status: reporter, clock, metrics },
  );
  const feed = new ChangeFeed({ reader: store, status: reporter, clock, governor, metrics });
  listener.onSealed(() => feed.notify());
  await serve(config, {
    ...{ lifecycle, logger, metrics, reporter, work, store, network, terminal },
    ...{ feed, governor },
  });
  if (signal.aborted) return;

  const scrubber = new TableScrubber(
    { path: storePathOf(config.dataDir), bytesPerSecond: config.store.scrubBytesPerSecond },
    { clock, logger, metrics },
  );
  lifecycle.supervise(scrubber.run(signal));
  await runIndexing(config, { ...parts, onIndexed: () => feed.notify() }, (line) => {
    reporter.running(line);
    work.running(line);
  });
}

/** There is something to do without any access node. */
function lacksAccounts({ accounts }: IndexStore): boolean {
  return (accounts.coverage()?.missingHeights ?? 0) > 0;
}

/** All servers, from the first second on, and the record by which other commands find them. */
async function serve(
  config: DaemonConfig,
  parts: {
    lifecycle: Lifecycle;
    logger: Logger;
    metrics: Metrics;
    reporter: Reporter;
    work: HeightInspector;
    store: IndexStore;
    network: AccessNetwork;
    feed: ChangeFeed;
    governor: ReadGovernor;
    terminal: LiveTerminal | undefined;
  },
): Promise<void> {
  const { lifecycle, logger, metrics, reporter, work, store, network, feed, governor } = parts;
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
  const fail = (error: unknown): void => lifecycle.fail(error);
  const metricsServer = new MetricsServer(config.metrics, {
    ...{ clock, logger, fail },
    registry: metrics.registry,
    health: monitor,
  });
  await metricsServer.start();
  lifecycle.onClose('metrics server', () => metricsServer.close());
  const api = new ApiServer(config.api, {
    ...{ clock, logger, fail, feed, governor, metrics },
    ...{ reader: store, status: reporter, work },
    // Answers of two chains must not come from one interface.
    forwardingOff: () => network.chainReplaced()?.message,
  });
  await api.start();
  const grpc = grpcServerOf(config, {
    ...{ clock, logger, fail, store, feed, governor, metrics },
    ...{ status: reporter, health: monitor },
    forwarder: config.api.forward ? network.forwarder : undefined,
  });
  // Both close together: each may take as long as its callers do, up to a limit. Streams would never end by themselves.
  lifecycle.onClose('api servers', async () => {
    governor.close();
    const feedClosed = feed.close();
    await Promise.all([feedClosed, api.close(), grpc?.close()]);
  });
  await grpc?.start();
  monitor.start();
  lifecycle.onClose('health monitor', () => monitor.close());
  const addresses = {
    api: api.address(),
    ...(grpc === undefined ? {} : { grpc: grpc.address() }),
    metrics: metricsServer.address(),
  };
  writeDaemonRecord(config.dataDir, { pid: process.pid, instance: reporter.instance, ...addresses });
  const withdraw = announceRun(config.dataDir, process.env);
  lifecycle.onClose('daemon record', () => {
    withdraw();
    removeDaemonRecord(config.dataDir);
  });
  logger.info(addresses, 'listening');
}

/** `undefined` where gRPC is off. */
function grpcServerOf(
  { api, accessNodes, chainId }: DaemonConfig,
  dependencies: ConstructorParameters<typeof GrpcApiServer>[1],
): GrpcApiServer | undefined {
  const { host, grpcPort: port, ratePerSecondPerAddress } = api;
  if (port === 'off') return undefined;
  return new GrpcApiServer(
    { host, port, ratePerSecondPerAddress, accessNodes, chainId, version: programVersion() },
    dependencies,
  );
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
