import type {
  BlockCollectionIndexer,
  CollectionRequester,
  ExecutionDataIndexer,
  HeightExplainer,
  JobProcessor,
  MissingCollectionQueue,
  Window,
} from '../../collections/index.js';
import { watchForOffChainBlocks, OffChainBlockError, ParentLinkError } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalizedBlocks } from '../../finality/index.js';
import { AbortError } from '../../runtime/index.js';
import { buildDurableEnd } from './sections/durableEnd.js';
import type { DurableEnd } from './sections/durableEnd.js';
import { buildFront } from './sections/front.js';
import type { Front } from './sections/front.js';
import type { IndexingLineOptions, IndexingLineParts } from './sections/lineParts.js';
import { buildMiddle } from './sections/middle.js';
import type { Middle } from './sections/middle.js';
import type { Logger } from '../../observability/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';

interface OutdatedLineDependencies {
  readonly lifecycle: Pick<Lifecycle, 'fail'>;
  readonly logger: Logger;
}

/**
 * Distinguishes a line that must start over from one that failed: a node sent a false block, which was noticed only after
 * the block had been completed on top of the watermark.
 */
class OutdatedLine {
  readonly #dependencies: OutdatedLineDependencies;
  #startOver: (reason: string) => void = () => undefined;
  /** Resolves with the reason why the line must start over. */
  readonly reason = new Promise<string>((resolve) => (this.#startOver = resolve));

  constructor(dependencies: OutdatedLineDependencies) {
    this.#dependencies = dependencies;
  }

  /** Judges the error that ended the line. */
  judge(error: unknown): void {
    const { lifecycle, logger } = this.#dependencies;
    if (error instanceof OffChainBlockError) {
      this.#startOver(`the block in hand at height ${error.height} is not on the finalized chain`);
    } else if (error instanceof ParentLinkError) {
      logger.debug({ height: error.height, error: error.message }, 'blocks do not link');
      this.#startOver(`the block at height ${error.height} does not continue the one below it`);
    } else lifecycle.fail(error);
  }
}

/** The parts that status, metrics and health read. */
export interface IndexingLine {
  readonly blocks: FinalizedBlocks;
  readonly window: Window;
  readonly mcq: MissingCollectionQueue;
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
  const { isHistory = false, isUrgent = false } = options;
  const durableEnd = buildDurableEnd(config, parts, { isHistory });
  const onFatal = (error: unknown): void => outdated.judge(error);
  const middle = buildMiddle(config, parts, durableEnd, { isHistory: isHistory && !isUrgent, onFatal });
  const front = buildFront(config, parts, middle, options);
  const line = { ...durableEnd, ...middle, ...front };

  const stopListening = listen(parts, line);
  const { end, running } = run(parts, line, onFatal);
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
  return { ...line, window: parts.window, outdated: outdated.reason, close };
}

/**
 * Notifies the parts when the watermark or the head has moved, and when nodes answer again. Returns a function that
 * unsubscribes.
 */
function listen(parts: IndexingLineParts, line: Front): () => void {
  const { listener, network, window } = parts;
  const { blocks, workSignal } = line;
  const listening = [
    window.onMoved(() => workSignal.notify()),
    window.onMoved(() => blocks.notify()),
    listener.onAnswerAgain(() => blocks.wake()),
    listener.onTold(() => blocks.told()),
    network.onAnswering(() => blocks.wake()),
  ];
  return () => {
    for (const stop of listening) stop();
  };
}

/** Runs every part that has a loop of its own, until `end` is called. */
function run(
  { clock, lifecycle }: IndexingLineParts,
  { blocks, consumer, edi, mcq, peer, requester }: DurableEnd & Front & Middle,
  onFatal: (error: unknown) => void,
) {
  const scope = new AbortController();
  const { signal } = scope;
  const running = [
    blocks.run(signal),
    // Jobs that lack collections would never return: they are abandoned, and the next line processes them again.
    consumer.run(signal, signal),
    ...[edi, peer].flatMap((stream) => stream?.run(signal) ?? []),
    watchForOffChainBlocks(
      {
        mcq,
        requests: requester,
        clock,
        ask: (height, ended) => blocks.ask(height, ended),
        onOffChain: onFatal,
      },
      signal,
    ),
  ];
  for (const loop of running) lifecycle.supervise(loop);
  const end = (): void => {
    if (!signal.aborted) scope.abort(new AbortError('the indexing line ends'));
  };
  return { end, running };
}
