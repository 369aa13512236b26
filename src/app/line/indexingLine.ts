import type { AccessNetwork, AccessNodes, SporkTable } from '../../access/index.js';
import {
  BlockCollectionIndexer,
  ByteBudget,
  CollectionRequester,
  DEFAULT_HOLD_BACK_MS,
  Disputes,
  DisputeReviewer,
  ExecutionDataIndexer,
  GuaranteeReview,
  HeightTable,
  IndexingWindow,
  JobProcessor,
  MissingCollectionQueue,
} from '../../collections/index.js';
import type { CollectionSink, EndpointSlots } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { FinalizedBlocks } from '../../finality/index.js';
import type { FinalizationListener, RootParent } from '../../finality/index.js';
import { ComponentConsumer } from '../../jobqueue/index.js';
import type { WorkSignal } from '../../jobqueue/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { RangeStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import { ediOptions, indexerOptions, requesterOptions, rootParentsOf } from './lineOptions.js';
import { OutdatedLine } from './OutdatedLine.js';

/** What tells the line how far the chain is: a FinalizationListener, or the end of a range. */
export type ChainHead = Pick<
  FinalizationListener,
  'finalizedHeight' | 'sealedHeight' | 'toldHead' | 'onHead' | 'onAnswerAgain'
>;

/** What one line is built on. */
export interface IndexingLineParts {
  /** The run of heights that the line writes: the live range, or one of history. */
  readonly store: RangeStore;
  /** Asked for everything. */
  readonly nodes: AccessNodes;
  readonly network: Pick<AccessNetwork, 'sporkAt' | 'onAnswering'>;
  readonly listener: ChainHead;
  readonly workSignal: WorkSignal;
  readonly lifecycle: Pick<Lifecycle, 'fail' | 'supervise'>;
  readonly sporks: SporkTable;
  /** Of the nodes, shared by all lines. */
  readonly slots: EndpointSlots;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The watermark, or the head, has moved: what can be read may have grown. Must not throw. */
  readonly onIndexed?: () => void;
}

export interface IndexingLineOptions {
  /** See `FinalizedBlocks`. */
  readonly reachedHeight: number;
  /** A range of history, behind the live one in everything. Default false. */
  readonly isHistory?: boolean;
  /** What is known of the chain beside the spork table: the parent that the block above a range names. */
  readonly rootParents?: readonly RootParent[];
}

/** The parts that the status, the metrics and the health read. */
export interface IndexingLine {
  readonly blocks: FinalizedBlocks;
  readonly mcq: MissingCollectionQueue;
  readonly budget: ByteBudget;
  readonly window: IndexingWindow;
  readonly processor: JobProcessor;
  readonly indexer: BlockCollectionIndexer;
  /** Absent with `ediOnly`. */
  readonly requester: CollectionRequester | undefined;
  /** Absent with `edi.enabled: false`. */
  readonly edi: ExecutionDataIndexer | undefined;
  /** Resolves with the reason when the line must be begun anew (see `OutdatedLine`). */
  readonly outdated: Promise<string>;
  /** Ends the sources, lets the writer finish the batch in hand, and waits for all of it. Idempotent. */
  close(): Promise<void>;
}

/**
 * The line from a finalized block to a durable record, as the picture in docs/architecture.md draws it: built from its
 * durable end backwards. Everything it runs ends with the life cycle.
 */
export function startIndexingLine(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { reachedHeight, isHistory = false, rootParents: known = [] }: IndexingLineOptions,
): IndexingLine {
  const { store, nodes, network, listener, workSignal, lifecycle, slots } = parts;
  const { clock, random, metrics, logger } = parts;
  const common = { nodes, clock, random, metrics, logger };
  const tabled = rootParentsOf(parts.sporks);
  const rootParents = [...tabled, ...known];
  const outdated = new OutdatedLine({}, { lifecycle, logger });
  const onFatal = (error: unknown): void => outdated.judge(error);

  // The durable end, and what is known of each height above it.
  const heights = new HeightTable({}, { watermark: store });
  const indexer = new BlockCollectionIndexer(indexerOptions(config), {
    ...{ ...common, store, heights },
    sporkFor: (height) => network.sporkAt(height),
    rootParentAt: (height) => tabled.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
    onIndexed: () => window.moved(),
  });
  const mcq = new MissingCollectionQueue({ maxHeights: config.window }, { heights });
  const budget = new ByteBudget({ limitBytes: config.maxInFlightBytes }, { heights });
  const window = new IndexingWindow(
    { windowHeights: config.window },
    {
      ...{ indexer, mcq, budget },
      head: () => Math.min(listener.finalizedHeight() ?? 0, config.stopHeight ?? Infinity),
    },
  );

  // Both sources, and where they meet: they know each other through ports only.
  const sink: CollectionSink = {
    onCollection: (received) => processor.onCollection(received),
    onReceivedCollectionsForBlock: (height, collections) =>
      processor.onReceivedCollectionsForBlock(height, collections),
    onContradiction: (height, node, detail) => processor.onContradiction(height, node, detail),
  };
  const edi = config.edi.enabled
    ? new ExecutionDataIndexer(ediOptions(config), {
        ...{ ...common, window, sink },
        sealedHeight: () => listener.sealedHeight(),
      })
    : undefined;
  const requester = config.ediOnly
    ? undefined
    : new CollectionRequester(
        { ...requesterOptions(config), isHistory, holdBackMs: DEFAULT_HOLD_BACK_MS },
        { ...common, slots, mcq, window, sink, outlook: edi, onFatal },
      );
  const disputes = new Disputes({}, { nodes, heights });
  const processor = new JobProcessor(config, {
    ...{ ...common, mcq, indexer, window, disputes, requests: requester, onFatal },
    executionDataReason: () => edi?.trouble(),
  });

  // Finalized blocks, and who decides when nodes give several.
  const blocks = new FinalizedBlocks(
    {
      ...{ window: config.window, stopHeight: config.stopHeight, reachedHeight, sporkRoots: rootParents },
      firstHeight: store.meta()?.firstHeight,
      backoffMinMs: config.requester.backoffMinMs,
      backoffMaxMs: config.requester.backoffMaxMs,
    },
    {
      ...{ ...common, watermark: store, heights, signal: workSignal },
      // The chain's own: at the stop height, blocks are not at the tip yet.
      head: () => listener.finalizedHeight() ?? 0,
      toldHead: (height) => listener.toldHead(height),
      upperBound: () => window.upperBound(),
      onReplaced: (block, giver) => processor.onForked(block, giver),
      storedBlock: async (height) => (await store.blockByHeight(height))?.block,
    },
  );
  const review = new GuaranteeReview({
    ...{ ...common, heights, asker: blocks },
    replace: (block, giver) => processor.replace(block, giver),
  });
  const reviewer = new DisputeReviewer({}, { mcq, disputes, requests: requester, reviewer: review, clock });
  const consumer = new ComponentConsumer(
    { maxProcessing: config.maxProcessing, maxSearchAhead: config.window },
    {
      jobs: blocks,
      worker: processor,
      progress: { processedIndex: () => store.latestIndexedHeight() },
      wakeUp: workSignal,
    },
  );

  window.onMoved(() => {
    blocks.notify();
    review.settle(store.latestIndexedHeight());
    parts.onIndexed?.();
  });
  const listening = [
    listener.onHead(() => window.moved()),
    listener.onAnswerAgain(() => blocks.wake()),
    network.onAnswering(() => blocks.wake()),
  ];
  const scope = new AbortController();
  const { signal } = scope;
  const running = [
    // Jobs that lack collections would never return: they are abandoned, and worked on again by the next line.
    consumer.run(signal, signal),
    ...[blocks, review, reviewer, ...(edi === undefined ? [] : [edi])].map((part) => part.run(signal)),
  ];
  for (const loop of running) lifecycle.supervise(loop);

  const close = async (): Promise<void> => {
    for (const stopListening of listening) stopListening();
    if (!signal.aborted) scope.abort(new AbortError('the indexing line ends'));
    await requester?.stop();
    indexer.stop();
    await indexer.idle();
    // A range that is filled is published, and written to no more.
    const isPublished = isHistory && store.latestIndexedHeight() === config.stopHeight;
    if (!isPublished) await indexer.recordLateSpork();
    await Promise.allSettled(running);
  };
  return {
    ...{ blocks, mcq, budget, window, processor, indexer, requester, edi },
    ...{ outdated: outdated.reason, close },
  };
}
