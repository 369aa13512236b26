import type { NodeMetadata, OpenChannel } from '../access/index.js';
import type { DaemonConfig } from '../config/index.js';
import type { createLogger, LiveTerminal, Metrics, ProgramLogger } from '../observability/index.js';
import type { KillMode } from '../ranges/index.js';
import { CertificateThread } from '../proof/index.js';
import { programVersion, systemClock, systemRandom } from '../runtime/index.js';
import type { Output } from '../runtime/index.js';
import { logBytes } from '../storage/index.js';
import type { IndexStore } from '../storage/index.js';
import { ConfigReload } from './ConfigReload.js';
import type { Reloading } from './ConfigReload.js';
import { seedStore } from './stores/copies.js';
import { tellPlan } from './firstContact.js';
import { SecretFiles } from './guard/SecretFiles.js';
import { startHealth, watchStorage } from './health/startHealth.js';
import { storePathOf } from './lifecycle/daemonRecord.js';
import { Descriptors } from './lifecycle/Descriptors.js';
import type { Lifecycle } from './lifecycle/Lifecycle.js';
import { readShippedSporks } from './lifecycle/knownBlocks.js';
import type { ServiceNotifier } from './lifecycle/ServiceNotifier.js';
import { hasReachedStop, openUpstream, runIndexing, userAgent } from './line/runIndexing.js';
import { openOwnStore } from './ownStores.js';
import type { Common } from './ownStores.js';
import { startServers } from './startServers.js';
import { openQueueToWork, openReplicaToRead } from './stores/databases.js';
import type { OpenStore } from './stores/openStore.js';
import { ReaderThread } from './threads/ReaderThread.js';
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
  {
    ports,
    lifecycle,
    logger,
    metrics,
    notifier,
    outputs,
    print,
    reloading,
    terminal,
  }: {
    readonly ports: DaemonPorts;
    readonly lifecycle: Lifecycle;
    readonly logger: ProgramLogger;
    readonly metrics: Metrics;
    readonly outputs: readonly Output[];
    readonly terminal: LiveTerminal | undefined;
    readonly notifier: ServiceNotifier | undefined;
    /** Writes to standard output, above the live line. */
    readonly print: (text: string) => void;
    readonly reloading: Reloading | undefined;
  },
): Promise<void> {
  const reload = reloading && new ConfigReload(reloading, { logger });
  const version = programVersion();
  metrics.networkInfo.set({ network: config.network, chain: config.chainId }, 1);
  logger.info({ version, network: config.network, dataDir: config.dataDir }, 'starting');
  const common = { lifecycle, clock: systemClock, random: systemRandom, metrics, logger };

  const sporks = await readShippedSporks(config.network);
  const descriptors = Descriptors.claim(config, common);
  lifecycle.supervise(descriptors.run(lifecycle.signal));
  const secretFiles = await SecretFiles.open(config, { ...common, sporks });
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
  const store = await openOwnStore(config, { ...common, descriptors, openStore: ports.openStore, readers });
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
  const diskWatch = watchStorage(config, { ...common, store });
  const certificates = new CertificateThread(ports.startCertificates ?? startCertificates);
  lifecycle.onClose('certificates', () => certificates.close());
  const parts = openUpstream(config, {
    ...common,
    store,
    queue,
    sporks,
    room: diskWatch,
    certificates,
    openChannel: ports.openChannel,
    credentialsFor: (endpoint, isPeer) => secretFiles.credentialsFor(endpoint, isPeer),
  });
  onKill = (mode) => {
    if (mode === 'release' || !parts.backfill.finish()) lifecycle.stop();
  };
  const checking = parts.healing.checkNewest(newestBytes, lifecycle.signal).then(() => 'done');
  if ((await lifecycle.unlessStopped(checking)) === undefined) return;
  const health = startHealth(config, {
    ...parts,
    descriptors,
    diskWatch,
    outputs,
    queue,
    readers,
    replica,
    terminal,
  });
  reload?.start({ descriptors, diskWatch, health, readers, secretFiles });
  const addresses = await startServers(config, {
    ...parts,
    descriptors,
    readers,
    replica,
    secretFiles,
    health,
  });
  if (lifecycle.signal.aborted) return;
  notifier?.ready(() => health.summary());
  await tellPlan(config, { addresses, store, logger, print });
  lifecycle.supervise(parts.healing.scrub(config.scrub.bytesPerSecond, lifecycle.signal));
  await runIndexing(config, parts, {
    onLine: (line) => health.running(line),
    onFollow: () => health.following(),
  });
}

function startReaderThread(
  config: DaemonConfig,
  {
    descriptors,
    lifecycle,
    ports,
    secretFiles,
    ...common
  }: Common & {
    readonly descriptors: Descriptors;
    readonly ports: DaemonPorts;
    readonly secretFiles: SecretFiles;
  },
): ReaderThread {
  const { accessNodes, access, api, chainId, dataDir, log, store } = config;
  const forwards = api.forward || api.forwardRest !== undefined;
  const readerSecrets = () => ({
    secrets: secretFiles.secrets(),
    nodeMetadata: forwards ? secretFiles.nodeMetadata() : new Map<string, NodeMetadata>(),
  });
  const { forwarded: forwardSockets, perPort: maxConnections } = descriptors.shares;
  const readers = new ReaderThread(
    {
      accessNodes,
      api: { ...api, maxConnections, forwardSockets },
      chainId,
      version: programVersion(),
      userAgent: userAgent(),
      storePath: storePathOf(dataDir),
      storeUrl: api.store ?? store,
      maxMessageBytes: access.maxMessageBytes,
      logLevel: log.level,
      ...readerSecrets(),
    },
    { ...common, start: ports.startReader ?? startWorker },
  );
  secretFiles.onChange(() => readers.secure(readerSecrets()));
  descriptors.onChange(() => readers.change({ maxConnections: descriptors.shares.perPort }));
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
