import type { FinalizedBlock, Identifier, VerifiedCollection } from '../flow/index.js';
import type { Logger, Metrics } from '../observability/index.js';
import { AbortError, isAbort, type Clock } from '../runtime/index.js';
import type { BlockEntry, BlockHead, CommitBatch, IndexStore, SporkRecord } from '../storage/index.js';
import type { BlockIndexer } from './ports.js';

export interface BlockCollectionIndexerOptions {
  /** K. A block above the watermark plus this is a bug of the caller. It bounds what waits for its turn. */
  readonly windowHeights: number;
  /** Most heights with collections in one durable batch. */
  readonly groupMaxHeights: number;
  /** Most heights in one durable batch, those without collections included. Default: `groupMaxHeights`. */
  readonly groupMaxEmptyHeights?: number;
  /** Most collection bytes in one durable batch; a single larger block has a batch of its own. */
  readonly groupMaxBytes: number;
}

export interface BlockCollectionIndexerDependencies {
  readonly store: IndexStore;
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

/**
 * The block that is durable above the watermark is another one than the chain has: it came from a node that lied, and the
 * process that wrote it ended before the lie was found out.
 */
export class OffChainBlockError extends Error {
  override readonly name = 'OffChainBlockError';
  readonly height: number;

  constructor({ height, id }: BlockHead, durableId: string) {
    super(`block ${durableId} is durable at height ${height}, where the chain has block ${id}`);
    this.height = height;
  }
}

/** A height from the moment it is complete until it is durable. */
interface Turn extends BlockEntry {
  readonly bytes: number;
  readonly promise: Promise<boolean>;
  resolve(written: boolean): void;
  reject(error: Error): void;
}

interface Group {
  /** In ascending order of height. */
  readonly turns: readonly Turn[];
  readonly batch: CommitBatch;
  readonly bytes: number;
}

/**
 * The one writer. Group commit: while a durable batch is being written, every block that becomes ready joins the next
 * one, lowest heights first, so that a slow disk makes larger groups rather than longer queues. Blocks above a gap are
 * written at once; the watermark passes over them in the batch that closes the gap (those of an earlier process: once the
 * chain has borne them out).
 *
 * What is stored depends on the chain alone: not on the source, the order, the time or the grouping.
 */
export class BlockCollectionIndexer implements BlockIndexer {
  readonly #options: BlockCollectionIndexerOptions;
  readonly #store: IndexStore;
  readonly #clock: Clock;
  readonly #metrics: BlockCollectionIndexerDependencies['metrics'];
  readonly #logger: Logger;
  readonly #sporkFor: (height: number) => SporkRecord | undefined;
  readonly #rootParentAt: (height: number) => Identifier | undefined;
  /** Ready, not yet in a batch. At most one window of them. */
  readonly #waiting = new Map<number, Turn>();
  /** In the batch that is being written. */
  #writing: ReadonlyMap<number, Turn> = new Map();
  #commitStartedAtMs: number | undefined;
  #running: Promise<void> | undefined;
  /** Why nothing more is taken: stopped, or the store failed. */
  #refusal: Error | undefined;
  /** The durable blocks from the watermark up; undefined until first needed. */
  #heads: Map<number, BlockHead> | undefined;
  /**
   * Heights above the watermark that an earlier line or process made durable, and whose blocks the chain has not borne
   * out since: the watermark waits for it. At most as many as the store had when this began.
   */
  readonly #unconfirmed = new Set<number>();
  /** One window, the block at the watermark, and what an earlier run, perhaps with a wider window, left above the gap. */
  #headsMax = 0;

  constructor(options: BlockCollectionIndexerOptions, dependencies: BlockCollectionIndexerDependencies) {
    this.#options = options;
    this.#store = dependencies.store;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#logger = dependencies.logger;
    this.#sporkFor = dependencies.sporkFor ?? (() => undefined);
    this.#rootParentAt = dependencies.rootParentAt ?? (() => undefined);
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
    const before = this.#waiting.get(height) ?? this.#writing.get(height);
    if (before !== undefined) {
      if (before.block.id !== block.id) {
        return Promise.reject(new Error(`two blocks were handed in for height ${height}`));
      }
      return before.promise.then(() => false);
    }
    const defect = this.#defectOf(block, collections);
    if (defect !== undefined) return Promise.reject(new Error(defect));

    const turn = newTurn(block, collections);
    this.#waiting.set(height, turn);
    this.#running ??= this.#writeGroups();
    return turn.promise;
  }

  /**
   * The chain has this block at a height that is durable. Resolves once the watermark has passed it, should it have been
   * all that the watermark waited for; `undefined` when there is nothing to wait for. Rejects as
   * `onReceivedCollectionsForBlock` does, and with `OffChainBlockError`.
   */
  confirm(block: BlockHead): Promise<void> | undefined {
    const { height } = block;
    const head = this.#durableHeads().get(height);
    if (head === undefined || !this.#unconfirmed.has(height)) return undefined;
    if (head.id !== block.id) return Promise.reject(new OffChainBlockError(block, head.id));
    this.#unconfirmed.delete(height);
    if (height !== this.#store.latestIndexedHeight() + 1) return undefined;
    this.#running ??= this.#writeGroups();
    return this.#running.then(() => {
      if (this.#refusal !== undefined && this.#store.latestIndexedHeight() < height) throw this.#refusal;
    });
  }

  /**
   * Records a spork whose root was written before any node told of it; usually there is none. For the end, once idle: the
   * next batch would carry it. Expected errors: `StorageError`.
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
   * Finishes the batch in hand and writes no other: whoever waits for a later one is refused with AbortError, as is
   * whoever comes later. Such a block is fetched again after the restart.
   */
  stop(): void {
    this.#refuse(new AbortError('the indexer has stopped'));
  }

  /** The pair of the check that made the collections: they are the block's, all of them, in its order. */
  #defectOf(block: FinalizedBlock, collections: readonly VerifiedCollection[]): string | undefined {
    const { height, collectionIds } = block;
    const bound = this.#store.latestIndexedHeight() + this.#options.windowHeights;
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
      while (this.#waiting.size > 0 || this.#mayPass()) {
        const group = this.#nextGroup();
        if (group.turns.length > 0 || this.#mayPass()) await this.#write(group);
      }
    } catch (error) {
      const failure = await this.#afterMending(error);
      for (const turn of this.#writing.values()) turn.reject(failure);
      this.#refuse(failure);
    }
    this.#writing = new Map();
    this.#running = undefined;
  }

  /** Takes the lowest heights that fit out of the waiting ones. Empty when all of them turned out durable. */
  #nextGroup(): Group {
    const heads = this.#durableHeads();
    const turns = new Map<number, Turn>();
    const { groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights, groupMaxBytes } = this.#options;
    let bytes = 0;
    let filled = 0;
    let spork: SporkRecord | undefined;
    for (const height of [...this.#waiting.keys()].sort((a, b) => a - b)) {
      const turn = this.#waiting.get(height);
      if (turn === undefined) continue;
      if (this.isIndexed(height)) {
        // Its turn has come, and it is there already.
        this.#waiting.delete(height);
        turn.resolve(false);
        continue;
      }
      const full =
        filled >= groupMaxHeights || turns.size >= groupMaxEmptyHeights || bytes + turn.bytes > groupMaxBytes;
      if (turns.size > 0 && full) break;
      const root = this.#newSporkAt(turn.block);
      // One record per batch: the second root waits for the next.
      if (root !== undefined && spork !== undefined) break;
      spork ??= root;
      bytes += turn.bytes;
      if (turn.collections.length > 0) filled += 1;
      turns.set(height, turn);
      this.#waiting.delete(height);
    }
    this.#writing = turns;
    for (const turn of turns.values()) {
      const { height } = turn.block;
      this.#assertLinked(turn.block, turns.get(height - 1)?.block ?? heads.get(height - 1));
      const above = heads.get(height + 1);
      if (above !== undefined) this.#assertLinked(above, turn.block);
    }
    const group = [...turns.values()];
    const latestIndexedHeight = this.#watermarkWith(turns);
    spork ??= this.#lateSporkAt(latestIndexedHeight);
    const batch = { blocks: group, latestIndexedHeight, ...(spork === undefined ? {} : { spork }) };
    return { turns: group, batch, bytes };
  }

  async #write(group: Group): Promise<void> {
    const { batch, turns, bytes } = group;
    const startedMs = this.#clock.monotonic();
    this.#commitStartedAtMs = startedMs;
    await this.#store.commit(batch);
    this.#commitStartedAtMs = undefined;
    const durationMs = this.#clock.monotonic() - startedMs;
    if (this.#store.latestIndexedHeight() !== batch.latestIndexedHeight) {
      throw new Error(`the store's watermark is not the ${batch.latestIndexedHeight} that was committed`);
    }
    this.#remember(turns);
    this.#metrics.commitDuration.observe(durationMs / 1000);
    this.#metrics.commitHeights.observe(turns.length);
    this.#metrics.commitBytes.observe(bytes);
    this.#logger.debug(
      { heights: turns.length, bytes, durationMs, latestIndexedHeight: batch.latestIndexedHeight },
      'batch is durable',
    );
    this.#writing = new Map();
    for (const turn of turns) turn.resolve(true);
  }

  /** The highest height such that every one up to it is in this batch, or durable and of the chain. */
  #watermarkWith(turns: ReadonlyMap<number, Turn>): number {
    let height = this.#store.latestIndexedHeight();
    while (turns.has(height + 1) || this.#isConfirmed(height + 1)) height += 1;
    return height;
  }

  #isConfirmed(height: number): boolean {
    return this.#store.hasHeight(height) && !this.#unconfirmed.has(height);
  }

  /** The watermark may move without any block being written. */
  #mayPass(): boolean {
    return this.#refusal === undefined && this.#isConfirmed(this.#store.latestIndexedHeight() + 1);
  }

  /** The record of the spork whose root this block is, unless the store has it. Depends on the chain alone. */
  #newSporkAt({ height, parentId }: BlockHead): SporkRecord | undefined {
    const known = this.#store.meta()?.sporks.some((record) => record.rootHeight === height) ?? false;
    if (known) return undefined;
    const spork = this.#sporkFor(height);
    const isRoot = spork?.rootHeight === height;
    if (this.#rootParentAt(height) !== parentId) return isRoot ? spork : undefined;
    return { rootHeight: height, sporkId: isRoot ? spork.sporkId : '', rootParentId: parentId };
  }

  /**
   * The spork of this height when its root was written before any node told of it: a node that moves to the next spork
   * delivers its blocks a moment before it is asked anew who it is.
   */
  #lateSporkAt(height: number): SporkRecord | undefined {
    const spork = this.#sporkFor(height);
    const recorded = this.#store.meta()?.sporks.at(-1);
    if (spork === undefined || spork.rootHeight <= (recorded?.rootHeight ?? -1)) return undefined;
    return spork.rootHeight <= height ? spork : undefined;
  }

  #durableHeads(): Map<number, BlockHead> {
    if (this.#heads === undefined) {
      this.#heads = new Map();
      const latest = this.#store.latestBlock();
      if (latest !== undefined) this.#heads.set(latest.height, latest);
      for (const head of this.#store.blocksAboveWatermark()) {
        this.#heads.set(head.height, head);
        this.#unconfirmed.add(head.height);
      }
      this.#headsMax = this.#options.windowHeights + this.#heads.size + 1;
    }
    return this.#heads;
  }

  #remember(turns: readonly Turn[]): void {
    const heads = this.#durableHeads();
    for (const { block } of turns) {
      heads.set(block.height, { height: block.height, id: block.id, parentId: block.parentId });
    }
    const watermark = this.#store.latestIndexedHeight();
    for (const height of heads.keys()) {
      if (height < watermark) heads.delete(height);
    }
    if (heads.size > this.#headsMax) {
      throw new Error(`${heads.size} durable blocks are remembered, the bound is ${this.#headsMax}`);
    }
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
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const turn of waiting) turn.reject(this.#refusal);
  }
}

function newTurn(block: FinalizedBlock, collections: readonly VerifiedCollection[]): Turn {
  let bytes = 0;
  for (const collection of collections) bytes += collection.encoded.byteLength;
  let resolve: (written: boolean) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<boolean>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { block, collections, bytes, promise, resolve, reject };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
