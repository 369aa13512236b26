import type { AccessNetwork, SporkTable } from '../../access/index.js';
import {
  BlockCollectionIndexer,
  ByteBudget,
  CollectionRequester,
  DEFAULT_HOLD_BACK_MS,
  Disputes,
  DisputeReviewer,
  ExecutionDataIndexer,
  HeightTable,
  IndexingWindow,
  JobProcessor,
  MissingCollectionQueue,
  OffChainBlockError,
  ParentLinkError,
} from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { parseIdentifier } from '../../flow/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { FinalizedBlocks } from '../../finality/index.js';
import type { FinalizationListener, SporkRoot } from '../../finality/index.js';
import { ComponentConsumer } from '../../jobqueue/index.js';
import type { WorkSignal } from '../../jobqueue/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import { stopWhenFinished } from './stopHeight.js';

/**
 * Heights and bytes of one durable batch at most: large enough that the sync of a batch costs nothing, and at most half
 * the window, so that the other half is fetched meanwhile.
 */
const GROUP_MAX_HEIGHTS = 32;
/** A height without collections costs a batch next to nothing: of those, the sync is most of the cost. */
const GROUP_MAX_EMPTY_HEIGHTS = 128;
const GROUP_MAX_BYTES = 8 * 1024 * 1024;

/** Where execution data is the only source, nodes without it are asked again whether they have it so often. */
const ONLY_SOURCE_PROBE_MS = 5_000;
/** Execution data that is due and does not come for this long has the stream opened again. */
const EDI_SILENCE_MS = 10_000;

export interface IndexingLineParts {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly workSignal: WorkSignal;
  readonly accountBuilder: AccountIndexBuilder;
  readonly lifecycle: Lifecycle;
  readonly sporks: SporkTable;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly logger: Logger;
  /** The watermark has moved: what can be read has grown. Must not throw. */
  readonly onIndexed?: () => void;
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
  /**
   * Resolves with the reason when the line must be begun anew: a node had lied about a block, and was found out only after
   * the block had been completed on top of the watermark.
   */
  readonly outdated: Promise<string>;
  /** Ends the sources, lets the writer finish the batch in hand, and waits for all of it. Idempotent. */
  close(): Promise<void>;
}

/**
 * The line from a finalized block to a durable record, as the picture in docs/architecture.md draws it: built from its
 * durable end backwards, started from its durable end too. Everything it runs ends with the life cycle. `reachedHeight`: see
 * `FinalizedBlocks`.
 */
export function startIndexingLine(
  config: DaemonConfig,
  parts: IndexingLineParts,
  { reachedHeight }: { readonly reachedHeight: number },
): IndexingLine {
  const {
    store,
    network,
    listener,
    workSignal,
    lifecycle,
    sporks,
    clock,
    random,
    metrics,
    logger,
    onIndexed,
  } = parts;
  const common = { clock, random, metrics, logger };
  const sporkRoots = sporkRootsOf(sporks);
  const scope = new AbortController();
  let giveUp = (_reason: string): void => undefined;
  const outdated = new Promise<string>((resolve) => (giveUp = resolve));
  const onFatal = (error: unknown): void => {
    if (error instanceof OffChainBlockError) {
      giveUp(`the block that was completed at height ${error.height} is not on the finalized chain`);
      return;
    }
    if (!(error instanceof ParentLinkError)) {
      lifecycle.fail(error);
      return;
    }
    logger.debug({ height: error.height, error: error.message }, 'blocks do not link');
    giveUp(`the block at height ${error.height} does not continue the one below it`);
  };
  const head = (): number => Math.min(listener.finalizedHeight() ?? 0, config.stopHeight ?? Infinity);

  const heights = new HeightTable({}, { watermark: store });
  const indexer = new BlockCollectionIndexer(
    {
      windowHeights: config.window,
      groupMaxHeights: Math.min(GROUP_MAX_HEIGHTS, Math.ceil(config.window / 2)),
      groupMaxEmptyHeights: Math.min(GROUP_MAX_EMPTY_HEIGHTS, Math.ceil(config.window / 2)),
      groupMaxBytes: GROUP_MAX_BYTES,
    },
    {
      ...{ store, heights, clock, metrics, logger, ...(onIndexed === undefined ? {} : { onIndexed }) },
      sporkFor: (height) => network.sporkAt(height),
      rootParentAt: (height) => sporkRoots.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
    },
  );
  const mcq = new MissingCollectionQueue({ maxHeights: config.window }, { heights });
  const budget = new ByteBudget(
    { limitBytes: config.maxInFlightBytes },
    { holdingUp: () => mcq.holdingUp() },
  );
  const window = new IndexingWindow({ windowHeights: config.window }, { indexer, mcq, budget, head });

  // Processor and sources know each other through ports only; the processor is the sink of both.
  const sink = {
    onCollection: (received: Parameters<JobProcessor['onCollection']>[0]) => processor.onCollection(received),
    onReceivedCollectionsForBlock: (
      height: number,
      collections: Parameters<JobProcessor['onReceivedCollectionsForBlock']>[1],
    ) => processor.onReceivedCollectionsForBlock(height, collections),
    onContradiction: (...contradiction: Parameters<JobProcessor['onContradiction']>) =>
      processor.onContradiction(...contradiction),
  };
  const edi = config.edi.enabled
    ? new ExecutionDataIndexer(
        {
          silenceMs: EDI_SILENCE_MS,
          lookaheadHeights: config.window,
          backoffMinMs: config.requester.backoffMinMs,
          backoffMaxMs: config.requester.backoffMaxMs,
          ...(config.ediOnly ? { probeMs: ONLY_SOURCE_PROBE_MS } : {}),
        },
        { ...common, nodes: network, window, sink, sealedHeight: () => listener.sealedHeight() },
      )
    : undefined;
  const requester = config.ediOnly
    ? undefined
    : new CollectionRequester(
        {
          concurrency: config.requester.concurrency,
          workersPerHeight: config.workersPerHeight,
          timeoutMs: config.requester.timeoutMs,
          backoffMinMs: config.requester.backoffMinMs,
          backoffMaxMs: config.requester.backoffMaxMs,
          holdBackMs: DEFAULT_HOLD_BACK_MS,
        },
        { ...common, mcq, nodes: network, window, sink, outlook: edi, onFatal },
      );
  const disputes = new Disputes({}, { nodes: network });
  const processor = new JobProcessor(
    { ediOnly: config.ediOnly },
    {
      ...common,
      mcq,
      indexer,
      budget,
      window,
      disputes,
      ...(requester === undefined ? {} : { requests: requester }),
      ...(edi === undefined ? {} : { executionDataReason: () => edi.trouble() }),
      onFatal,
    },
  );
  const blocks = new FinalizedBlocks(
    {
      window: config.window,
      stopHeight: config.stopHeight,
      firstHeight: store.meta()?.firstHeight,
      reachedHeight,
      sporkRoots,
      backoffMinMs: config.requester.backoffMinMs,
      backoffMaxMs: config.requester.backoffMaxMs,
    },
    {
      ...common,
      nodes: network,
      watermark: store,
      // The chain's own: at the stop height, blocks are not at the tip yet.
      head: () => listener.finalizedHeight() ?? 0,
      signal: workSignal,
      onReviewed: (job) => processor.replace(job),
      storedBlock: async (height) => (await store.blockByHeight(height))?.block,
      onReplaced: (job) => {
        if (processor.replace(job) || holds(job, { mcq, store })) return;
        // Too late to exchange it: the lie is complete, on its way to the disk or there already.
        const { stage } = processor.explain(job.height);
        if (stage === 'committing' || stage === 'indexed') {
          giveUp(`the block that was completed at height ${job.height} is not on the finalized chain`);
        }
      },
    },
  );
  const disputeWatch = new DisputeReviewer(
    {},
    { mcq, disputes, requests: requester, reviewer: blocks, clock },
  );
  const listening = [
    listener.onHead(() => {
      blocks.notify();
      window.notify();
    }),
    listener.onAnswerAgain(() => blocks.wake()),
    network.onAnswering(() => blocks.wake()),
  ];
  const consumer = new ComponentConsumer(
    { maxProcessing: config.maxProcessing, maxSearchAhead: config.window },
    {
      jobs: blocks,
      worker: processor,
      progress: { processedIndex: () => store.latestIndexedHeight() },
      wakeUp: workSignal,
      hooks: {
        post: () => {
          blocks.notify();
          stopWhenFinished(config, parts);
        },
      },
    },
  );

  const { signal } = scope;
  const running = [
    // Jobs that lack collections would never return: they are abandoned, and worked on again by the next line.
    consumer.run(signal, signal),
    blocks.run(signal),
    disputeWatch.run(signal),
    ...(edi === undefined ? [] : [edi.run(signal)]),
  ];
  for (const loop of running) lifecycle.supervise(loop);

  const close = async (): Promise<void> => {
    for (const stopListening of listening) stopListening();
    if (!signal.aborted) scope.abort(new AbortError('the indexing line ends'));
    await requester?.stop();
    indexer.stop();
    await indexer.idle();
    await indexer.recordLateSpork();
    await Promise.allSettled(running);
  };
  return { blocks, mcq, budget, window, processor, indexer, requester, edi, outdated, close };
}

/** True when the very block of this job is the one in hand, or the one that is durable above the watermark. */
function holds(
  job: { readonly height: number; readonly block: FinalizedBlock },
  { mcq, store }: { readonly mcq: MissingCollectionQueue; readonly store: IndexStore },
): boolean {
  const inHand = mcq.get(job.height)?.block;
  const durable = store.blocksAboveWatermark().find(({ height }) => height === job.height);
  return (inHand ?? durable)?.id === job.block.id;
}

/** The table's parents of root blocks: a spork may have discarded blocks that we hold as the parent. */
function sporkRootsOf(sporks: SporkTable): SporkRoot[] {
  return sporks.flatMap(({ rootHeight, rootParentId, rootParentIsBelow = true }) => {
    const parsed = parseIdentifier(rootParentId);
    return parsed === undefined ? [] : [{ rootHeight, rootParentId: parsed, rootParentIsBelow }];
  });
}
