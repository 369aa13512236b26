import type { AccessNetwork, AccessNodes, SporkTable } from '../../access/index.js';
import { BlockCollectionIndexer, CollectionRequester } from '../../collections/index.js';
import { DEFAULT_HOLD_BACK_MS, ExecutionDataIndexer, heightExplainer } from '../../collections/index.js';
import { JobProcessor, MissingCollectionQueue, OffChainBlockError, PEER } from '../../collections/index.js';
import { watchForOffChainBlocks } from '../../collections/index.js';
import type { EndpointSlots, Window } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { finalizedBlocks } from '../../finality/index.js';
import type { FinalizationListener, FinalizedBlocksOptions, RootParent } from '../../finality/index.js';
import type { Identifier } from '../../flow/index.js';
import { JobConsumer, WorkSignal } from '../../jobqueue/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, wasAborted, type Clock, type Random } from '../../runtime/index.js';
import { ParentLinkError, type RangeStore, type WriteRoom } from '../../storage/index.js';
import { soundBlock } from '../lifecycle/knownBlocks.js';

/**
 * The most heights and bytes of one durable batch: large enough that its sync costs little per height, and at most half the
 * window, so that the other half is fetched meanwhile.
 */
const GROUP_MAX_HEIGHTS = 32;
/** A height without collections adds almost nothing to a batch: the sync is most of the cost. */
const GROUP_MAX_EMPTY_HEIGHTS = 128;
const GROUP_MAX_BYTES = 8 * 1024 * 1024;
/** Small, for a range of history: the live range may have to wait for its batch. */
const HISTORY_GROUP_MAX_BYTES = 2 * 1024 * 1024;
/** How often nodes without execution data are asked for it again, when it is the only source. */
const ONLY_SOURCE_PROBE_MS = 5_000;
/** A stream that has been late for this long is reopened: within ten seconds, checks included. */
const STREAM_SILENCE_MS = 7_000;
/** Blocks at the tip may be seconds apart: a peer that delivered the last one is expected to deliver the next. */
const PEER_FRESH_MS = 5_000;
/** Longer than the stream of a peer may be late before it is opened again. */
const MIRROR_HOLD_BACK_MS = 10_000;

/** What all lines of a daemon share. */
export interface SharedParts {
  readonly network: AccessNetwork;
  readonly sporks: SporkTable;
  readonly listener: FinalizationListener;
  readonly slots: EndpointSlots;
  /** The disk the store is written to. Default: there always is room. */
  readonly room?: WriteRoom | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/** What one line is built on. */
export interface LineParts extends SharedParts {
  /** The run of heights that the line writes: the live range, or one of history. */
  readonly store: RangeStore;
  /** Its heights, end and head are those of the line. Outlives the line, which begins with an empty one. */
  readonly window: Window;
  /** Called when the line cannot continue. */
  readonly fail: (error: unknown) => void;
}

/** Turns finalized blocks into durable records. Status, metrics and health read its parts. */
export type IndexingLine = ReturnType<typeof buildLine>;

/** Builds the line from a finalized block to a durable record, as drawn in docs/architecture.md, and starts it. It runs until it is closed. */
export function buildLine(
  config: DaemonConfig,
  parts: LineParts,
  options: {
    /** See `FinalizedBlocksOptions`. */
    readonly reachedHeight?: number;
    /** A range of history, which yields to the live range in everything. Default false. */
    readonly isHistory?: boolean;
    /** Of history: it does not yield, because readers wait for it. Default false. */
    readonly isUrgent?: boolean;
    /** Known parents besides the spork table: the one that the block above a range names. */
    readonly rootParents?: readonly RootParent[];
    /** See `FinalizedBlocksOptions`. */
    readonly neighbours?: FinalizedBlocksOptions['neighbours'];
  },
) {
  const { store, window, listener, network, slots, sporks, room, fail } = parts;
  const { clock, random, metrics, logger } = parts;
  const { reachedHeight, isHistory = false, isUrgent = false, rootParents = [], neighbours } = options;
  const yields = isHistory && !isUrgent;
  const nodes: AccessNodes = yields ? network.history : network;
  const common = { nodes, clock, random, metrics, logger };
  const { outdated, onFatal } = judgeEnd(parts);

  window.clear();
  const mcq = new MissingCollectionQueue(window);

  const half = Math.ceil(window.heights / 2);
  const indexer = new BlockCollectionIndexer(
    {
      groupMaxHeights: Math.min(GROUP_MAX_HEIGHTS, half),
      groupMaxEmptyHeights: Math.min(GROUP_MAX_EMPTY_HEIGHTS, half),
      groupMaxBytes: isHistory ? HISTORY_GROUP_MAX_BYTES : GROUP_MAX_BYTES,
    },
    {
      ...common,
      store,
      window,
      room,
      sporkFor: (height) => network.sporkAt(height),
      rootParentAt: (height) => sporks.find(({ rootHeight }) => rootHeight === height)?.rootParentId,
    },
  );

  // The processor reports what is missing, and the requester delivers to it: so the requester is set last, before anything runs.
  let requester: CollectionRequester | undefined;
  const port = {
    request: (height: number): void => requester?.request(height),
    cancel: (ids: readonly Identifier[]): void => requester?.cancel(ids),
  };
  const requests = config.ediOnly ? undefined : port;
  const processor = new JobProcessor({ ...common, mcq, indexer, window, requests, onFatal });

  const sink = { window, sink: processor };
  const streamOptions = {
    ...config.requester,
    silenceMs: STREAM_SILENCE_MS,
    lookaheadHeights: window.heights,
    ...(config.ediOnly ? { probeMs: ONLY_SOURCE_PROBE_MS } : {}),
  };
  const edi = config.edi.enabled
    ? new ExecutionDataIndexer(streamOptions, { ...common, ...sink, dueHeight: () => listener.sealed.height })
    : undefined;
  const peer =
    config.peers.length > 0
      ? new ExecutionDataIndexer(
          { ...streamOptions, stream: PEER, freshMs: PEER_FRESH_MS },
          { ...common, ...sink, dueHeight: () => window.finalizedHeight() },
        )
      : undefined;
  // A mirror's calls go to the peers that send its stream, and would only slow it down.
  const isMirror = config.accessNodes.length === 0;
  const forecast = {
    expects: (height: number, withinMs: number): boolean =>
      edi?.state.expects(height, withinMs) === true ||
      peer?.state.expects(height, isMirror ? Infinity : withinMs) === true,
  };
  if (!config.ediOnly)
    requester = new CollectionRequester(
      {
        ...config.requester,
        workersPerHeight: config.workersPerHeight,
        isHistory: yields,
        holdBackMs: isMirror ? MIRROR_HOLD_BACK_MS : DEFAULT_HOLD_BACK_MS,
      },
      { ...common, ...sink, slots, mcq, forecast, onFatal },
    );

  const workSignal = new WorkSignal();
  const blocks = finalizedBlocks(
    {
      ...config.requester,
      firstHeight: store.meta()?.firstHeight,
      reachedHeight,
      neighbours,
      sporkRoots: [...sporks, ...rootParents],
    },
    {
      ...common,
      window,
      signal: workSignal,
      headId: (height) => listener.finalized.idAt(height),
      latestBlock: () => store.latestBlock(),
      onReplaced: (block, source) => processor.onForked(block, source),
      storedBlock: (height) => soundBlock(store, height),
    },
  );

  const consumer = new JobConsumer(
    { maxProcessing: Math.min(window.heights, config.maxProcessing), maxSearchAhead: window.heights },
    {
      jobs: blocks,
      worker: processor,
      wakeUp: workSignal,
      progress: { processedIndex: () => store.latestIndexedHeight() },
    },
  );

  const explainer = heightExplainer({
    ...common,
    mcq,
    window,
    requests: requester,
    executionDataReason: () => edi?.state.trouble(),
    peerReason: () => peer?.state.trouble(),
  });

  const listening = [
    window.onMoved(() => workSignal.notify()),
    window.onMoved(() => blocks.notify()),
    listener.onAnswerAgain(() => blocks.wake()),
    network.onAnswering(() => blocks.wake()),
  ];
  const scope = new AbortController();
  const { signal } = scope;
  const running = [
    blocks.run(signal),
    // Jobs that lack collections would never return: they are abandoned, and the next line processes them again.
    consumer.run(signal, signal),
    ...[edi, peer].flatMap((stream) => stream?.run(signal) ?? []),
    watchForOffChainBlocks({ ...common, mcq, ask: blocks.ask, onOffChain: onFatal }, signal),
  ];
  for (const loop of running) {
    loop.catch((error: unknown) => {
      if (!wasAborted(error, signal)) fail(error);
    });
  }

  /** Ends the sources, lets the writer finish the current batch, and waits for all of it. Idempotent. */
  const close = async (): Promise<void> => {
    for (const stop of listening) stop();
    if (!signal.aborted) scope.abort(new AbortError('the indexing line ends'));
    await requester?.stop();
    const isSound = await indexer.stop();
    // A complete range is already published, and no longer written to.
    const isPublished = isHistory && store.latestIndexedHeight() === window.stopHeight;
    if (isSound && !isPublished) await indexer.recordLateSpork();
    await Promise.allSettled(running);
  };
  const sources = { requester, edi, peer };
  return { blocks, window, mcq, processor, explainer, indexer, ...sources, outdated, close };
}

/**
 * Distinguishes a line that must start over from one that failed: a node sent a false block, which was noticed only after
 * the block had been completed on top of the watermark.
 */
function judgeEnd({ fail, logger }: Pick<LineParts, 'fail' | 'logger'>) {
  let startOver = (_reason: string): void => undefined;
  /** Resolves with the reason when the line must start over. */
  const outdated = new Promise<string>((resolve) => (startOver = resolve));
  const onFatal = (error: unknown): void => {
    if (error instanceof OffChainBlockError) startOver(error.message);
    else if (error instanceof ParentLinkError) {
      logger.debug({ height: error.height, error: error.message }, 'blocks do not link');
      startOver(`the block at height ${error.height} does not continue the one below it`);
    } else fail(error);
  };
  return { outdated, onFatal };
}
