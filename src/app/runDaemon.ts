import { join, resolve } from 'node:path';
import { redirectLibraryLogs, type OpenChannel } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import { createLogger, createMetrics, liveTerminal, loadPrettyLine } from '../observability/index.js';
import { silentLogger } from '../observability/index.js';
import type { TerminalStream } from '../observability/index.js';
import { certificateThread } from '../proof/index.js';
import { hasSoundHttp2 } from '../api/index.js';
import { abortReason, exitCodeOf, messageOf, OperatorError, programVersion } from '../runtime/index.js';
import { systemClock, systemRandom } from '../runtime/index.js';
import type { ExitReason, Output } from '../runtime/index.js';
import { logBytes } from '../storage/index.js';
import { announcePlan } from './firstContact.js';
import { openSecretFiles } from './guard/openSecretFiles.js';
import type { DaemonParts } from './health/diagnose.js';
import { startHealth, watchStorage } from './health/startHealth.js';
import { RECORD_FILE, removeIfPossible, storePathOf } from './lifecycle/daemonRecord.js';
import { sporksOf } from './lifecycle/knownBlocks.js';
import { openLifecycle } from './lifecycle/openLifecycle.js';
import { openServiceNotifier, type ServiceNotifier } from './lifecycle/openServiceNotifier.js';
import { watchDescriptors } from './lifecycle/watchDescriptors.js';
import { isFinished, openUpstream, runIndexing } from './line/runIndexing.js';
import { reloadWhenWanted, type Reloading } from './reloadWhenWanted.js';
import { startServers } from './startServers.js';
import { seedStore } from './stores/copies.js';
import { openQueueToWork, openReplicaToRead } from './stores/databases.js';
import { openStoreToIndex, type OpenStore } from './stores/openStore.js';
import { keepReaderThread, type ReaderThread } from './threads/keepReaderThread.js';
import type { ReaderOptions } from './threads/messages.js';
import { certificatesStarter, readerStarter, type StartReader } from './threads/startWorker.js';

/** What the daemon needs from its process. */
interface Host {
  /** Where the log goes. */
  readonly stdout: TerminalStream;
  /** Standard output and standard error. The daemon outlives their readers. */
  readonly outputs?: readonly Output[];
  /** True for a terminal on which a line can be redrawn. */
  readonly isLive: boolean;
  /** Aborted by the operator, to stop gracefully; the message of its reason is the name of the signal. */
  readonly signal: AbortSignal;
  /** Registers a listener for an uncaught error, which is called before the process ends. */
  readonly onBug?: (listener: (error: unknown) => void) => void;
  /** Absent: the configuration stays as it is. */
  readonly reloading?: Reloading;
}

/** How the daemon reaches the outside. Default: the disk, gRPC, standard output, threads for readers and for certificates. */
interface DaemonPorts {
  readonly openStore?: OpenStore;
  readonly openChannel?: OpenChannel;
  readonly createLogger?: typeof createLogger;
  readonly startReader?: StartReader;
  readonly startCertificates?: ReturnType<typeof certificatesStarter>;
}

/** What exists before the parts are built. */
interface Begun extends Pick<
  DaemonParts,
  'clock' | 'lifecycle' | 'logger' | 'metrics' | 'outputs' | 'random' | 'terminal'
> {
  readonly notifier: ServiceNotifier | undefined;
  readonly reload: ReturnType<typeof reloadWhenWanted> | undefined;
  readonly ports: DaemonPorts;
  /** Writes to standard output, above the live line. */
  readonly print: (text: string) => void;
}

/**
 * Runs the daemon until it is stopped, reaches its stop height or fails. Expected errors: OperatorError; anything else is a
 * bug.
 */
export async function runDaemon(
  config: DaemonConfig,
  host: Host,
  ports: DaemonPorts = {},
): Promise<ExitReason> {
  const { onBug, outputs = [], reloading } = host;
  const { format, level } = config.log;
  const clock = systemClock;
  const terminal = host.isLive ? liveTerminal(host.stdout) : undefined;
  const destination = terminal ?? host.stdout;
  const colorize = host.isLive && (process.env['NO_COLOR'] ?? '') === '';
  const toLine = format === 'pretty' ? (await loadPrettyLine()).prettyLine({ colorize }) : undefined;
  const logger = (ports.createLogger ?? createLogger)({ level, toLine, destination });
  const metrics = createMetrics({ version: programVersion, node: process.version });
  const onLost = (lines: number): void => metrics.logLinesLost.inc(lines);
  for (const output of outputs) output.neverWait({ onLost });
  outputs[0]?.neverWait({
    onLost,
    say: ({ lines, sinceMs, reason }) => {
      const since = new Date(sinceMs).toISOString();
      logger.warn({ lines, since, reason }, 'log lines were lost');
    },
  });
  redirectLibraryLogs({ logger });
  const lifecycle = openLifecycle({ clock, logger });
  // The log's last line. In the pretty format, the message on standard error is enough.
  const logEnd = (error: unknown): void => {
    const exit = error instanceof OperatorError ? error.exit : 'bug';
    const stack = error instanceof Error && exit === 'bug' ? { stack: error.stack } : {};
    if (format === 'json') logger.fatal({ exitCode: exitCodeOf(exit), exit, ...stack }, messageOf(error));
  };
  onBug?.(logEnd);
  const onStop = (): void => {
    const { message: by } = abortReason(host.signal);
    logger.info({ signal: by, stopWithinSeconds: 10 }, 'stopping; a second signal forces');
    lifecycle.stop();
  };
  // The signal may have arrived while the modules were loaded.
  if (host.signal.aborted) onStop();
  else host.signal.addEventListener('abort', onStop, { once: true });
  const { signal } = lifecycle;
  const notifier = openServiceNotifier(process.env, { clock, logger, signal });
  const reload = reloading && reloadWhenWanted(reloading, { clock, logger });
  const print = (text: string): void => void destination.write(text);
  const around = { clock, random: systemRandom, lifecycle, logger, metrics, outputs, terminal };
  try {
    // The current directory may be removed before this process ends.
    const lasting = { ...config, dataDir: resolve(config.dataDir) };
    const work = indexAndServe(lasting, { ...around, notifier, reload, ports, print });
    await lifecycle.waitFor('work in hand', work);
    host.signal.removeEventListener('abort', onStop);
    await lifecycle.close();
  } catch (error) {
    // The process logs an unexpected error when it ends.
    if (error instanceof OperatorError) logEnd(error);
    throw error;
  } finally {
    await notifier?.close();
  }
  logger.info({}, 'stopped');
  return 'done';
}

/** Reads what a start reads of secrets and sporks. Expected errors: those of `openSecretFiles` and `sporksOf`. */
export async function checkSecretFiles(config: DaemonConfig): Promise<void> {
  const sporks = await sporksOf(config);
  const metrics = createMetrics({ version: programVersion, node: process.version });
  await openSecretFiles(config, { clock: systemClock, logger: silentLogger, metrics, sporks });
}

/**
 * Builds the daemon and runs it until it must stop. The life cycle closes it. `config`: a reload changes it in place. Expected
 * errors: OperatorError; its abort reason.
 */
async function indexAndServe(config: DaemonConfig, own: Begun): Promise<void> {
  const { ports, lifecycle, logger, metrics, notifier, print, reload } = own;
  const { dataDir, fromSnapshot, network } = config;
  const { signal } = lifecycle;
  signal.throwIfAborted();
  metrics.networkInfo.set({ network, chain: config.chainId }, 1);
  logger.info({ version: programVersion, network, dataDir }, 'starting');

  const sporks = await sporksOf(config);
  const descriptors = watchDescriptors(config, own);
  lifecycle.supervise(descriptors.run(signal));
  const secretFiles = await openSecretFiles(config, { ...own, sporks });
  lifecycle.supervise(secretFiles.run(signal));
  const step = <T>(name: string, work: Promise<T>): Promise<T> =>
    lifecycle.step(name, work, () => notifier?.moreTime());
  if (fromSnapshot !== undefined)
    await step('restore a snapshot', seedStore(config, fromSnapshot, { ...own, signal }));
  // The thread loads its modules while the store is opened.
  const readers = config.roles.includes('api')
    ? startReaderThread(config, { ...own, descriptors, secretFiles })
    : undefined;
  // A crash may have left this half written; LevelDB turns it into tables when it opens.
  const newestBytes = config.store === undefined ? await logBytes(storePathOf(dataDir)) : 0;
  const opening = openStoreToIndex(config, { ...own, descriptors, openStore: ports.openStore, readers });
  const store = await step('open the store', opening);
  if (readers !== undefined && config.api.grpcPort !== 'off' && !hasSoundHttp2(process.version))
    logger.warn(
      { node: process.version, advice: 'run Node.js 24, or allow only trusted callers at the gRPC port' },
      'callers of the gRPC port can end the process: this version of Node.js has a bug',
    );
  const replica = readers && (await openReplicaToRead(config, { ...own, signal }));
  if (replica !== undefined) {
    lifecycle.onClose('replica', () => replica.close());
    replica.shared?.onChanged(() => readers?.notify());
  }
  const registering = openQueueToWork(config, { ...own, onKill: lifecycle.stop, signal });
  const queue = await step('open the queue', registering);
  if (queue !== undefined) lifecycle.onClose('queue', () => queue.close());
  const watched = watchStorage(config, { ...own, store });
  const certificates = certificateThread(ports.startCertificates ?? certificatesStarter());
  lifecycle.onClose('certificates', () => certificates.close());
  const { credentialsFor } = secretFiles;
  const { openChannel } = ports;
  const outside = { queue, sporks, room: watched.diskWatch, certificates, openChannel, credentialsFor };
  const upstream = openUpstream(config, { ...own, ...outside, store });
  if (isFinished(config, upstream)) {
    logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'stop height is indexed already');
    // Left by a killed daemon, as we hold the store's lock. With a database, another daemon may use this directory.
    if (config.store === undefined) removeIfPossible(join(dataDir, RECORD_FILE));
    // A service that ends before it was ready counts as failed.
    notifier?.ready();
    return;
  }
  const opened = { descriptors, queue, readers, replica, secretFiles };
  const parts: DaemonParts = { ...own, ...upstream, ...watched, ...opened };
  await step('check the newest blocks', parts.healing.checkNewest(newestBytes, signal));
  const health = startHealth(config, parts);
  if (reload) lifecycle.supervise(reload(config, () => readers?.change(), signal));
  const addresses = await startServers(config, { ...parts, health });
  if (signal.aborted) return;
  notifier?.ready();
  announcePlan(config, { ...parts, addresses, print });
  lifecycle.untilStopped('scrubbing', parts.healing.scrub(config.scrub.bytesPerSecond, signal));
  await runIndexing(config, parts, health.diagnosis.runs);
}

function startReaderThread(
  config: DaemonConfig,
  parts: Begun & Pick<DaemonParts, 'descriptors' | 'secretFiles'>,
): ReaderThread {
  const { descriptors, lifecycle, ports, secretFiles } = parts;
  const forwards = config.api.forward || config.api.forwardRest !== undefined;
  const options = (): ReaderOptions => ({
    config: { ...config, api: { ...config.api, maxConnections: descriptors.shares().perPort } },
    forwardSockets: descriptors.shares().forwarded,
    secrets: secretFiles.secrets(),
    nodeMetadata: forwards ? secretFiles.nodeMetadata() : undefined,
  });
  const start = ports.startReader ?? readerStarter();
  const readers = keepReaderThread(options, { ...parts, start });
  secretFiles.onChange(readers.change);
  descriptors.onChange(readers.change);
  lifecycle.onClose('reader thread', () => readers.close());
  return readers;
}
