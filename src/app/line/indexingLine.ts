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
  HeightExplainer,
  HeightTable,
  IndexingWindow,
  JobProcessor,
  MissingCollectionQueue,
} from '../../collections/index.js';
import type {
  CollectionSink,
  EndpointSlots,
  ExecutionDataForecast,
  WindowEnds,
} from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { FinalizedBlocks } from '../../finality/index.js';
import type { FinalizationListener, FinalizedBlocksOptions, RootParent } from '../../finality/index.js';
import { ComponentConsumer, WorkSignal } from '../../jobqueue/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { RangeStore, WriteRoom } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import {
  blocksOptions,
  indexerOptions,
  peerOptions,
  requesterOptions,
  rootParentsOf,
  streamOptions,
} from './lineOptions.js';
import { OutdatedLine } from './OutdatedLine.js';

/** Tells the line how far the chain has come: a FinalizationListener, or the end of a range. */
export type ChainHead = Pick<
  FinalizationListener,
  'finalizedHeight' | 'sealedHeight' | 'toldHead' | 'onAnswerAgain'
>;

/** What one line is built from. */
export interface IndexingLineParts {
  /** The run of heights that the line writes: the live range, or one of history. */
  readonly store: RangeStore;
  /** The source of everything. */
  readonly nodes: AccessNodes;
  readonly network: Pick<AccessNetwork, 'heights' | 'onAnswering'>;
  readonly listener: ChainHead;
  /** Watermark and head. Outlives the line, which subscribes. */
  readonly ends: WindowEnds;
  readonly lifecycle: Pick<Lifecycle, 'fail' | 'supervise'>;
  readonly sporks: SporkTable;
  /** Shared by all lines. */
  readonly slots: EndpointSlots;
  /** Where the store is written. Default: there always is room. */
  readonly room?: WriteRoom | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

export interface IndexingLineOptions {
  /** See `FinalizedBlocks`. */
  readonly reachedHeight: number;
  /** A range of history, which goes behind the live one in everything. Default false. */
  readonly isHistory?: boolean;
  /** Known parents besides the spork table: the one that the block above a range names. */
  readonly rootParents?: readonly RootParent[];
  /** See `FinalizedBlocks`. */
  readonly asksFor?: FinalizedBlocksOptions['asksFor'];
}

/** The parts that status, metrics and health read. */
export interface IndexingLine {
  readonly blocks: FinalizedBlocks;
  readonly mcq: MissingCollectionQueue;
  readonly budget: ByteBudget;
  readonly processor: JobProcessor;
  readonly explainer: HeightExplainer;
  readonly indexer: BlockCollectionIndexer;
  /** Absent with `ediOnly`. */
  readonly requester: CollectionRequester | undefined;
  /** Absent with `edi.enabled: false`. */
  readonly edi: ExecutionDataIndexer | undefined;
  /** Absent without `peers`. */
  readonly peer: ExecutionDataIndexer | undefined;
  /** Resolves with the reason when the line must start over (see `OutdatedLine`). */
  readonly outdated: Promise<string>;
  /** Ends the sources, lets the writer finish the current batch, and waits for all of it. Idempotent. */
  close(): Promise<void>;
}

/**
 * Starts the line from a finalized block to a durable record, as drawn in docs/architecture.md. Each part is given
 * those that come after it, so the line is built backwards from its durable end; `listen` and `run` start it from the
 * front. Everything it runs ends with the life cycle.
 */
export function startIndexingLine(
  config: DaemonConfig,
  parts: IndexingLineParts,
  options: IndexingLineOptions,
): IndexingLine {
  const outdated = new OutdatedLine(parts);
  const { isHistory = false } = options;
  const durableEnd = buildDurableEnd(config, parts, { isHistory });
  const onFatal = (error: unknown): void => outdated.judge(error);
  const middle = buildMiddle(config, parts, durableEnd, { isHistory, onFatal });
  const front = buildFront(config, parts, { ...durableEnd, ...middle }, options, onFatal);
  const line = { ...durableEnd, ...middle, ...front };

  const stopListening = listen(parts, line);
  const { end, running } = run(parts, line);
  const close = async (): Promise<void> => {
    stopListening();
    end();
    await line.requester?.stop();
    line.indexer.stop();
    await line.indexer.idle();
    // A complete range is published, and no longer written to.
    const isPublished = isHistory && parts.store.latestIndexedHeight() === config.stopHeight;
    if (!isPublished) await line.indexer.recordLateSpork();
    await Promise.allSettled(running);
  };
  return { ...line, outdated: outdated.reason, close };
}

type DurableEnd = ReturnType<typeof buildDurableEnd>;
type Middle = ReturnType<typeof buildMiddle>;
type Front = ReturnType<typeof buildFront>;

/** The indexer, and the record of each height above the watermark. */
function buildDurableEnd(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { isHistory }: { readonly isHistory: boolean },
) {
  const { store, network, ends, room } = parts;
  const rootParents = rootParentsOf(parts.sporks);
  const heights = new HeightTable({ watermark: store });
  const indexer = new BlockCollectionIndexer(indexerOptions(config, { isHistory }), {
    ...{ ...commonOf(parts), store, ends, heights, room },
    sporkFor: (height) => network.heights.sporkAt(height),
    rootParentAt: (height) => rootParents.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
  });
  const mcq = new MissingCollectionQueue({ maxHeights: config.window }, { heights });
  const budget = new ByteBudget({ limitBytes: config.maxInFlightBytes }, { heights });
  const window = new IndexingWindow({ ends, indexer, mcq, budget });
  return { heights, indexer, mcq, budget, window };
}

/** The sources of collections, and the processor where they meet. They know each other through ports only. */
function buildMiddle(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { heights, indexer, mcq, window }: DurableEnd,
  { isHistory, onFatal }: { readonly isHistory: boolean; readonly onFatal: (error: unknown) => void },
) {
  const { listener, nodes, slots } = parts;
  const common = commonOf(parts);
  const sink: CollectionSink = {
    onCollection: (received) => processor.onCollection(received),
    onReceivedCollectionsForBlock: (height, collections) =>
      processor.onReceivedCollectionsForBlock(height, collections),
    onContradiction: (height, by, detail, what) => processor.onContradiction(height, by, detail, what),
  };
  const streams = { ...common, window, sink };
  const edi = config.edi.enabled
    ? new ExecutionDataIndexer(streamOptions(config), {
        ...streams,
        dueHeight: () => listener.sealedHeight(),
      })
    : undefined;
  const peer =
    config.peers.length > 0
      ? new ExecutionDataIndexer(peerOptions(config), {
          ...streams,
          dueHeight: () => listener.finalizedHeight(),
        })
      : undefined;
  const outlook: ExecutionDataForecast = {
    expects: (height, withinMs) =>
      edi?.expects(height, withinMs) === true || peer?.expects(height, withinMs) === true,
  };
  const requester = config.ediOnly
    ? undefined
    : new CollectionRequester(
        { ...requesterOptions(config), isHistory, holdBackMs: DEFAULT_HOLD_BACK_MS },
        { ...common, slots, mcq, window, sink, outlook, onFatal },
      );
  const disputes = new Disputes({ nodes, heights });
  const processor = new JobProcessor(config, {
    ...{ ...common, mcq, indexer, window, disputes, requests: requester, onFatal },
  });
  const explainer = new HeightExplainer({
    ...{ ...common, mcq, window, disputes, requests: requester },
    executionDataReason: () => edi?.trouble(),
    peerReason: () => peer?.trouble(),
  });
  return { edi, peer, requester, disputes, processor, explainer };
}

/** Finalized blocks, the arbiters for when nodes give several, and the consumer that hands blocks to the processor. */
function buildFront(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { disputes, heights, mcq, processor, requester }: DurableEnd & Middle,
  { reachedHeight, rootParents = [], asksFor }: IndexingLineOptions,
  onFatal: (error: unknown) => void,
) {
  const { store, listener, ends, clock } = parts;
  const common = commonOf(parts);
  const workSignal = new WorkSignal();
  const blocks = new FinalizedBlocks(
    {
      ...{ ...blocksOptions(config, parts), reachedHeight, asksFor },
      sporkRoots: [...rootParentsOf(parts.sporks), ...rootParents],
    },
    {
      ...{ ...common, heights, signal: workSignal },
      watermark: store,
      // The chain's own head: at the stop height, blocks are not at the tip yet.
      head: () => listener.finalizedHeight() ?? 0,
      toldHead: (height) => listener.toldHead(height),
      upperBound: () => ends.upperBound(),
      onReplaced: (block, giver) => processor.onForked(block, giver),
      storedBlock: async (height) => (await store.blockByHeight(height))?.block,
    },
  );
  const review = new GuaranteeReview({
    ...{ ...common, heights, asker: blocks },
    replace: (block, giver) => processor.replace(block, giver),
    fail: onFatal,
  });
  const reviewer = new DisputeReviewer({ mcq, disputes, requests: requester, reviewer: review, clock });
  const consumer = new ComponentConsumer(
    { maxProcessing: config.maxProcessing, maxSearchAhead: config.window },
    {
      ...{ jobs: blocks, worker: processor, wakeUp: workSignal },
      progress: { processedIndex: () => store.latestIndexedHeight() },
    },
  );
  return { blocks, review, reviewer, workSignal, consumer };
}

/**
 * Notifies the parts when the watermark or the head has moved, and when nodes answer again. Returns a function that
 * unsubscribes.
 */
function listen(parts: IndexingLineParts, line: DurableEnd & Front): () => void {
  const { ends, listener, network, store } = parts;
  const { blocks, heights, review, window, workSignal } = line;
  const onMoved = [
    () => heights.prune(),
    () => workSignal.notify(),
    () => blocks.notify(),
    () => review.settle(store.latestIndexedHeight()),
    () => window.notify(),
  ];
  const listening = [
    ...onMoved.map((listener) => ends.onMoved(listener)),
    listener.onAnswerAgain(() => blocks.wake()),
    network.onAnswering(() => blocks.wake()),
  ];
  return () => {
    for (const stop of listening) stop();
  };
}

/** Runs every part that has a loop of its own, until `end` is called. */
function run(
  { lifecycle }: IndexingLineParts,
  { blocks, consumer, edi, peer, review, reviewer }: Front & Middle,
) {
  const scope = new AbortController();
  const { signal } = scope;
  const running = [
    blocks.run(signal),
    // Jobs that lack collections would never return: they are abandoned, and the next line processes them again.
    consumer.run(signal, signal),
    ...[edi, peer].flatMap((stream) => stream?.run(signal) ?? []),
    review.run(signal),
    reviewer.run(signal),
  ];
  for (const loop of running) lifecycle.supervise(loop);
  const end = (): void => {
    if (!signal.aborted) scope.abort(new AbortError('the indexing line ends'));
  };
  return { end, running };
}

function commonOf({ nodes, clock, random, metrics, logger }: IndexingLineParts) {
  return { nodes, clock, random, metrics, logger };
}
