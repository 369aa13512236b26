import type { NodeMetadata, OpenChannel } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import type { createLogger, Logger, ProgramLogger } from '../observability/index.js';
import type { KillMode } from '../ranges/index.js';
import { CertificateThread } from '../proof/index.js';
import { hasSoundHttp2, programVersion, systemClock, systemRandom } from '../runtime/index.js';
import { logBytes } from '../storage/index.js';
import type { IndexStore } from '../storage/index.js';
import { reloadWhenWanted } from './reloadWhenWanted.js';
import type { Reloading } from './reloadWhenWanted.js';
import { seedStore } from './stores/copies.js';
import { tellPlan } from './firstContact.js';
import { openSecretFiles } from './guard/openSecretFiles.js';
import type { DaemonParts } from './health/DaemonState.js';
import { serviceStatus, startHealth, watchStorage } from './health/startHealth.js';
import { storePathOf } from './lifecycle/daemonRecord.js';
import { watchDescriptors } from './lifecycle/watchDescriptors.js';
import { readShippedSporks } from './lifecycle/knownBlocks.js';
import type { ServiceNotifier } from './lifecycle/openServiceNotifier.js';
import { hasReachedStop, openUpstream, runIndexing } from './line/runIndexing.js';
import { startServers } from './startServers.js';
import { openQueueToWork, openReplicaToRead } from './stores/databases.js';
import { openStoreToIndex } from './stores/openStore.js';
import type { OpenStore } from './stores/openStore.js';
import { keepReaderThread } from './threads/keepReaderThread.js';
import type { ReaderThread } from './threads/keepReaderThread.js';
import { startCertificates, startWorker } from './threads/startWorker.js';
import type { StartReader } from './threads/startWorker.js';

/** How the daemon reaches the outside. Default: the disk, gRPC, standard output, threads for readers and for certificates. */
export interface DaemonPorts {
  readonly openStore?: OpenStore;
  readonly openChannel?: OpenChannel;
  readonly createLogger?: typeof createLogger;
  readonly startReader?: StartReader;
  readonly startCertificates?: typeof startCertificates;
}

/** Builds the daemon and runs it until it is to stop. The life cycle closes it. */
export async function indexAndServe(
  config: DaemonConfig,
  own: Pick<DaemonParts, 'lifecycle' | 'metrics' | 'outputs' | 'terminal'> & {
    readonly ports: DaemonPorts;
    readonly logger: ProgramLogger;
    readonly notifier: ServiceNotifier | undefined;
    /** Writes to standard output, above the live line. */
    readonly print: (text: string) => void;
    readonly reloading: Reloading | undefined;
  },
): Promise<void> {
  const { ports, lifecycle, logger, metrics, notifier, outputs, print, reloading, terminal } = own;
  const onBuilt = reloading && reloadWhenWanted(reloading, { logger });
  const version = programVersion();
  metrics.networkInfo.set({ network: config.network, chain: config.chainId }, 1);
  logger.info({ version, network: config.network, dataDir: config.dataDir }, 'starting');
  const common = { lifecycle, clock: systemClock, random: systemRandom, metrics, logger };

  const sporks = await readShippedSporks(config.network);
  const descriptors = watchDescriptors(config, common);
  lifecycle.supervise(descriptors.run(lifecycle.signal));
  const secretFiles = await openSecretFiles(config, { ...common, sporks });
  lifecycle.supervise(secretFiles.run(lifecycle.signal));
  const { fromSnapshot } = config;
  if (fromSnapshot !== undefined) {
    const seeded = await seedStore(config, fromSnapshot, { ...common, signal: lifecycle.signal });
    if (seeded === 'stopped') return;
  }
  // The thread loads its modules while the store is opened.
  const readers = config.roles.includes('api')
    ? startReaderThread(config, { ...common, descriptors, ports, secretFiles })
    : undefined;
  // What a crash may have left half written; LevelDB makes tables of it when it opens.
  const newestBytes = config.store === undefined ? await logBytes(storePathOf(config.dataDir)) : 0;
  const { openStore } = ports;
  const store = await openStoreToIndex(config, { ...common, descriptors, openStore, readers });
  if (readers !== undefined && config.api.grpcPort !== 'off' && !hasSoundHttp2(process.version))
    warnOfNode(logger);
  if (hasReachedStop(config, store) && !lacksAccounts(store) && !lacksHistory(config, store)) {
    logger.info({ latestIndexedHeight: store.latestIndexedHeight() }, 'stop height is indexed already');
    // A service that ends without having been ready counts as failed.
    notifier?.ready(() => 'The stop height is indexed already');
    return;
  }
  const replica = readers && (await openReplicaToRead(config, common));
  if (replica !== undefined) {
    lifecycle.onClose('replica', () => replica.close());
    replica.shared?.onChanged(() => readers?.notify());
  }
  let onKill = (_mode: KillMode): void => lifecycle.stop();
  const queue = await openQueueToWork(config, { ...common, onKill: (mode) => onKill(mode) });
  if (queue !== undefined) lifecycle.onClose('queue', () => queue.close());
  const watched = watchStorage(config, { ...common, store });
  const certificates = new CertificateThread(ports.startCertificates ?? startCertificates);
  lifecycle.onClose('certificates', () => certificates.close());
  const upstream = openUpstream(config, {
    ...common,
    store,
    queue,
    sporks,
    room: watched.diskWatch,
    certificates,
    openChannel: ports.openChannel,
    credentialsFor: (endpoint, isPeer) => secretFiles.credentialsFor(endpoint, isPeer),
  });
  const served = { descriptors, outputs, queue, readers, replica, secretFiles, terminal };
  const parts: DaemonParts = { ...upstream, ...watched, ...served };
  onKill = (mode) => {
    if (mode === 'release' || !parts.backfill.finish()) lifecycle.stop();
  };
  const checking = parts.healing.checkNewest(newestBytes, lifecycle.signal).then(() => 'done');
  if ((await lifecycle.unlessStopped(checking)) === undefined) return;
  const health = startHealth(config, parts);
  onBuilt?.({ ...parts, health });
  const addresses = await startServers(config, { ...parts, health });
  if (lifecycle.signal.aborted) return;
  notifier?.ready(() => serviceStatus(health));
  tellPlan(config, { ...parts, addresses, print });
  lifecycle.supervise(parts.healing.scrub(config.scrub.bytesPerSecond, lifecycle.signal));
  await runIndexing(config, parts, (line) => health.runs(line));
}

function startReaderThread(
  config: DaemonConfig,
  {
    descriptors,
    lifecycle,
    ports,
    secretFiles,
    ...common
  }: Pick<DaemonParts, 'clock' | 'descriptors' | 'lifecycle' | 'logger' | 'metrics' | 'secretFiles'> & {
    readonly ports: DaemonPorts;
  },
): ReaderThread {
  const { api, log } = config;
  const { corsOrigins, ratePerSecondPerAddress } = api;
  const forwards = api.forward || api.forwardRest !== undefined;
  const secrets = () => ({
    secrets: secretFiles.secrets(),
    nodeMetadata: forwards ? secretFiles.nodeMetadata() : new Map<string, NodeMetadata>(),
  });
  const { forwarded: forwardSockets, perPort: maxConnections } = descriptors.shares();
  const readers = keepReaderThread(
    {
      config,
      forwardSockets,
      settings: { corsOrigins, ratePerSecondPerAddress, maxConnections, logLevel: log.level, ...secrets() },
    },
    { ...common, start: ports.startReader ?? startWorker },
  );
  secretFiles.onChange(() => readers.change(secrets()));
  descriptors.onChange(() => readers.change({ maxConnections: descriptors.shares().perPort }));
  lifecycle.onClose('reader thread', () => readers.close());
  return readers;
}

/** True when the account index is incomplete; completing it needs no access node. */
function lacksAccounts({ accounts }: IndexStore): boolean {
  return (accounts.coverage()?.missingHeights ?? 0) > 0;
}

/** True when history is planned, or the configuration asks to plan some: it is filled in before the daemon ends. */
function lacksHistory({ backfill }: DaemonConfig, { ranges }: IndexStore): boolean {
  return backfill.plan !== undefined || ranges.plans().some(({ isPaused }) => !isPaused);
}

function warnOfNode(logger: Logger): void {
  logger.warn(
    { node: process.version, advice: 'run Node.js 24, or allow only trusted callers at the gRPC port' },
    'callers of the gRPC port can end the process: this version of Node.js has a bug',
  );
}
