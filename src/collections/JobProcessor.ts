import type { AccessNode, Giver } from '../access/index.js';
import { isSameBlock } from '../flow/index.js';
import type { FinalizedBlock } from '../flow/index.js';
import type { BlockJob, Worker } from '../jobqueue/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { isAbort, type Clock } from '../runtime/index.js';
import type { Disputes } from './disputes/Disputes.js';
import { OffChainBlockError } from './heights/OffChainBlockError.js';
import type { IndexingWindow } from './heights/IndexingWindow.js';
import type { HeightRecord } from './heights/HeightRecord.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
import type { BlockIndexer, CollectionRequests, CollectionSink, ReceivedCollection } from './ports.js';

export interface JobProcessorOptions {
  /** Never ask for a collection: execution data alone completes heights. */
  readonly ediOnly: boolean;
}

export interface JobProcessorDependencies {
  readonly mcq: MissingCollectionQueue;
  readonly indexer: BlockIndexer;
  readonly window: IndexingWindow;
  readonly disputes: Disputes;
  /** Left out with `ediOnly`. */
  readonly requests?: CollectionRequests | undefined;
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
  /** A block could not be made durable, or a bug showed: the owner stops the process. Called at most once. */
  onFatal(error: unknown): void;
}

/**
 * Where a block and its collections meet: the worker of the job consumer, and the sink of both sources. Whichever
 * source completes a height first wins; the other's outstanding work for it is cancelled at once, and what arrives of
 * it nevertheless is counted as a duplicate.
 *
 * Every method does its work on plain state and returns; `done` runs from the continuation of the durable commit, when
 * nothing is left open. No promise per collection, one per height.
 */
export class JobProcessor implements Worker<BlockJob<FinalizedBlock>>, CollectionSink {
  readonly #requests: CollectionRequests | undefined;
  readonly #mcq: MissingCollectionQueue;
  readonly #indexer: BlockIndexer;
  readonly #window: IndexingWindow;
  readonly #disputes: Disputes;
  readonly #clock: Clock;
  readonly #metrics: JobProcessorDependencies['metrics'];
  readonly #logger: Logger;
  readonly #onFatal: (error: unknown) => void;
  #failed = false;

  constructor(options: JobProcessorOptions, dependencies: JobProcessorDependencies) {
    if (!options.ediOnly && dependencies.requests === undefined) {
      throw new Error('without ediOnly a JobProcessor needs somebody to ask for collections');
    }
    this.#requests = options.ediOnly ? undefined : dependencies.requests;
    this.#mcq = dependencies.mcq;
    this.#indexer = dependencies.indexer;
    this.#window = dependencies.window;
    this.#disputes = dependencies.disputes;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
    this.#onFatal = (error) => dependencies.onFatal(error);
    showZeros(this.#metrics);
  }

  /**
   * Takes a height in. `done` runs after its durable commit; for a height that is durable already, at once, or once the
   * watermark has passed it. Throws for a height above the window or one that is being worked on: bugs of the caller.
   */
  run(job: BlockJob<FinalizedBlock>, done: () => void): void {
    const { height, block } = job;
    if (block.height !== height) throw new Error(`job ${job.id} carries the block of height ${block.height}`);
    if (this.#indexer.isIndexed(height)) {
      const passed = this.#indexer.confirm(block);
      if (passed === undefined) done();
      else passed.then(done, (error: unknown) => this.#fail(error));
      return;
    }
    const bound = this.#window.limit();
    if (height > bound) throw new Error(`height ${height} is above the window, which ends at ${bound}`);
    // Registered before it is asked for: an answer can never come for something that nobody knows to be missing.
    const queued = this.#mcq.enqueueMissingCollections(block, this.#clock.monotonic(), done);
    this.#collect(queued);
  }

  /**
   * Another block, or the same with other guarantees, takes the place of one that is not complete: a node had lied about the
   * first, or may have. This is the one way in which a block is replaced. The job stays the same, so does its `done`. False
   * when there is nothing to replace: the block is known already, gone, or complete.
   */
  replace(block: FinalizedBlock, giver?: Giver): boolean {
    const held = this.#mcq.known(block.height)?.block;
    if (held === undefined || isSameBlock(held, block)) return false;
    const record = this.#mcq.replaceBlock(block, giver);
    if (record === undefined) return false;
    this.#disputes.replaced(record);
    this.#logger.info({ height: record.height }, 'block of a height was replaced');
    if (record.status === 'linked') return true;
    this.#requests?.cancel(record.height, held.collectionIds);
    this.#collect(record);
    return true;
  }

  /**
   * The chain has this block where another one was handed out. Where that is complete it is too late to replace it:
   * the lie is on its way to the disk, or there, above the watermark.
   */
  onForked(block: FinalizedBlock, giver: Giver): void {
    const held = this.#mcq.known(block.height)?.block;
    if (held === undefined || this.replace(block, giver)) return;
    this.#fail(new OffChainBlockError(block, held.id));
  }

  onCollection(received: ReceivedCollection): void {
    const { decision, completed } = this.#mcq.onReceivedCollection(received);
    if (decision === 'unsolicited') {
      this.#refuse(received, 1);
      return;
    }
    this.#metrics.collectionsReceived.inc({ source: received.source });
    if (decision === 'duplicate') {
      this.#countDuplicates(received, 1);
      return;
    }
    for (const queued of completed) this.#complete(queued);
    this.#window.notify();
  }

  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): void {
    const [first] = collections;
    if (first === undefined) return;
    const queued = this.#mcq.get(height);
    if (queued === undefined ? !this.#indexer.isIndexed(height) : !matches(queued.block, collections)) {
      this.#refuse(first, collections.length);
      return;
    }
    const taken = this.#mcq.onReceivedCollectionsForBlock(height, collections);
    this.#metrics.collectionsReceived.inc({ source: first.source }, collections.length);
    if (taken.length < collections.length) this.#countDuplicates(first, collections.length - taken.length);
    if (queued === undefined || taken.length === 0) return;
    this.#complete(queued);
    this.#window.notify();
  }

  /** The node is not blamed yet, unless the height is complete: then its guarantees are proven. */
  onContradiction(height: number, node: AccessNode, detail: string): void {
    const queued = this.#mcq.get(height);
    // A block without collections is complete at once, and that proves nothing.
    if (queued === undefined || queued.block.collectionIds.length === 0) return;
    this.#disputes.contradicted(height, node, detail);
    if (queued.missingCount === 0) this.#disputes.completed(queued);
  }

  #collect(queued: HeightRecord): void {
    if (queued.missingCount === 0) this.#complete(queued);
    else this.#requests?.request(queued.height);
    this.#window.notify();
  }

  #complete(queued: HeightRecord): void {
    this.#disputes.completed(queued);
    if (queued.source !== 'none') this.#requests?.cancel(queued.height, queued.block.collectionIds);
    void this.#index(queued);
  }

  async #index(queued: HeightRecord): Promise<void> {
    const { received } = queued;
    try {
      const written = await this.#indexer.onReceivedCollectionsForBlock(queued.block, queued.collections());
      if (written) this.#measure(queued, received);
      this.#mcq.onIndexedForBlock(queued);
      this.#window.notify();
      queued.done();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Stopping is no failure: the height is worked on again after the restart. */
  #fail(error: unknown): void {
    if (isAbort(error) || this.#failed) return;
    this.#failed = true;
    this.#onFatal(error);
  }

  #measure(queued: HeightRecord, received: HeightRecord['received']): void {
    const nowMs = this.#clock.monotonic();
    for (const each of received) {
      if (each === undefined) continue;
      const seconds = (nowMs - each.receivedAtMs) / 1000;
      this.#metrics.receiveToIndexed.observe({ source: each.source }, seconds);
    }
    this.#metrics.heightQueueToComplete.observe((nowMs - queued.queuedAtMs) / 1000);
    this.#metrics.heightsCompleted.inc({ source: queued.source });
    this.#logger.debug(
      { height: queued.height, source: queued.source, decision: 'indexed' },
      'height is indexed',
    );
  }

  #countDuplicates({ collection, source }: ReceivedCollection, count: number): void {
    this.#metrics.duplicateCollections.inc({ source }, count);
    this.#logger.debug(
      { collectionId: collection.id, source, count, decision: 'duplicate' },
      'duplicate collections received',
    );
  }

  #refuse({ collection, source }: ReceivedCollection, count: number): void {
    this.#metrics.invalidCollections.inc({ source, reason: 'unsolicited' }, count);
    this.#logger.debug(
      { collectionId: collection.id, source, count, decision: 'invalid', reason: 'unsolicited' },
      'unsolicited collections refused',
    );
  }
}

/** True when these are the block's collections, all of them, in its order. */
function matches(block: FinalizedBlock, collections: readonly ReceivedCollection[]): boolean {
  return (
    collections.length === block.collectionIds.length &&
    collections.every((received, slot) => received.collection.id === block.collectionIds[slot])
  );
}

/** Counters are there from the first scrape, so that a rate over them sees the first event. */
function showZeros(metrics: JobProcessorDependencies['metrics']): void {
  for (const source of ['requester', 'edi'] as const) {
    metrics.collectionsReceived.inc({ source }, 0);
    metrics.duplicateCollections.inc({ source }, 0);
  }
  for (const source of ['requester', 'edi', 'none'] as const) metrics.heightsCompleted.inc({ source }, 0);
}
