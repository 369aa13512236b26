import type { AccessNode, Giver } from '../access/index.js';
import { isSameBlock } from '../flow/index.js';
import type { FinalizedBlock, Identifier } from '../flow/index.js';
import type { BlockJob, Worker } from '../jobqueue/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { isAbort, type Clock } from '../runtime/index.js';
import type { Disputes } from './disputes/Disputes.js';
import { OffChainBlockError } from './indexer/DurableHeads.js';
import { troublesOf } from './heldUp.js';
import type { HeldUpHeight } from './heldUp.js';
import type { IndexingWindow } from './heights/IndexingWindow.js';
import type { HeightRecord } from './heights/HeightRecord.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
import type {
  BlockIndexer,
  CollectionRequests,
  CollectionSink,
  ReceivedCollection,
  RequestTrail,
} from './ports.js';

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
  /** Why execution data does not come, in one sentence; `undefined` while nothing is wrong with it. */
  readonly executionDataReason?: () => string | undefined;
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

/** A height that no source could complete for long. */
export interface UnresolvableHeight {
  readonly height: number;
  /** The ids that are missing. */
  readonly ids: readonly Identifier[];
  readonly ageMs: number;
  readonly reason: string;
}

/** The lowest height that lacks a collection, and what it lacks. */
export interface OldestMissing {
  readonly height: number;
  readonly ageSeconds: number;
  readonly missingIds: readonly Identifier[];
}

/** Where a height stands, and what was tried for what it lacks. */
export interface HeightExplanation {
  readonly height: number;
  /**
   * `indexed`: durable. `committing`: complete, its batch is not on disk yet. `collecting`: lacks collections.
   * `queued`: within the window, its block is not known yet. `outside`: above the window, nothing asks for it yet.
   */
  readonly stage: 'indexed' | 'committing' | 'collecting' | 'queued' | 'outside';
  readonly blockId?: Identifier;
  /** Since the height was handed out. */
  readonly ageMs?: number;
  readonly guarantees?: number;
  readonly missing: readonly MissingExplanation[];
  /** Why execution data does not bring it. */
  readonly executionData?: string;
  /** What speaks against the block's guarantees. */
  readonly dispute?: string;
}

/** One missing id and what was tried for it. */
export interface MissingExplanation {
  readonly id: Identifier;
  /** `undefined` when it was never asked for. */
  readonly trail: RequestTrail | undefined;
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
  readonly #executionDataReason: () => string | undefined;
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
    this.#executionDataReason = dependencies.executionDataReason ?? (() => undefined);
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
    this.#onFatal = (error) => dependencies.onFatal(error);
    showZeros(this.#metrics);
  }

  run(job: BlockJob<FinalizedBlock>, done: () => void): void {
    this.processJob(job, done);
  }

  /**
   * Takes a height in. `done` runs at once for a height that is durable already (if the watermark waited for it, when it
   * has moved), else after its durable commit. Throws
   * for a height above the window or one that is being worked on: bugs of the caller.
   */
  processJob(job: BlockJob<FinalizedBlock>, done: () => void): void {
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
   * The chain has this block where another one was handed out. Where that is complete it is too late to replace it: the lie is on
   * its way to the disk, or there, above the watermark.
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

  /** Nothing to hold against the node yet, unless the height is complete: then its guarantees are proven. */
  onContradiction(height: number, node: AccessNode, detail: string): void {
    const queued = this.#mcq.get(height);
    // A block without collections is complete at once, and that proves nothing.
    if (queued === undefined || queued.block.collectionIds.length === 0) return;
    this.#disputes.contradicted(height, node, detail);
    if (queued.missingCount === 0) this.#disputes.completed(queued);
  }

  /** Heights handed out and not yet durable. */
  inFlight(): number {
    return this.#mcq.size;
  }

  /** The lowest height that lacks a collection. */
  oldestMissing(): OldestMissing | undefined {
    const height = this.#mcq.lowest();
    const queued = height === undefined ? undefined : this.#mcq.get(height);
    if (height === undefined || queued === undefined) return undefined;
    return {
      height,
      ageSeconds: (this.#clock.monotonic() - queued.queuedAtMs) / 1000,
      missingIds: this.#mcq.missingIds(height),
    };
  }

  /** Heights that lack a collection for longer than this, lowest first. They are still being tried. */
  unresolvable(olderThanMs: number): UnresolvableHeight[] {
    const nowMs = this.#clock.monotonic();
    const heights: UnresolvableHeight[] = [];
    for (const { height, queuedAtMs } of this.#mcq.incomplete()) {
      const ageMs = nowMs - queuedAtMs;
      if (ageMs <= olderThanMs) continue;
      const ids = this.#mcq.missingIds(height);
      heights.push({ height, ids, ageMs, reason: this.#reasonFor(height, ids) });
    }
    return heights.sort((a, b) => a.height - b.height);
  }

  /** For "why is it (not) here". */
  explain(height: number): HeightExplanation {
    const queued = this.#mcq.get(height);
    if (queued === undefined) {
      const waiting = height <= this.#window.upperBound() ? 'queued' : 'outside';
      return { height, stage: this.#indexer.isIndexed(height) ? 'indexed' : waiting, missing: [] };
    }
    const executionData = this.#executionDataReason();
    const dispute = this.#disputes.reason(height);
    return {
      height,
      stage: queued.missingCount === 0 ? 'committing' : 'collecting',
      blockId: queued.block.id,
      ageMs: this.#clock.monotonic() - queued.queuedAtMs,
      guarantees: queued.block.collectionIds.length,
      missing: this.#mcq.missingIds(height).map((id) => ({ id, trail: this.#requests?.trail(id) })),
      ...(executionData === undefined ? {} : { executionData }),
      ...(dispute === undefined ? {} : { dispute }),
    };
  }

  /** What holds a height up; `undefined` for one that was not handed out, or lacks nothing. */
  heldUpBy(height: number): HeldUpHeight | undefined {
    const queued = this.#mcq.get(height);
    if (queued === undefined || queued.missingCount === 0) return undefined;
    const trails = this.#mcq.missingIds(height).flatMap((id) => this.#requests?.trail(id) ?? []);
    return {
      missing: queued.missingCount,
      of: new Set(queued.block.collectionIds).size,
      underWay: trails.filter(({ isUnderWay }) => isUnderWay).length,
      troubles: troublesOf(trails, this.#clock.monotonic()),
      heldBack: this.#requests?.heldBack(height) ?? [],
      dispute: this.#disputes.reason(height),
      executionData: this.#executionDataReason(),
    };
  }

  /** The heights of the window that lack this id, in ascending order. */
  heightsLacking(id: Identifier): number[] {
    return this.#mcq.heightsFor(id);
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

  /** Stopping is no failure: the height stays undone and is worked on again after the restart. */
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
      'collections came again',
    );
  }

  #refuse({ collection, source }: ReceivedCollection, count: number): void {
    this.#metrics.invalidCollections.inc({ source, reason: 'unsolicited' }, count);
    this.#logger.debug(
      { collectionId: collection.id, source, count, decision: 'invalid', reason: 'unsolicited' },
      'collections that nobody asked for were refused',
    );
  }

  #reasonFor(height: number, ids: readonly Identifier[]): string {
    const dispute = this.#disputes.reason(height);
    const reasons = dispute === undefined ? [] : [dispute];
    for (const id of ids) {
      const trail = this.#requests?.trail(id);
      if (trail === undefined || trail.attempts === 0) continue;
      const node = trail.lastNode ?? 'no node';
      reasons.push(`${trail.attempts} requests, the last to ${node}: ${trail.lastError ?? 'no answer yet'}`);
      break;
    }
    if (reasons.length === 0 && this.#requests !== undefined) reasons.push('not asked for yet');
    const executionData = this.#executionDataReason();
    if (executionData !== undefined) reasons.push(executionData);
    else if (this.#requests === undefined) reasons.push('the execution-data stream has not delivered it');
    return reasons.join('; ');
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
