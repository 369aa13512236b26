import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, asError, isAbort, sleep, type Clock } from '../../runtime/index.js';
import type { BlockHead, CommitBatch, RangeStore, SporkRecord, WriteRoom } from '../../storage/index.js';
import type { Commit } from '../heights/HeightRecord.js';
import type { HeightTable } from '../heights/HeightTable.js';
import type { WindowEnds } from '../heights/WindowEnds.js';
import { newCommit } from './CommitGroup.js';
import type { CommitGroup } from './CommitGroup.js';
import { DurableHeads } from './DurableHeads.js';
import type { BlockIndexer } from '../ports.js';
import { ParentLinkError } from './ParentLinkError.js';
import { ReadyCommits } from './ReadyCommits.js';
import { SporkRecords } from './SporkRecords.js';

export interface BlockCollectionIndexerOptions {
  /** Most heights with collections in one durable batch. */
  readonly groupMaxHeights: number;
  /** Most heights in one durable batch, those without collections included. Default: `groupMaxHeights`. */
  readonly groupMaxEmptyHeights?: number;
  /** Most collection bytes in one durable batch; a single larger block has a batch of its own. */
  readonly groupMaxBytes: number;
}

export interface BlockCollectionIndexerDependencies {
  readonly store: RangeStore;
  /** A block above their limit is a bug of the caller. Notified when the watermark has moved. */
  readonly ends: WindowEnds;
  /** The state of each height. A height that is handed in and unknown is added. */
  readonly heights: HeightTable;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'commitDuration' | 'commitHeights' | 'commitBytes'>;
  readonly logger: Logger;
  /** While there is none, no batch begins. Default: there always is some. */
  readonly room?: WriteRoom | undefined;
  /** The spork of a height, if known. Recorded together with its root block. */
  readonly sporkFor?: (height: number) => SporkRecord | undefined;
  /**
   * The parent of a spork's root block, if known. It need not be the block below, which the spork may have discarded.
   */
  readonly rootParentAt?: (height: number) => Identifier | undefined;
}

/** Bytes staged before yielding to the event loop. */
const TURN_BYTES = 128 * 1024;

/**
 * The one writer. Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared
 * meanwhile (`RangeStore.stage`), so that the disk does not wait for them. Blocks above a gap are written at once; the
 * watermark passes over them in the batch that closes the gap. Those of an earlier process must first be confirmed by
 * the chain.
 *
 * The stored bytes depend on the chain alone: not on source, order, time or grouping.
 */
export class BlockCollectionIndexer implements BlockIndexer {
  readonly #store: RangeStore;
  readonly #ends: WindowEnds;
  readonly #heights: HeightTable;
  readonly #heads: DurableHeads;
  readonly #clock: Clock;
  readonly #metrics: BlockCollectionIndexerDependencies['metrics'];
  readonly #logger: Logger;
  readonly #sporks: SporkRecords;
  readonly #room: WriteRoom | undefined;
  /** Aborted when no further batch is to be written. */
  readonly #stopped = new AbortController();
  readonly #rootParentAt: (height: number) => Identifier | undefined;
  readonly #ready: ReadyCommits;
  /** The rest of it is staged in a later turn of the event loop. */
  #staging = false;
  /** In the batch that is being written. */
  #writing: readonly Commit[] = [];
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  /** Why it takes no more blocks: stopped, or the store failed. */
  #refusal: Error | undefined;

  constructor(options: BlockCollectionIndexerOptions, dependencies: BlockCollectionIndexerDependencies) {
    const { groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights, groupMaxBytes } = options;
    const bounds = {
      maxHeights: groupMaxHeights,
      maxEmptyHeights: groupMaxEmptyHeights,
      maxBytes: groupMaxBytes,
    };
    this.#ready = new ReadyCommits(bounds, {
      isThere: (commit) => this.#isThere(commit),
      sporkAt: (block) => this.#sporks.newAt(block),
    });
    this.#store = dependencies.store;
    this.#ends = dependencies.ends;
    this.#heights = dependencies.heights;
    this.#heads = new DurableHeads(dependencies);
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
    this.#room = dependencies.room;
    const { rootParentAt = () => undefined, sporkFor = () => undefined } = dependencies;
    this.#rootParentAt = rootParentAt;
    this.#sporks = new SporkRecords({ store: this.#store, sporkFor, rootParentAt });
  }

  latestIndexedHeight(): number {
    return this.#store.latestIndexedHeight();
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#commitStartedAtMs;
  }

  isIndexed(height: number): boolean {
    return height <= this.#store.latestIndexedHeight() || this.#store.hasHeight(height);
  }

  /**
   * Idempotent. A height that is durable, or that another caller has handed in, is not written again; the result is
   * `false`, in the second case once it is durable. Rejects with AbortError after `stop`, with `StorageError` when the
   * store fails, with `ParentLinkError`; collections that are not the block's own are a bug.
   */
  onReceivedCollectionsForBlock(
    block: FinalizedBlock,
    collections: readonly VerifiedCollection[],
  ): Promise<boolean> {
    const { height } = block;
    if (this.isIndexed(height)) return Promise.resolve(false);
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal);
    const before = this.#heights.at(height);
    if (before !== undefined && before.block.id !== block.id) {
      return Promise.reject(new Error(`two blocks were handed in for height ${height}`));
    }
    if (before?.commit !== undefined) return before.commit.promise.then(() => false);
    const defect = this.#defectOf(block, collections);
    if (defect !== undefined) return Promise.reject(new Error(defect));

    const record = before ?? this.#heights.link(block);
    if (record.status === 'linked') this.#heights.move(record, 'complete');
    const commit = newCommit(record, collections);
    record.commit = commit;
    this.#ready.add(commit);
    if (this.#commitStartedAtMs !== undefined) this.#stage();
    this.#running ??= this.#writeGroups();
    return commit.promise;
  }

  /**
   * The chain has this block at a durable height. Resolves once the watermark has passed it, if only this confirmation
   * was missing; `undefined` when there is nothing to wait for. Rejects like `onReceivedCollectionsForBlock`, and with
   * `OffChainBlockError`.
   */
  confirm(block: BlockHead): Promise<void> | undefined {
    const { height } = block;
    let wasInDoubt: boolean;
    try {
      wasInDoubt = this.#heads.confirm(block);
    } catch (error) {
      return Promise.reject(asError(error));
    }
    const record = this.#heights.at(height);
    if (record?.status === 'linked') this.#heights.move(record, 'durable');
    if (!wasInDoubt) return undefined;
    if (height !== this.#store.latestIndexedHeight() + 1) return undefined;
    this.#running ??= this.#writeGroups();
    return this.#running.then(() => {
      if (this.#refusal !== undefined && this.#store.latestIndexedHeight() < height) throw this.#refusal;
    });
  }

  /**
   * Records a spork whose root was written before any node named it; usually there is none. For shutdown, when idle:
   * otherwise the next batch carries it. Expected errors: `StorageError`.
   */
  async recordLateSpork(): Promise<void> {
    if (this.#refusal !== undefined && !isAbort(this.#refusal)) return;
    const latestIndexedHeight = this.#store.latestIndexedHeight();
    const spork = this.#sporks.lateAt(latestIndexedHeight);
    if (spork !== undefined) await this.#store.commit({ blocks: [], latestIndexedHeight, spork });
  }

  /** Resolves when no batch is being written and none will be. */
  idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /**
   * Finishes the current batch and writes no other: callers that wait for a later one, and later callers, are rejected
   * with AbortError. Their blocks are fetched again after the restart.
   */
  stop(): void {
    this.#refuse(new AbortError('the indexer has stopped'));
  }

  /** Second check of what the job processor checked first: these are all of the block's collections, in its order. */
  #defectOf(block: FinalizedBlock, collections: readonly VerifiedCollection[]): string | undefined {
    const { height, collectionIds } = block;
    const bound = this.#ends.limit();
    if (height > bound) return `height ${height} is above the window, which ends at ${bound}`;
    if (collections.length !== collectionIds.length) {
      return `height ${height} has ${collectionIds.length} guarantees but got ${collections.length} collections`;
    }
    const wrong = collectionIds.findIndex((id, slot) => collections[slot]?.id !== id);
    return wrong === -1 ? undefined : `height ${height}: collection ${wrong} is not the guaranteed one`;
  }

  async #writeGroups(): Promise<void> {
    // Blocks that become ready in the same turn of the event loop share the first batch.
    await Promise.resolve();
    try {
      while (!this.#ready.isEmpty || this.#mayPass()) {
        const room = this.#room?.whenRoom(this.#stopped.signal);
        if (room !== undefined) await room;
        const group = this.#takeGroup();
        if (group.size > 0 || this.#mayPass()) await this.#write(group);
        // Whatever arrives at this moment joins the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#ready.hasNext) await sleep(this.#clock, 0);
      }
    } catch (error) {
      const failure = await this.#afterMending(error);
      for (const commit of this.#writing) commit.reject(failure);
      this.#refuse(failure);
    }
    this.#writing = [];
    this.#running = undefined;
  }

  /**
   * While a batch is being written: moves the lowest ready heights into the next one, and has the store prepare them,
   * some at a time.
   */
  #stage(): void {
    if (this.#staging) return;
    const { joined, hasMore } = this.#ready.join(TURN_BYTES);
    for (const commit of joined) this.#store.stage(commit);
    if (!hasMore) return;
    this.#staging = true;
    this.#clock.setTimer(0, () => {
      this.#staging = false;
      // Otherwise they are in a batch by now, or rejected.
      if (this.#commitStartedAtMs !== undefined) this.#stage();
    });
  }

  /** The next batch, with all that fits. Empty when all of it turned out to be durable. */
  #takeGroup(): CommitGroup {
    const group = this.#ready.take();
    this.#writing = group.ascending();
    let below: BlockHead | undefined;
    for (const { block, record } of this.#writing) {
      const { height } = block;
      this.#heights.move(record, 'committing');
      this.#assertLinked(block, below?.height === height - 1 ? below : this.#heads.at(height - 1));
      const above = this.#heads.at(height + 1);
      if (above !== undefined) this.#assertLinked(above, block);
      below = block;
    }
    return group;
  }

  /** The second of the two checks, now that it is the height's turn. */
  #isThere(commit: Commit): boolean {
    if (!this.isIndexed(commit.block.height)) return false;
    this.#heights.move(commit.record, 'durable');
    commit.resolve(false);
    return true;
  }

  async #write(group: CommitGroup): Promise<void> {
    const blocks = group.ascending();
    const { bytes } = group;
    const latestIndexedHeight = this.#newWatermark();
    const spork = group.spork ?? this.#sporks.lateAt(latestIndexedHeight);
    const batch: CommitBatch = { blocks, latestIndexedHeight, ...(spork === undefined ? {} : { spork }) };
    const startedMs = this.#clock.monotonic();
    this.#commitStartedAtMs = startedMs;
    const committed = this.#store.commit(batch);
    this.#stage();
    await committed;
    this.#commitStartedAtMs = undefined;
    const durationMs = this.#clock.monotonic() - startedMs;
    if (this.#store.latestIndexedHeight() !== latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${latestIndexedHeight} that was committed`);
    }
    for (const { record } of blocks) this.#heights.move(record, 'durable');
    this.#ends.moved();
    this.#metrics.commitDuration.observe(durationMs / 1000);
    this.#metrics.commitHeights.observe(blocks.length);
    this.#metrics.commitBytes.observe(bytes);
    this.#logger.debug(
      { heights: blocks.length, bytes, durationMs, latestIndexedHeight },
      'batch is durable',
    );
    this.#writing = [];
    for (const commit of blocks) commit.resolve(true);
  }

  /** The end of the unbroken run, from the watermark, of heights that are in this batch or durable and confirmed. */
  #newWatermark(): number {
    let height = this.#store.latestIndexedHeight();
    while (this.#isCommitting(height + 1) || this.#heads.isConfirmed(height + 1)) height += 1;
    return height;
  }

  #isCommitting(height: number): boolean {
    return this.#heights.at(height)?.status === 'committing';
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return this.#refusal === undefined && this.#heads.isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  #assertLinked(upper: BlockHead, lower: Pick<BlockHead, 'id'> | undefined): void {
    if (lower === undefined || upper.parentId === lower.id) return;
    if (upper.parentId !== this.#rootParentAt(upper.height)) throw new ParentLinkError(upper, lower.id);
  }

  /** Blocks above the watermark are not part of the index yet, only work saved: when in doubt, they are deleted. */
  async #afterMending(error: unknown): Promise<Error> {
    try {
      if (error instanceof ParentLinkError && this.#store.blocksAboveWatermark().length > 0) {
        await this.#store.rewind(this.#store.latestIndexedHeight());
      }
    } catch (cause) {
      return asError(cause);
    }
    return asError(error);
  }

  #refuse(refusal: Error): void {
    this.#refusal ??= refusal;
    this.#stopped.abort();
    for (const commit of this.#ready.drain()) commit.reject(this.#refusal);
  }
}
