import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { AbortError, asError, isAbort, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BlockHead, CommitBatch, RangeStore, SporkRecord, WriteRoom } from '../../storage/index.js';
import type { Commit, HeightRecord } from '../heights/HeightRecord.js';
import { OffChainBlockError } from '../heights/OffChainBlockError.js';
import type { Window } from '../heights/Window.js';

export interface BlockCollectionIndexerOptions {
  /** Most heights with collections in one durable batch. */
  readonly groupMaxHeights: number;
  /** Most heights in one durable batch, those without collections included. Default: `groupMaxHeights`. */
  readonly groupMaxEmptyHeights?: number;
  /** Most collection bytes in one durable batch; a single larger block has a batch of its own. */
  readonly groupMaxBytes: number;
}

interface Dependencies {
  readonly store: RangeStore;
  /** Told when the watermark has moved. A block above its limit is a bug of the caller; an unknown height is added. */
  readonly window: Window;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'commitDuration' | 'commitHeights' | 'commitBytes'>;
  readonly logger: Logger;
  /** While there is no room, no batch begins. Default: there is always room. */
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

/** The heights of one durable batch while it is assembled. */
type Group = ReturnType<typeof newGroup>;

function newGroup() {
  return {
    commits: [] as Commit[],
    bytes: 0,
    /** Heights with collections. */
    filled: 0,
    /** The record of the one spork that may begin in it. */
    spork: undefined as SporkRecord | undefined,
  };
}

function newCommit(record: HeightRecord, collections: readonly VerifiedCollection[]): Commit {
  let bytes = 0;
  for (const collection of collections) bytes += collection.encoded.byteLength;
  let resolve: (written: boolean) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<boolean>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { record, block: record.block, collections, bytes, promise, resolve, reject };
}

/**
 * Two neighbouring blocks do not link: one of them is not on the chain. Blocks are checked for links before they are
 * handed out, so a node lied, and was found out only after the block was complete or durable above a gap. When this is
 * thrown, everything above the watermark has been deleted, so that a restart begins with a clean chain.
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

/**
 * Takes each complete block once and writes it: the only writer. Blocks above a gap are written at once; the watermark passes
 * over them in the batch that closes the gap. Those of an earlier process count only once the chain confirms them.
 *
 * Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first: a slow disk makes larger groups, not longer queues. The next batch's entries are prepared
 * meanwhile (`RangeStore.stage`), so that the disk does not wait for them.
 *
 * The stored bytes depend on the chain alone: not on source, order, time or grouping.
 */
export class BlockCollectionIndexer {
  readonly #options: BlockCollectionIndexerOptions;
  readonly #deps: Dependencies;
  readonly #store: RangeStore;
  readonly #window: Window;
  readonly #clock: Clock;
  /** The blocks that an earlier line or process left above the watermark, and the heights that the chain has not confirmed yet. */
  #inherited: ReadonlyMap<number, BlockHead> | undefined;
  readonly #unconfirmed = new Set<number>();
  /** Aborted when no further batch may be written. */
  readonly #stopped = new AbortController();
  /** Ready, and not in the next batch yet: at most one window of heights. */
  #waiting: Commit[] = [];
  #next = newGroup();
  /** The rest of the next batch is staged in a later turn of the event loop. */
  #staging = false;
  /** The commits in the batch that is being written. */
  #writing: readonly Commit[] = [];
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  /** Why it takes no more commits: it was stopped, or the store failed. */
  #refusal: Error | undefined;

  constructor(options: BlockCollectionIndexerOptions, dependencies: Dependencies) {
    this.#options = options;
    this.#deps = dependencies;
    this.#store = dependencies.store;
    this.#window = dependencies.window;
    this.#clock = dependencies.clock;
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#commitStartedAtMs;
  }

  /** True when the height is durable: at or below the watermark, or stored above a gap. */
  isIndexed(height: number): boolean {
    return this.#window.isIndexed(height);
  }

  /**
   * Idempotent. A height that is durable, or that another caller has handed in, is not written again; the result is
   * `false`, in the second case once it is durable. Rejects with AbortError after `stop`, with `StorageError` when the
   * store fails, with `ParentLinkError`; and for collections of another block, which is a bug.
   */
  onReceivedCollectionsForBlock(
    block: FinalizedBlock,
    collections: readonly VerifiedCollection[],
  ): Promise<boolean> {
    const { height } = block;
    if (this.isIndexed(height)) return Promise.resolve(false);
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal);
    const before = this.#window.at(height);
    if (before !== undefined && before.block.id !== block.id) {
      return Promise.reject(new Error(`two blocks were handed in for height ${height}`));
    }
    if (before?.commit !== undefined) return before.commit.promise.then(() => false);
    const defect = this.#defectOf(block, collections);
    if (defect !== undefined) return Promise.reject(new Error(defect));

    const record = before ?? this.#window.link(block);
    if (record.status === 'linked') this.#window.move(record, 'complete');
    const commit = newCommit(record, collections);
    record.commit = commit;
    this.#waiting.push(commit);
    if (this.#commitStartedAtMs !== undefined) this.#stage();
    void this.#write();
    return commit.promise;
  }

  /**
   * Confirms that the chain has this block at a durable height. Resolves once the watermark has passed it, if only this
   * confirmation was missing; `undefined` when there is nothing to wait for. Rejects like
   * `onReceivedCollectionsForBlock`, and with `OffChainBlockError`.
   */
  confirm(block: BlockHead): Promise<void> | undefined {
    const { height } = block;
    let wasInDoubt: boolean;
    try {
      wasInDoubt = this.#isDoubted(block);
    } catch (error) {
      return Promise.reject(asError(error));
    }
    this.#unconfirmed.delete(height);
    const record = this.#window.at(height);
    if (record?.status === 'linked') this.#window.move(record, 'durable');
    if (!wasInDoubt || height !== this.#store.latestIndexedHeight() + 1) return undefined;
    return this.#write().then(() => {
      if (this.#refusal !== undefined && this.#store.latestIndexedHeight() < height) throw this.#refusal;
    });
  }

  /**
   * Records a spork whose root was written before any node named it; usually there is none. For an idle indexer at
   * shutdown: otherwise the next batch carries it. Expected errors: `StorageError`.
   */
  async recordLateSpork(): Promise<void> {
    if (this.#refusal !== undefined && !isAbort(this.#refusal)) return;
    const latestIndexedHeight = this.#store.latestIndexedHeight();
    const spork = this.#lateSporkAt(latestIndexedHeight);
    if (spork !== undefined) await this.#store.commit({ blocks: [], latestIndexedHeight, spork });
  }

  /** Resolves when no batch is being written and none will be. */
  idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /**
   * Finishes the current batch and writes no other: waiting and later callers get an AbortError. Their blocks are fetched
   * again after the restart.
   */
  stop(): void {
    this.#refuse(new AbortError('the indexer has stopped'));
  }

  /** Checks again, after the job processor, that these are all of the block's collections, in its order. */
  #defectOf(block: FinalizedBlock, collections: readonly VerifiedCollection[]): string | undefined {
    const { height, collectionIds } = block;
    const bound = this.#window.limit();
    if (height > bound) return `height ${height} is above the window, which ends at ${bound}`;
    if (collections.length !== collectionIds.length) {
      return `height ${height} has ${collectionIds.length} guarantees but got ${collections.length} collections`;
    }
    const wrong = collectionIds.findIndex((id, slot) => collections[slot]?.id !== id);
    return wrong === -1 ? undefined : `height ${height}: collection ${wrong} is not the guaranteed one`;
  }

  /** Writes until nothing is ready and the watermark cannot pass any further. */
  #write(): Promise<void> {
    this.#running ??= this.#writeGroups();
    return this.#running;
  }

  async #writeGroups(): Promise<void> {
    // Blocks that become ready in the same turn of the event loop share the first batch.
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0 || this.#hasNext || this.#mayPass()) {
        const room = this.#deps.room?.whenRoom(this.#stopped.signal);
        if (room !== undefined) await room;
        const group = this.#takeGroup();
        if (group.commits.length > 0 || this.#mayPass()) await this.#commit(group);
        // Blocks that arrive at this moment join the batch: half as many batches, and a tenth more heights per second
        // (docs/performance.md). A block that finds the writer idle is written at once.
        if (this.#hasNext) await sleep(this.#clock, 0);
      }
    } catch (error) {
      const failure = await this.#afterRewind(error);
      for (const commit of this.#writing) commit.reject(failure);
      this.#refuse(failure);
    }
    this.#writing = [];
    this.#running = undefined;
  }

  /**
   * While a batch is being written, moves the lowest ready heights into the next one, and lets the store prepare them, a
   * few at a time.
   */
  #stage(): void {
    if (this.#staging) return;
    const { joined, hasMore } = this.#join(TURN_BYTES);
    for (const commit of joined) this.#store.stage(commit);
    if (!hasMore) return;
    this.#staging = true;
    this.#clock.setTimer(0, () => {
      this.#staging = false;
      // If no batch is being written, they are in one already, or rejected.
      if (this.#commitStartedAtMs !== undefined) this.#stage();
    });
  }

  get #hasNext(): boolean {
    return this.#next.commits.length > 0;
  }

  get #isFull(): boolean {
    const { groupMaxBytes, groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights } = this.#options;
    const { bytes, commits, filled } = this.#next;
    return filled >= groupMaxHeights || commits.length >= groupMaxEmptyHeights || bytes >= groupMaxBytes;
  }

  /**
   * Moves the lowest ready heights into the next batch while they fit. `hasMore`: more would fit, but these already have
   * `maxBytes`.
   */
  #join(maxBytes: number): { readonly joined: readonly Commit[]; readonly hasMore: boolean } {
    if (this.#waiting.length === 0 || this.#isFull) return { joined: [], hasMore: false };
    this.#waiting = this.#waiting.filter((commit) => !this.#isDurable(commit)).sort(byHeight);
    let bytes = 0;
    let count = 0;
    for (const commit of this.#waiting) {
      if (bytes >= maxBytes || !this.#fits(commit)) break;
      this.#count(commit);
      count += 1;
      bytes += commit.bytes;
    }
    const joined = this.#waiting.splice(0, count);
    return { joined, hasMore: bytes >= maxBytes && this.#waiting.length > 0 && !this.#isFull };
  }

  /** False if it must wait for the next but one: a batch has one spork record. */
  #fits({ block, bytes }: Commit): boolean {
    if (this.#hasNext && (this.#isFull || this.#next.bytes + bytes > this.#options.groupMaxBytes))
      return false;
    return this.#next.spork === undefined || this.#newSporkAt(block) === undefined;
  }

  #count(commit: Commit): void {
    this.#next.commits.push(commit);
    this.#next.bytes += commit.bytes;
    if (commit.collections.length > 0) this.#next.filled += 1;
    this.#next.spork ??= this.#newSporkAt(commit.block);
  }

  /** The next batch, with all that fits. Empty when every height turned out to be durable. */
  #takeGroup(): Group {
    const { commits, spork } = this.#next;
    this.#next = { ...newGroup(), spork };
    for (const commit of commits) if (!this.#isDurable(commit)) this.#count(commit);
    this.#join(Infinity);
    const group = this.#next;
    this.#next = newGroup();
    this.#writing = group.commits.sort(byHeight);
    let below: BlockHead | undefined;
    for (const { block, record } of this.#writing) {
      const { height } = block;
      this.#window.move(record, 'committing');
      this.#assertLinked(block, below?.height === height - 1 ? below : this.#headAt(height - 1));
      const above = this.#headAt(height + 1);
      if (above !== undefined) this.#assertLinked(above, block);
      below = block;
    }
    return group;
  }

  /** Checks again, now that it is the height's turn, whether it is durable already. */
  #isDurable(commit: Commit): boolean {
    if (!this.#window.isIndexed(commit.block.height)) return false;
    this.#window.move(commit.record, 'durable');
    commit.resolve(false);
    return true;
  }

  async #commit(group: Group): Promise<void> {
    const { bytes, commits: blocks } = group;
    const latestIndexedHeight = this.#newWatermark();
    const spork = group.spork ?? this.#lateSporkAt(latestIndexedHeight);
    const batch: CommitBatch = { blocks, latestIndexedHeight, ...(spork === undefined ? {} : { spork }) };
    const startedMs = this.#clock.monotonic();
    this.#commitStartedAtMs = startedMs;
    const committed = this.#store.commit(batch);
    this.#stage();
    await committed.finally(() => (this.#commitStartedAtMs = undefined));
    const durationMs = this.#clock.monotonic() - startedMs;
    if (this.#store.latestIndexedHeight() !== latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${latestIndexedHeight} that was committed`);
    }
    for (const { record } of blocks) this.#window.move(record, 'durable');
    this.#window.moved();
    this.#deps.metrics.commitDuration.observe(durationMs / 1000);
    this.#deps.metrics.commitHeights.observe(blocks.length);
    this.#deps.metrics.commitBytes.observe(bytes);
    this.#deps.logger.debug(
      { heights: blocks.length, bytes, durationMs, latestIndexedHeight },
      'batch is durable',
    );
    this.#writing = [];
    for (const commit of blocks) commit.resolve(true);
  }

  /** The end of the unbroken run, from the watermark, of heights that are in this batch or durable and confirmed. */
  #newWatermark(): number {
    let height = this.#store.latestIndexedHeight();
    while (this.#isCommitting(height + 1) || this.#isConfirmed(height + 1)) height += 1;
    return height;
  }

  #isCommitting(height: number): boolean {
    return this.#window.at(height)?.status === 'committing';
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return this.#refusal === undefined && this.#isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  #assertLinked(upper: BlockHead, lower: Pick<BlockHead, 'id'> | undefined): void {
    if (lower === undefined || upper.parentId === lower.id) return;
    if (upper.parentId !== this.#deps.rootParentAt?.(upper.height))
      throw new ParentLinkError(upper, lower.id);
  }

  /**
   * The error, after blocks that do not link have been deleted: those above the watermark are not part of the index yet,
   * and can be fetched again.
   */
  async #afterRewind(error: unknown): Promise<Error> {
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
    const dropped = [...this.#next.commits, ...this.#waiting];
    this.#waiting = [];
    this.#next = newGroup();
    for (const commit of dropped) commit.reject(this.#refusal);
  }

  /** The block at a durable height from the watermark up. */
  #headAt(height: number): BlockHead | undefined {
    const record = this.#window.at(height);
    if (record?.status === 'durable') return record.block;
    const latest = this.#store.latestBlock();
    return latest?.height === height ? latest : this.#inheritedHeads().get(height);
  }

  /** The block is durable and unconfirmed. Throws `OffChainBlockError`. */
  #isDoubted(block: BlockHead): boolean {
    const head = this.#inheritedHeads().get(block.height);
    if (head === undefined || !this.#unconfirmed.has(block.height)) return false;
    if (head.id !== block.id) throw new OffChainBlockError(block, head.id);
    return true;
  }

  /** True for a durable height that the watermark may pass. */
  #isConfirmed(height: number): boolean {
    this.#inheritedHeads();
    return this.#store.hasHeight(height) && !this.#unconfirmed.has(height);
  }

  #inheritedHeads(): ReadonlyMap<number, BlockHead> {
    if (this.#inherited === undefined) {
      const inherited = new Map<number, BlockHead>();
      for (const head of this.#store.blocksAboveWatermark()) {
        inherited.set(head.height, head);
        this.#unconfirmed.add(head.height);
      }
      this.#inherited = inherited;
    }
    return this.#inherited;
  }

  /**
   * The record of the spork whose root this block is, unless the store has it with the root's parent. Depends on the
   * chain alone: a store that begins at a root gets the same record as one that reached it from below.
   */
  #newSporkAt({ height, parentId }: BlockHead): SporkRecord | undefined {
    const { rootParentAt, sporkFor } = this.#deps;
    const known = this.#store.meta()?.sporks.find((record) => record.rootHeight === height);
    const isConfirmed = rootParentAt?.(height) === parentId;
    if (known !== undefined && (!isConfirmed || known.rootParentId !== undefined)) return undefined;
    const spork = sporkFor?.(height);
    const root = known ?? (spork?.rootHeight === height ? spork : undefined);
    if (!isConfirmed) return root;
    return { rootHeight: height, sporkId: root?.sporkId ?? '', rootParentId: parentId };
  }

  /**
   * The spork of this height when its root was written before any node named it: a node that moves to the next spork
   * delivers its blocks shortly before its next handshake.
   */
  #lateSporkAt(height: number): SporkRecord | undefined {
    const spork = this.#deps.sporkFor?.(height);
    const recorded = this.#store.meta()?.sporks.findLast(({ rootHeight }) => rootHeight <= height);
    if (spork === undefined || spork.rootHeight <= (recorded?.rootHeight ?? -1)) return undefined;
    return spork.rootHeight <= height ? spork : undefined;
  }
}

function byHeight(left: Commit, right: Commit): number {
  return left.block.height - right.block.height;
}
