import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, isAbort, sleep, type Clock } from '../../runtime/index.js';
import type { BlockHead, CommitBatch, RangeStore, SporkRecord } from '../../storage/index.js';
import type { Commit } from '../heights/HeightRecord.js';
import type { HeightTable } from '../heights/HeightTable.js';
import type { WindowEnds } from '../heights/WindowEnds.js';
import { byHeight, CommitGroup, newCommit } from './CommitGroup.js';
import type { GroupBounds } from './CommitGroup.js';
import { DurableHeads } from './DurableHeads.js';
import type { BlockIndexer } from '../ports.js';
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
  /** A block above their limit is a bug of the caller. They are told when the watermark has moved. */
  readonly ends: WindowEnds;
  /** Where the heights stand. One that is handed in and not there is put there. */
  readonly heights: HeightTable;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'commitDuration' | 'commitHeights' | 'commitBytes'>;
  readonly logger: Logger;
  /** The spork that a height belongs to, where that is known. Recorded together with its root block. */
  readonly sporkFor?: (height: number) => SporkRecord | undefined;
  /**
   * The parent that the root block of a spork names, for roots that are known to: it need not be the block below, which
   * the spork may have discarded.
   */
  readonly rootParentAt?: (height: number) => Identifier | undefined;
}

/**
 * Two neighbours that do not link: one of them is not of the chain. Blocks are linked before they are handed out, so
 * this means that one which was complete, or durable above a gap, before its node was found out came from a lie. What
 * was durable above the watermark has been forgotten when this is thrown, so that a restart begins with a clean chain.
 */
export class ParentLinkError extends Error {
  override readonly name = 'ParentLinkError';
  /** The upper of the two. */
  readonly height: number;

  constructor(upper: { height: number; parentId: string }, lowerId: string) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lowerId}; ` +
        'one of them is not on the finalized chain',
    );
    this.height = upper.height;
  }
}

/** What is staged before yielding to the event loop. */
const TURN_BYTES = 128 * 1024;

/**
 * The one writer. Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first, so that a slow disk makes larger groups rather than longer queues. Its entries are put
 * together meanwhile (`RangeStore.stage`): the disk need not wait for that. Blocks above a gap are written at once;
 * the watermark passes over them in the batch that closes the gap (those of an earlier process: once the chain has
 * borne them out).
 *
 * What is stored depends on the chain alone: not on the source, the order, the time or the grouping.
 */
export class BlockCollectionIndexer implements BlockIndexer {
  readonly #bounds: GroupBounds;
  readonly #store: RangeStore;
  readonly #ends: WindowEnds;
  readonly #heights: HeightTable;
  readonly #heads: DurableHeads;
  readonly #clock: Clock;
  readonly #metrics: BlockCollectionIndexerDependencies['metrics'];
  readonly #logger: Logger;
  readonly #sporks: SporkRecords;
  readonly #rootParentAt: (height: number) => Identifier | undefined;
  /** Ready, not yet in a batch. With `#next`, at most one window of them. */
  #waiting: Commit[] = [];
  /** What the next batch has so far. */
  #next: CommitGroup;
  /** The rest of it is staged after this turn of the event loop. */
  #staging = false;
  /** In the batch that is being written. */
  #writing: readonly Commit[] = [];
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  /** Why nothing more is taken: stopped, or the store failed. */
  #refusal: Error | undefined;

  constructor(options: BlockCollectionIndexerOptions, dependencies: BlockCollectionIndexerDependencies) {
    const { groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights, groupMaxBytes } = options;
    this.#bounds = {
      maxHeights: groupMaxHeights,
      maxEmptyHeights: groupMaxEmptyHeights,
      maxBytes: groupMaxBytes,
    };
    this.#next = new CommitGroup(this.#bounds);
    this.#store = dependencies.store;
    this.#ends = dependencies.ends;
    this.#heights = dependencies.heights;
    this.#heads = new DurableHeads(dependencies);
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
    const { rootParentAt = () => undefined, sporkFor = () => undefined } = dependencies;
    this.#rootParentAt = rootParentAt;
    this.#sporks = new SporkRecords({ store: this.#store, sporkFor, rootParentAt });
  }

  latestIndexedHeight(): number {
    return this.#store.latestIndexedHeight();
  }

  /** Monotonic milliseconds at which the store was given the batch in hand; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#commitStartedAtMs;
  }

  isIndexed(height: number): boolean {
    return height <= this.#store.latestIndexedHeight() || this.#store.hasHeight(height);
  }

  /**
   * Idempotent: a height that is durable, or that another caller has handed in, is not written again and answers
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
    this.#waiting.push(commit);
    if (this.#commitStartedAtMs !== undefined) this.#stage();
    this.#running ??= this.#writeGroups();
    return commit.promise;
  }

  /**
   * The chain has this block at a height that is durable. Resolves once the watermark has passed it, should it have been
   * all that the watermark waited for; `undefined` when there is nothing to wait for. Rejects as
   * `onReceivedCollectionsForBlock` does, and with `OffChainBlockError`.
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
   * Records a spork whose root was written before any node named it; usually there is none. For the end, once idle: the
   * next batch would carry it. Expected errors: `StorageError`.
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
   * Finishes the batch in hand and writes no other: whoever waits for a later one is refused with AbortError, as is
   * whoever comes later. Such a block is fetched again after the restart.
   */
  stop(): void {
    this.#refuse(new AbortError('the indexer has stopped'));
  }

  /** The pair of the check that made the collections: they are the block's, all of them, in its order. */
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
      while (this.#waiting.length > 0 || this.#next.size > 0 || this.#mayPass()) {
        const group = this.#takeGroup();
        if (group.size > 0 || this.#mayPass()) await this.#write(group);
        // Whatever arrives at this moment joins the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#next.size > 0) await sleep(this.#clock, 0);
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
   * While a batch is being written: the lowest heights that are ready join the next one, and the store is given them to
   * put together, some at a time.
   */
  #stage(): void {
    if (this.#staging) return;
    const { joined, hasMore } = this.#join(TURN_BYTES);
    for (const commit of joined) this.#store.stage(commit);
    if (!hasMore) return;
    this.#staging = true;
    this.#clock.setTimer(0, () => {
      this.#staging = false;
      // Else they are in a batch by now, or refused.
      if (this.#commitStartedAtMs !== undefined) this.#stage();
    });
  }

  /**
   * Moves the lowest heights that are ready into the next batch, as long as they fit. `hasMore`: more would fit, but these
   * are `maxBytes` already.
   */
  #join(maxBytes: number): { readonly joined: readonly Commit[]; readonly hasMore: boolean } {
    if (this.#waiting.length === 0 || this.#next.isFull) return { joined: [], hasMore: false };
    this.#waiting = this.#waiting.filter((commit) => !this.#isThere(commit)).sort(byHeight);
    let bytes = 0;
    let count = 0;
    for (const commit of this.#waiting) {
      if (bytes >= maxBytes || !this.#next.add(commit, this.#sporks.newAt(commit.block))) break;
      count += 1;
      bytes += commit.bytes;
    }
    const joined = this.#waiting.splice(0, count);
    return { joined, hasMore: bytes >= maxBytes && this.#waiting.length > 0 && !this.#next.isFull };
  }

  /** The next batch, with all that fits. Empty when all of it turned out durable. */
  #takeGroup(): CommitGroup {
    this.#next.dropThose((commit) => this.#isThere(commit));
    this.#join(Infinity);
    const group = this.#next;
    this.#next = new CommitGroup(this.#bounds);
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

  /** The second of the two checks: its turn has come, and it is there already. */
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

  /** The highest height such that every one up to it is in the batch in hand, or durable and of the chain. */
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

  /** What is above the watermark is not the index yet, only work saved: where it is in doubt it goes. */
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
    const waiting = [...this.#next.ascending(), ...this.#waiting];
    this.#waiting = [];
    this.#next = new CommitGroup(this.#bounds);
    for (const commit of waiting) commit.reject(this.#refusal);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
