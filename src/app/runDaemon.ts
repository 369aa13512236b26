import { join } from 'node:path';
import { readSporkTable, redirectGrpcLog } from '../access/index.js';
import type { OpenChannel } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import { createLogger, createMetrics, LiveTerminal, loadPrettyLine } from '../observability/index.js';
import type { Logger, ProgramLogger, TerminalStream } from '../observability/index.js';
import {
  abortReason,
  exitCodeOf,
  hasSoundHttp2,
  messageOf,
  OperatorError,
  packageRoot,
  programVersion,
  systemClock,
  systemRandom,
} from '../runtime/index.js';
import type { KillWish, SharedQueue } from '../ranges/index.js';
import type { ExitReason, Random } from '../runtime/index.js';
import { TableScrubber } from '../storage/index.js';
import type { IndexStore } from '../storage/index.js';
import { seedStore } from './copies.js';
import { ConfigReload } from './ConfigReload.js';
import type { Reloading } from './ConfigReload.js';
import { openQueueToWork, openReplicaToRead } from './databases.js';
import { tellPlan } from './firstContact.js';
import { startHealth, watchStorage } from './health/startHealth.js';
import { removeDaemonRecord, storePathOf } from './lifecycle/daemonRecord.js';
import { refuseUsedDirectory, warnOfOpenDirectory } from './lifecycle/dataDirectory.js';
import { Lifecycle } from './lifecycle/Lifecycle.js';
import { openUpstream, runIndexing, userAgent } from './line/runIndexing.js';
import type { IndexingParts } from './line/indexingParts.js';
import { checkStartOfFilledStore } from './line/startHeight.js';
import { hasReachedStop } from './line/stopHeight.js';
import { openServiceNotifier } from './lifecycle/openServiceNotifier.js';
import type { ServiceNotifier } from './lifecycle/ServiceNotifier.js';
import { startServers } from './startServers.js';
import { openLevelStore, openStoreToIndex } from './stores.js';
import type { OpenStore } from './stores.js';
import { SecretFiles } from './guard/SecretFiles.js';
import { ReaderThread } from './threads/ReaderThread.js';
import { startWorker } from './threads/startWorker.js';
import type { StartReader } from './threads/startWorker.js';

/** What the daemon needs from its process. */
export interface Host {
  readonly stdout: TerminalStream;
  /** True for a terminal on which a line can be redrawn, if that is wanted. */
  readonly isLive: boolean;
  /** Aborted by the operator, to stop gracefully; the message of its reason is the name of the signal. */
  readonly signal: AbortSignal;
  /** Registers a listener for an uncaught error, which is called before the process ends. */
  readonly onBug?: (listener: (error: unknown) => void) => void;
  /** Absent: the configuration stays as it is. */
  readonly reloading?: Reloading;
}

/** How the daemon reaches the outside. Default: the disk, gRPC, standard output, a thread for readers. */
export interface DaemonPorts {
  readonly openStore?: OpenStore;
  readonly openChannel?: OpenChannel;
  readonly createLogger?: typeof createLogger;
  readonly startReader?: StartReader;
}

async function prettyLineFor({ isLive }: Host): Promise<(json: string) => string> {
  const { prettyLine } = await loadPrettyLine();
  return prettyLine({ colorize: isLive && process.env['NO_COLOR'] === undefined });
}

interface RunDependencies {
  readonly ports: DaemonPorts;
  readonly lifecycle: Lifecycle;
  readonly logger: ProgramLogger;
  readonly terminal: LiveTerminal | undefined;
  readonly notifier: ServiceNotifier | undefined;
  /** Writes to standard output, above the live line. */
  readonly print: (text: string) => void;
  readonly reloading: Reloading | undefined;
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
    level: config.log.level,
    toLine: config.log.format === 'pretty' ? await prettyLineFor(host) : undefined,
    ...(terminal === undefined ? {} : { destination: terminal }),
  });
  redirectGrpcLog({ logger });
  const lifecycle = new Lifecycle({ clock, logger });
  const print = (text: string): void => void (terminal ?? host.stdout).write(text);
  // For people, the sentence on standard error is enough.
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
  const { signal } = lifecycle;
  const notifier = openServiceNotifier(process.env, { clock, logger, signal, onBug: host.onBug });
  try {
    const { reloading } = host;
    await lifecycle.waitFor(
      'work in hand',
      run(config, { ports, lifecycle, logger, terminal, notifier, print, reloading }),
    );
    host.signal.removeEventListener('abort', onStop);
    await lifecycle.close();
  } catch (error) {
    // Unexpected errors are logged by whoever ends the process.
    if (error instanceof OperatorError) tellEnd(error);
    await notifier?.close(messageOf(error));
    throw error;
  }
  await notifier?.close();
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
  { ports, lifecycle, logger, notifier, print, reloading, terminal }: RunDependencies,
): Promise<void> {
  const reload = reloading && new ConfigReload(reloading, { logger });
  const version = programVersion();
  const metrics = createMetrics({ version, node: process.version });
  metrics.networkInfo.set({ network: config.network, chain: config.chainId }, 1);
  logger.info({ version, network: config.network, dataDir: config.dataDir }, 'starting');
  const common = { lifecycle, clock: systemClock, random: systemRandom, metrics, logger };

  const secretFiles = await SecretFiles.open(config, common);
  lifecycle.supervise(secretFiles.run(lifecycle.signal));
  const { fromSnapshot } = config;
  if (fromSnapshot !== undefined) {
    const seeded = await seedStore(config, fromSnapshot, { ...common, signal: lifecycle.signal });
    if (seeded === 'stopped') return;
  }
  // The thread loads its modules while the store is opened.
  const readers = config.roles.includes('api')
    ? startReaderThread(config, { ...common, ports, secretFiles })
    : undefined;
  const store = await openOwnStore(config, { ...common, ports, readers });
  if (hasReachedStop(config, store) && !lacksAccounts(store) && !lacksHistory(config, store)) {
    logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'stop height is indexed already');
    // A service that ends without having been ready counts as failed.
    notifier?.ready(() => 'The stop height is indexed already');
    return;
  }
  const sporks = await readSporkTable(join(packageRoot, 'config', 'sporks.json'), config.network);
  const replica = readers && (await openReplica(config, { ...common, readers }));
  let onKill = (_wish: KillWish): void => lifecycle.stop();
  const queue = await openOwnQueue(config, { ...common, onKill: (wish) => onKill(wish) });
  const diskWatch = watchStorage(config, { ...common, store });
  const parts = openUpstream(config, {
    ...{ ...common, store, queue, sporks, room: diskWatch },
    openChannel: ports.openChannel,
    peerToken: () => secretFiles.peerToken(),
  });
  onKill = (wish) => {
    if (wish === 'release' || !parts.backfill.finish()) lifecycle.stop();
  };
  const health = startHealth(config, { ...parts, diskWatch, readers, replica, terminal });
  reload?.start({ diskWatch, health, readers, secretFiles });
  const addresses = await startServers(config, { ...parts, readers, replica, secretFiles, health });
  if (lifecycle.signal.aborted) return;
  notifier?.ready(() => health.summary());
  await tellPlan(config, { addresses, store, logger, print });
  if (config.store === undefined) startScrubber(config, common);
  await runIndexing(config, parts, {
    onLine: (line) => health.running(line),
    onFollow: () => health.following(),
  });
}

type Common = Pick<IndexingParts, 'lifecycle' | 'clock' | 'metrics' | 'logger'>;

function startReaderThread(
  config: DaemonConfig,
  {
    lifecycle,
    ports,
    secretFiles,
    ...common
  }: Common & { readonly ports: DaemonPorts; readonly secretFiles: SecretFiles },
): ReaderThread {
  const { accessNodes, access, api, chainId, dataDir, log, store } = config;
  const readers = new ReaderThread(
    {
      ...{ accessNodes, api, chainId, version: programVersion(), userAgent: userAgent() },
      ...{ storePath: storePathOf(dataDir), storeUrl: api.store ?? store },
      maxMessageBytes: access.maxMessageBytes,
      logLevel: log.level,
      secrets: secretFiles.secrets(),
    },
    { ...common, start: ports.startReader ?? startWorker },
  );
  secretFiles.onChange(() => readers.secure(secretFiles.secrets()));
  lifecycle.onClose('reader thread', () => readers.close());
  return readers;
}

/**
 * Opens the store for writing. Expected errors: OperatorError (locked, damaged, another chain, a start that does not
 * fit).
 */
async function openOwnStore(
  config: DaemonConfig,
  {
    clock,
    lifecycle,
    logger,
    ports,
    readers,
  }: Common & { ports: DaemonPorts; readers: ReaderThread | undefined },
): Promise<IndexStore> {
  const { openStore = openLevelStore } = ports;
  if (config.store !== undefined) await refuseUsedDirectory(config.dataDir);
  const store = await openStoreToIndex(config, { openStore, clock, logger });
  // A thread that cannot be ended, because the disk hangs, still reads it. What was committed is on the disk.
  lifecycle.onClose('store', async () => {
    await readers?.close();
    await store.close();
  });
  // The directory is ours now: a record found in it is of a daemon that was killed.
  removeDaemonRecord(config.dataDir);
  if (config.store === undefined) await warnOfOpenDirectory(config.dataDir, { logger });
  if (readers !== undefined && config.api.grpcPort !== 'off' && !hasSoundHttp2(process.version))
    warnOfNode(logger);
  checkStartOfFilledStore(config, store);
  return store;
}

/** What the processes of one database share beside it; `undefined` without a database. Expected errors: OperatorError. */
async function openOwnQueue(
  config: DaemonConfig,
  {
    clock,
    lifecycle,
    logger,
    onKill,
    random,
  }: Common & { readonly random: Random; readonly onKill: (wish: KillWish) => void },
): Promise<SharedQueue | undefined> {
  const queue = await openQueueToWork(config, { clock, logger, random, onKill });
  if (queue !== undefined) lifecycle.onClose('queue', () => queue.close());
  return queue;
}

/** Expected errors: OperatorError (what is wrong with it). */
async function openReplica(
  config: DaemonConfig,
  { clock, lifecycle, logger, readers }: Common & { readonly readers: ReaderThread },
): Promise<IndexStore | undefined> {
  const replica = await openReplicaToRead(config, { clock, logger });
  if (replica === undefined) return undefined;
  lifecycle.onClose('replica', () => replica.close());
  replica.shared?.onChanged(() => readers.notify());
  return replica;
}

function warnOfNode(logger: Logger): void {
  logger.warn(
    { node: process.version, advice: 'run Node.js 24, or keep the gRPC port to callers that you trust' },
    'callers of the gRPC port can end the process: this line of Node.js has a fault',
  );
}

/** There is something to do without any access node. */
function lacksAccounts({ accounts }: IndexStore): boolean {
  return (accounts.coverage()?.missingHeights ?? 0) > 0;
}

/** What is planned is filled before the daemon ends, and so is what the configuration would have planned. */
function lacksHistory({ backfill }: DaemonConfig, { ranges }: IndexStore): boolean {
  return backfill.plan !== undefined || ranges.plans().some(({ isPaused }) => !isPaused);
}

function startScrubber(config: DaemonConfig, { lifecycle, ...common }: Common): void {
  const { bytesPerSecond } = config.scrub;
  const scrubber = new TableScrubber({ path: storePathOf(config.dataDir), bytesPerSecond }, common);
  common.metrics.scrubRate.set(bytesPerSecond);
  lifecycle.supervise(scrubber.run(lifecycle.signal));
}
