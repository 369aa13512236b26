import type { BlockSource } from '../access/index.js';
import { isSameBlock, type FinalizedBlock } from '../flow/index.js';
import type { BlockJob, Worker } from '../jobqueue/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { isAbort, type Clock } from '../runtime/index.js';
import { OffChainBlockError } from './heights/OffChainBlockError.js';
import type { HeightRecord } from './heights/HeightRecord.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
import type { Window } from './heights/Window.js';
import type { BlockCollectionIndexer } from './indexer/BlockCollectionIndexer.js';
import type { CollectionSink, ReceivedCollection } from './ports.js';
import type { CollectionRequester } from './requester/CollectionRequester.js';

interface Dependencies {
  readonly mcq: MissingCollectionQueue;
  readonly indexer: Pick<BlockCollectionIndexer, 'confirm' | 'onReceivedCollectionsForBlock'>;
  readonly window: Window;
  /** Absent with `ediOnly`: no collection is requested, and execution data alone completes heights. */
  readonly requests?: Pick<CollectionRequester, 'request' | 'cancel'> | undefined;
  readonly clock: Clock;
  readonly metrics: Pick<
    Metrics,
    | 'collectionsReceived'
    | 'duplicateCollections'
    | 'invalidCollections'
    | 'heightsCompleted'
    | 'heightQueueToComplete'
    | 'receiveToIndexed'
  >;
  readonly logger: Logger;
  /** Called at most once, when a block could not be made durable or on a bug: the owner stops the process. */
  onFatal(error: unknown): void;
}

/**
 * Where blocks and collections meet: the worker of the job consumer, and the sink of all sources. The source that
 * completes a height first wins; outstanding requests for the height are cancelled at once, and late deliveries count
 * as duplicates.
 *
 * Every method works on plain state and returns. `done` runs after the durable commit, never inside another method. One
 * promise per height, none per collection.
 */
export class JobProcessor implements Worker<BlockJob<FinalizedBlock>>, CollectionSink {
  readonly #deps: Dependencies;
  #failed = false;

  constructor(dependencies: Dependencies) {
    this.#deps = dependencies;
  }

  /**
   * Starts a height. `done` runs after its durable commit. If the height is durable already, `done` runs at once, or as
   * soon as the watermark has passed it. Throws for a height above the window, or one that is already being worked on:
   * bugs of the caller.
   */
  run(job: BlockJob<FinalizedBlock>, done: () => void): void {
    const { height, block } = job;
    if (block.height !== height) throw new Error(`job ${job.id} carries the block of height ${block.height}`);
    if (this.#deps.window.isIndexed(height)) {
      const passed = this.#deps.indexer.confirm(block);
      if (passed === undefined) done();
      else passed.then(done, (error: unknown) => this.#fail(error));
      return;
    }
    const bound = this.#deps.window.limit();
    if (height > bound) throw new Error(`height ${height} is above the window, which ends at ${bound}`);
    // Register before requesting: an answer never arrives for an id that is not registered.
    const queued = this.#deps.mcq.enqueueMissingCollections(block, this.#deps.clock.monotonic(), done);
    this.#collect(queued);
  }

  /**
   * The chain has this block where another one was handed out, because a node lied or may have: it replaces that one, in
   * the same job. A complete block can no longer be replaced: it is being written, or is already durable above the
   * watermark.
   */
  onForked(block: FinalizedBlock, blockSource: BlockSource): void {
    const held = this.#deps.window.at(block.height)?.block;
    if (held === undefined || isSameBlock(held, block)) return;
    const record = this.#deps.mcq.replaceBlock(block, blockSource);
    if (record === undefined) {
      this.#fail(new OffChainBlockError(block.height));
      return;
    }
    this.#deps.logger.info({ height: record.height }, 'block of a height was replaced');
    this.#deps.requests?.cancel(held.collectionIds);
    this.#collect(record);
  }

  onCollection(received: ReceivedCollection): void {
    const completed = this.#deps.mcq.onReceivedCollection(received);
    this.#countReceived(received, 1, completed === undefined ? 0 : 1);
    for (const queued of completed ?? []) this.#complete(queued);
    this.#deps.window.notify();
  }

  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): void {
    const [first] = collections;
    if (first === undefined) return;
    const queued = this.#deps.mcq.get(height);
    const ids = queued?.block.collectionIds;
    // All of the block's collections, in its order.
    const matches =
      ids?.length === collections.length &&
      collections.every(({ collection }, at) => collection.id === ids[at]);
    if (queued === undefined ? !this.#deps.window.isIndexed(height) : !matches) {
      this.#refuse(first, collections.length);
      return;
    }
    const taken = this.#deps.mcq.onReceivedCollectionsForBlock(height, collections);
    this.#countReceived(first, collections.length, taken);
    if (queued === undefined || taken === 0) return;
    this.#complete(queued);
    this.#deps.window.notify();
  }

  #collect(queued: HeightRecord): void {
    if (queued.missingCount === 0) this.#complete(queued);
    else this.#deps.requests?.request(queued.height);
    this.#deps.window.notify();
  }

  #complete(queued: HeightRecord): void {
    if (queued.source !== 'none') this.#deps.requests?.cancel(queued.block.collectionIds);
    void this.#index(queued);
  }

  async #index(queued: HeightRecord): Promise<void> {
    const { block, received } = queued;
    try {
      const written = await this.#deps.indexer.onReceivedCollectionsForBlock(block, queued.collections());
      if (written) this.#measure(queued, received);
      this.#deps.mcq.onIndexedForBlock(queued);
      this.#deps.window.notify();
      queued.done();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Stopping is not a failure: the height is processed again after the restart. */
  #fail(error: unknown): void {
    if (isAbort(error) || this.#failed) return;
    this.#failed = true;
    this.#deps.onFatal(error);
  }

  #measure({ height, queuedAtMs, source }: HeightRecord, received: HeightRecord['received']): void {
    const { clock, logger, metrics } = this.#deps;
    const nowMs = clock.monotonic();
    for (const each of received.values())
      metrics.receiveToIndexed.observe({ source: each.source }, (nowMs - each.receivedAtMs) / 1000);
    metrics.heightQueueToComplete.observe((nowMs - queuedAtMs) / 1000);
    metrics.heightsCompleted.inc({ source });
    logger.debug({ height, source, decision: 'indexed' }, 'height is indexed');
  }

  /** `taken`: how many of them were still missing. */
  #countReceived({ collection, source }: ReceivedCollection, all: number, taken: number): void {
    const { logger, metrics } = this.#deps;
    metrics.collectionsReceived.inc({ source }, all);
    if (taken === all) return;
    const count = all - taken;
    metrics.duplicateCollections.inc({ source }, count);
    const fields = { collectionId: collection.id, source, count, decision: 'duplicate' };
    logger.debug(fields, 'duplicate collections received');
  }

  #refuse({ collection, source }: ReceivedCollection, count: number): void {
    const { logger, metrics } = this.#deps;
    const reason = 'unsolicited';
    metrics.invalidCollections.inc({ source, reason }, count);
    const fields = { collectionId: collection.id, source, count, decision: 'invalid', reason };
    logger.debug(fields, 'unsolicited collections refused');
  }
}
