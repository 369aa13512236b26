import { AccessNetwork } from '../../access/index.js';
import type { OpenChannel, OpenNode } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { EndpointSlots, WindowEnds } from '../../collections/index.js';
import { FinalizationListener } from '../../finality/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import { AccountIndexBuilder } from '../../storage/index.js';
import type { IndexStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import { Backfill } from './Backfill.js';
import { startIndexingLine } from './indexingLine.js';
import type { IndexingLine, IndexingLineParts } from './indexingLine.js';
import { firstHeightOf, initialiseStore } from './startHeight.js';
import { stopWhenFinished } from './stopHeight.js';
import { programVersion } from '../../runtime/index.js';

/** Everything that indexing needs: the live line, and those of the ranges beside it. */
export interface IndexingParts extends Omit<IndexingLineParts, 'nodes'> {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly lifecycle: Lifecycle;
  readonly accountBuilder: AccountIndexBuilder;
  readonly backfill: Backfill;
}

/** What stands outside the line: the store below it, the process around it, and how nodes are reached. */
export interface IndexingDependencies extends Omit<
  IndexingParts,
  'network' | 'listener' | 'ends' | 'accountBuilder' | 'slots' | 'backfill'
> {
  /** Default: gRPC. */
  readonly openNode?: OpenNode | undefined;
  /** Heights of one range of history. Default: the most that the store takes. */
  readonly maxRangeHeights?: number | undefined;
  /** Default: gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** The user agent that nodes see. */
export function userAgent(): string {
  return `flow-collection-indexer/${programVersion()}`;
}

/** The access nodes and the listener of a daemon. They call nobody before `runIndexing`. */
export function openUpstream(config: DaemonConfig, dependencies: IndexingDependencies): IndexingParts {
  const { clock, random, logger, metrics, store, lifecycle, sporks, openNode, openChannel, maxRangeHeights } =
    dependencies;
  const network = new AccessNetwork(
    {
      accessNodes: config.accessNodes,
      executionDataNodes: config.edi.enabled ? config.edi.nodes : config.accessNodes,
      sporks,
      sporkRoot: config.access.sporkRoot,
      ratePerSecond: config.access.ratePerSecond,
      maxMessageBytes: config.access.maxMessageBytes,
      timeoutMs: config.requester.timeoutMs,
      userAgent: userAgent(),
    },
    {
      ...{ clock, random, logger, metrics, openNode, openChannel },
      expectation: () => ({
        chainId: config.chainId,
        network: config.network,
        sporks: store.meta()?.sporks ?? [],
        watermark: store.latestBlock(),
        firstHeight: store.meta()?.firstHeight,
        storedBlock: async (height) => (await store.blockByHeight(height))?.block,
      }),
    },
  );
  lifecycle.onClose('network', () => network.close());
  const listener = new FinalizationListener({}, { nodes: network, clock, random, logger, metrics });
  const ends = new WindowEnds(
    { windowHeights: config.window, stopHeight: config.stopHeight },
    { watermark: store, finalizedHeight: () => listener.finalizedHeight() },
  );
  listener.onHead(() => ends.moved());
  network.onAnswering(() => listener.wake());
  const accountBuilder = new AccountIndexBuilder({ accounts: store.accounts, clock, logger });
  const slots = new EndpointSlots({ concurrency: config.requester.concurrency });
  const common = { store, network, listener, slots, lifecycle, sporks, clock, random, metrics, logger };
  const backfill = new Backfill({ config, maxRangeHeights }, common);
  return { ...common, ends, accountBuilder, backfill };
}

/**
 * Follows the chain and indexes it until the daemon stops: learns who the nodes are, begins the store when it is
 * empty, builds what its account index lacks, and runs the indexing line, which starts over when a lie was found too
 * late to replace the block. `onLine` is called for every line that starts. Expected errors: OperatorError; the life
 * cycle's abort reason.
 */
export async function runIndexing(
  config: DaemonConfig,
  parts: IndexingParts,
  onLine: (line: IndexingLine) => void,
): Promise<void> {
  const { backfill, ends, lifecycle, listener, logger, network, store } = parts;
  const { signal } = lifecycle;
  const live: IndexingLineParts = { ...parts, nodes: network };
  ends.onMoved(() => backfill.notify());
  ends.onMoved(() => stopWhenFinished(config, parts));
  const published = new WorkSignal();
  backfill.onPublished(() => {
    published.notify();
    ends.moved();
  });
  // It needs nothing but the store.
  lifecycle.supervise(buildAccounts(config, parts, published));
  lifecycle.supervise(network.run(signal));
  lifecycle.supervise(listener.run(signal));
  await network.whenIdentified(signal);
  if (store.meta() === undefined) {
    // The answer of one node does not tell where the others begin.
    await network.whenAllAsked(signal);
    if (config.startHeight === 'root') await network.whenRootTold(signal);
    const first = await firstHeightOf(config, { network, listener }, signal);
    await network.whenSporkTold(first, signal);
    await initialiseStore(store, config, network, first);
    logger.info({ height: first, chainId: config.chainId }, 'new store created');
  }
  let reachedHeight = highestDurable(store);
  let line = startIndexingLine(config, live, { reachedHeight });
  lifecycle.onClose('indexing line', () => line.close());
  const filling = backfill.run(signal);
  lifecycle.supervise(filling);
  lifecycle.onClose('backfill', () => filling.catch(() => undefined));
  for (;;) {
    onLine(line);
    const outdated = await Promise.race([line.outdated, lifecycle.stopped()]);
    if (outdated === undefined || lifecycle.signal.aborted) return;
    logger.warn({ reason: outdated }, 'indexing restarts from the watermark');
    await line.close();
    // What stands above the watermark is only work saved, and some of it is a lie.
    reachedHeight = Math.max(reachedHeight, highestDurable(store));
    await store.rewind(store.latestIndexedHeight());
    line = startIndexingLine(config, live, { reachedHeight });
  }
}

/** Builds what the account index lacks: now, and whenever a range is published that was begun without it. */
async function buildAccounts(
  config: DaemonConfig,
  parts: IndexingParts,
  published: WorkSignal,
): Promise<void> {
  const { accountBuilder, lifecycle } = parts;
  for (;;) {
    await accountBuilder.run(lifecycle.signal);
    stopWhenFinished(config, parts);
    await published.wait(lifecycle.signal);
  }
}

/** The chain has been there, whatever the nodes tell of its head so far. */
function highestDurable(store: IndexStore): number {
  return Math.max(store.latestIndexedHeight(), ...store.blocksAboveWatermark().map(({ height }) => height));
}
