import { AccessNetwork } from '../../access/index.js';
import type { OpenChannel, OpenNode } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { WindowEnds } from '../../collections/index.js';
import { FinalizationListener } from '../../finality/index.js';
import { AccountIndexBuilder } from '../../storage/index.js';
import { startIndexingLine } from './indexingLine.js';
import type { IndexingLine, IndexingLineParts } from './indexingLine.js';
import { firstHeightOf, initialiseStore } from './startHeight.js';
import { stopWhenFinished } from './stopHeight.js';
import { programVersion } from '../../runtime/index.js';

/** What stands outside the line: the store below it, the process around it, and how nodes are reached. */
export interface IndexingDependencies extends Omit<
  IndexingLineParts,
  'network' | 'listener' | 'ends' | 'accountBuilder'
> {
  /** Default: gRPC. */
  readonly openNode?: OpenNode | undefined;
  /** Default: gRPC. */
  readonly openChannel?: OpenChannel | undefined;
}

/** The user agent that nodes see. */
export function userAgent(): string {
  return `flow-collection-indexer/${programVersion()}`;
}

/** The access nodes and the listener of a daemon. They call nobody before `runIndexing`. */
export function openUpstream(config: DaemonConfig, dependencies: IndexingDependencies): IndexingLineParts {
  const { clock, random, logger, metrics, store, lifecycle, sporks, openNode, openChannel } = dependencies;
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
  return {
    ...{ store, network, listener, ends, accountBuilder },
    ...{ lifecycle, sporks, clock, random, metrics, logger },
  };
}

/**
 * Follows the chain and indexes it until the daemon stops: learns who the nodes are, begins the store when it is
 * empty, builds what its account index lacks, and runs the indexing line, which starts over when a lie was found too
 * late to replace the block. `onLine` is called for every line that starts. Expected errors: OperatorError; the life
 * cycle's abort reason.
 */
export async function runIndexing(
  config: DaemonConfig,
  parts: IndexingLineParts,
  onLine: (line: IndexingLine) => void,
): Promise<void> {
  const { accountBuilder, lifecycle, listener, logger, network, store } = parts;
  const { signal } = lifecycle;
  // It needs nothing but the store.
  lifecycle.supervise(accountBuilder.run(signal).then(() => stopWhenFinished(config, parts)));
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
  let line = startIndexingLine(config, parts, { reachedHeight });
  lifecycle.onClose('indexing line', () => line.close());
  for (;;) {
    onLine(line);
    const outdated = await Promise.race([line.outdated, lifecycle.stopped()]);
    if (outdated === undefined || lifecycle.signal.aborted) return;
    logger.warn({ reason: outdated }, 'indexing restarts from the watermark');
    await line.close();
    // What stands above the watermark is only work saved, and some of it is a lie.
    reachedHeight = Math.max(reachedHeight, highestDurable(store));
    await store.rewind(store.latestIndexedHeight());
    line = startIndexingLine(config, parts, { reachedHeight });
  }
}

/** The chain has been there, whatever the nodes tell of its head so far. */
function highestDurable(store: IndexingLineParts['store']): number {
  return Math.max(store.latestIndexedHeight(), ...store.blocksAboveWatermark().map(({ height }) => height));
}
