import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { asError, isAbort } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { BlockHead, RangeStore, SporkRecord, WriteRoom } from '../../storage/index.js';
import type { Window } from '../heights/Window.js';
import { DurableHeads } from './DurableHeads.js';
import { GroupWriter, newCommit } from './GroupWriter.js';
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

/**
 * Takes each complete block once and has it written. Blocks above a gap are written at once; the watermark passes over
 * them in the batch that closes the gap. Those of an earlier process count only once the chain confirms them.
 *
 * The stored bytes depend on the chain alone: not on source, order, time or grouping.
 */
export class BlockCollectionIndexer implements BlockIndexer {
  readonly #store: RangeStore;
  readonly #window: Window;
  readonly #heads: DurableHeads;
  readonly #sporks: SporkRecords;
  readonly #writer: GroupWriter;

  constructor(
    options: BlockCollectionIndexerOptions,
    dependencies: {
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
    },
  ) {
    const { groupMaxHeights, groupMaxEmptyHeights = groupMaxHeights, groupMaxBytes } = options;
    const bounds = {
      maxHeights: groupMaxHeights,
      maxEmptyHeights: groupMaxEmptyHeights,
      maxBytes: groupMaxBytes,
    };
    this.#store = dependencies.store;
    this.#window = dependencies.window;
    this.#heads = new DurableHeads(dependencies);
    const { rootParentAt = () => undefined, sporkFor = () => undefined } = dependencies;
    this.#sporks = new SporkRecords({ store: this.#store, sporkFor, rootParentAt });
    const parts = { heads: this.#heads, sporks: this.#sporks, rootParentAt };
    this.#writer = new GroupWriter(bounds, { ...dependencies, ...parts });
  }

  latestIndexedHeight(): number {
    return this.#store.latestIndexedHeight();
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#writer.commitStartedAtMs();
  }

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
    if (this.#writer.refusal !== undefined) return Promise.reject(this.#writer.refusal);
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
    this.#writer.add(commit);
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
      wasInDoubt = this.#heads.confirm(block);
    } catch (error) {
      return Promise.reject(asError(error));
    }
    const record = this.#window.at(height);
    if (record?.status === 'linked') this.#window.move(record, 'durable');
    if (!wasInDoubt) return undefined;
    if (height !== this.#store.latestIndexedHeight() + 1) return undefined;
    return this.#writer.write().then(() => {
      const { refusal } = this.#writer;
      if (refusal !== undefined && this.#store.latestIndexedHeight() < height) throw refusal;
    });
  }

  /**
   * Records a spork whose root was written before any node named it; usually there is none. For an idle indexer at
   * shutdown: otherwise the next batch carries it. Expected errors: `StorageError`.
   */
  async recordLateSpork(): Promise<void> {
    const { refusal } = this.#writer;
    if (refusal !== undefined && !isAbort(refusal)) return;
    const latestIndexedHeight = this.#store.latestIndexedHeight();
    const spork = this.#sporks.lateAt(latestIndexedHeight);
    if (spork !== undefined) await this.#store.commit({ blocks: [], latestIndexedHeight, spork });
  }

  /** Resolves when no batch is being written and none will be. */
  idle(): Promise<void> {
    return this.#writer.idle();
  }

  /**
   * Finishes the current batch and writes no other: waiting and later callers get an AbortError. Their blocks are fetched
   * again after the restart.
   */
  stop(): void {
    this.#writer.stop();
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
}
