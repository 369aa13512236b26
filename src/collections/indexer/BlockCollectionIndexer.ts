import { decodeBlock } from '../../flow/index.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';
import { commitQueue } from '../../storage/index.js';
import type { BlockHead, CommitQueue, CommitQueueOptions } from '../../storage/index.js';
import type { CommitBatch, RangeStore, SporkRecord, WriteRoom } from '../../storage/index.js';
import { OffChainBlockError } from '../heights/OffChainBlockError.js';
import type { Window } from '../heights/Window.js';

interface Dependencies {
  readonly store: RangeStore;
  /** Notified when the watermark has moved. A block above its limit is a bug of the caller; an unknown height is added. */
  readonly window: Window;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'commitDuration' | 'commitHeights' | 'commitBytes'>;
  readonly logger: Logger;
  /** See `commitQueue`. */
  readonly room?: WriteRoom | undefined;
  /** The spork of a height, if known. Recorded together with its root block. */
  readonly sporkFor?: (height: number) => SporkRecord | undefined;
  /**
   * The parent of a spork's root block, if known. It need not be the block below, which the spork may have discarded.
   */
  readonly rootParentAt?: (height: number) => Identifier | undefined;
}

/**
 * Takes each complete block once, and hands it to the queue of its run of heights, which makes it durable.
 *
 * The stored bytes depend on the chain alone: not on source, order, time or grouping.
 */
export class BlockCollectionIndexer {
  readonly #deps: Dependencies;
  readonly #queue: CommitQueue;
  /** The last spork that proved to be made up. */
  #refuted: SporkRecord | undefined;

  constructor(options: CommitQueueOptions, dependencies: Dependencies) {
    const { clock, logger, metrics, room, store, window } = dependencies;
    this.#deps = dependencies;
    this.#queue = commitQueue(store, options, {
      clock,
      room,
      newSporks: (batch) => this.#newSporks(batch),
      onDurable: ({ blocks, bytes }, durationMs) => {
        for (const { block } of blocks) {
          const record = window.at(block.height);
          if (record?.isInHand === true) window.move(record, 'durable');
        }
        window.moved();
        metrics.commitDuration.observe(durationMs / 1000);
        metrics.commitHeights.observe(blocks.length);
        metrics.commitBytes.observe(bytes);
        const latestIndexedHeight = store.latestIndexedHeight();
        const facts = { heights: blocks.length, bytes, durationMs, latestIndexedHeight };
        logger.debug(facts, 'batch is durable');
      },
    });
  }

  /** Monotonic milliseconds at which the current batch was handed to the store; `undefined` when none is. */
  commitStartedAtMs(): number | undefined {
    return this.#queue.startedAtMs();
  }

  /**
   * Idempotent. A height that is durable, or that another caller has handed in, is not written again; the result is
   * `false`, in the second case once it is durable. Rejects like `CommitQueue.write`; and for collections of another
   * block, which is a bug.
   */
  onReceivedCollectionsForBlock(
    block: FinalizedBlock,
    collections: readonly VerifiedCollection[],
  ): Promise<boolean> {
    const { height } = block;
    if (this.#deps.window.isIndexed(height)) return Promise.resolve(false);
    const before = this.#deps.window.at(height);
    if (before !== undefined && before.block.id !== block.id) {
      return Promise.reject(new Error(`two blocks were handed in for height ${height}`));
    }
    if (before?.commit !== undefined) return before.commit.then(() => false);
    const defect = this.#defectOf(block, collections);
    if (defect !== undefined) return Promise.reject(new Error(defect));

    const record = before ?? this.#deps.window.link(block);
    record.commit = this.#queue.write({ block, collections });
    return record.commit;
  }

  /**
   * Confirms that the chain has this block at a durable height. Resolves once the watermark has passed it, if only this
   * confirmation was missing; `undefined` when there is nothing to wait for. Rejects like
   * `onReceivedCollectionsForBlock`, and with `OffChainBlockError`.
   */
  confirm(block: BlockHead): Promise<void> | undefined {
    const { height } = block;
    const head = this.#queue.doubtedAt(height);
    if (head !== undefined && head.id !== block.id) return Promise.reject(new OffChainBlockError(height));
    const record = this.#deps.window.at(height);
    if (record?.status === 'linked') this.#deps.window.move(record, 'durable');
    return this.#queue.confirm(height);
  }

  /** Like `CommitQueue.stop`. Blocks that wait are fetched again after the restart. */
  stop(): Promise<boolean> {
    return this.#queue.stop();
  }

  /**
   * Records a spork whose root was written before any node named it; usually there is none. For an indexer that has
   * stopped: otherwise the next batch carries it. Expected errors: `StorageError`.
   */
  async recordLateSpork(): Promise<void> {
    const latestIndexedHeight = this.#deps.store.latestIndexedHeight();
    const sporks = await this.#newSporks({ blocks: [], latestIndexedHeight });
    if (sporks.length > 0) await this.#deps.store.commit({ blocks: [], latestIndexedHeight, sporks });
  }

  /** Checks again, after the job processor, that these are all of the block's collections, in its order. */
  #defectOf(block: FinalizedBlock, collections: readonly VerifiedCollection[]): string | undefined {
    const { height, collectionIds } = block;
    const bound = this.#deps.window.limit();
    if (height > bound) return `height ${height} is above the window, which ends at ${bound}`;
    if (collections.length !== collectionIds.length) {
      return `height ${height} has ${collectionIds.length} guarantees but got ${collections.length} collections`;
    }
    const wrong = collectionIds.findIndex((id, slot) => collections[slot]?.id !== id);
    return wrong === -1 ? undefined : `height ${height}: collection ${wrong} is not the guaranteed one`;
  }

  /**
   * What is known of sporks and not recorded: of those whose roots are among these blocks, and of that of the watermark, whose
   * root may have been written before any node named it, or its id: a node that moves to the next spork delivers its
   * blocks shortly before its next handshake, and a slow one may report its version later. Depends on the chain alone: a
   * store that begins at a root gets the same record as one that reached it from below. And of a spork whose root, just above
   * the next watermark, was indexed before the table had its parent: the last block of a range would not link to that root.
   */
  async #newSporks(batch: CommitBatch): Promise<readonly SporkRecord[]> {
    const { rootParentAt, sporkFor, store } = this.#deps;
    const recorded = store.meta()?.sporks ?? [];
    const blocks = new Map(batch.blocks.map(({ block }) => [block.height, block]));
    const above = batch.latestIndexedHeight + 1;
    const height = store.latestIndexedHeight();
    const passed = recorded.findLast(({ rootHeight }) => rootHeight <= height)?.rootHeight ?? 0;
    const late = sporkFor?.(height)?.rootHeight ?? Infinity;
    const sporks: SporkRecord[] = [];
    for (const rootHeight of [...(late >= passed && late <= height ? [late] : []), ...blocks.keys(), above]) {
      const known = recorded.find((record) => record.rootHeight === rootHeight);
      const spork = known === undefined || known.sporkId === '' ? sporkFor?.(rootHeight) : undefined;
      const isNew =
        spork?.rootHeight === rootHeight && spork.sporkId !== known?.sporkId && !this.#isRefuted(spork);
      const parentId = known?.rootParentId ?? rootParentAt?.(rootHeight);
      if (!isNew && parentId === known?.rootParentId) continue;
      // `undefined`: below the first height, or not indexed yet.
      const root = blocks.get(rootHeight) ?? (await store.blockByHeight(rootHeight))?.block;
      if (root === undefined && rootHeight > height) continue;
      const sporkId = isNew && this.#mayBegin(spork, root) ? spork.sporkId : known?.sporkId;
      const rootParentId = parentId === root?.parentId ? parentId : known?.rootParentId;
      if (sporkId === known?.sporkId && rootParentId === known?.rootParentId) continue;
      sporks.push({ rootHeight, sporkId: sporkId ?? '', ...(rootParentId && { rootParentId }) });
    }
    return sporks;
  }

  /**
   * False for a spork that a node made up. Its root block, if proven, shows that: the id of a spork is that of its root,
   * whose parent is of another spork, so that the root carries no votes.
   */
  #mayBegin({ rootHeight, sporkId }: SporkRecord, root: FinalizedBlock | undefined): boolean {
    if (root?.proof === undefined) return true;
    const isNamed = sporkId === '' || sporkId === root.id;
    if (isNamed && decodeBlock(root.encoded).signatures.every(({ length }) => length === 0)) return true;
    this.#refuted = { rootHeight, sporkId };
    const fields = { height: rootHeight, sporkId, blockId: root.id };
    this.#deps.logger.warn(fields, 'a node claims a spork that does not exist');
    return false;
  }

  #isRefuted({ rootHeight, sporkId }: SporkRecord): boolean {
    return this.#refuted?.rootHeight === rootHeight && this.#refuted.sporkId === sporkId;
  }
}
