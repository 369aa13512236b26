import type { FinalizedBlock, VerifiedCollection } from '../../flow/index.js';
import type { BlockHead, SporkRecord, StoredBlock, StoreMeta } from './stored.js';

/** A complete block, ready to be written: one collection per guarantee, in guarantee order. */
export interface BlockEntry {
  readonly block: FinalizedBlock;
  readonly collections: readonly VerifiedCollection[];
}

/** What one atomic, durable write carries. `latestIndexedHeight` may stay unchanged (blocks above a gap). */
export interface CommitBatch {
  readonly blocks: readonly BlockEntry[];
  readonly latestIndexedHeight: number;
  /** Sporks first seen with these blocks, and what has become known of recorded ones. Default: none. */
  readonly sporks?: readonly SporkRecord[];
}

/**
 * What one indexing line writes: a run of heights that grows upwards. The live range, which follows the head, is one;
 * each open range is another. The watermark is the highest height of the run up to which every height is durable.
 */
export interface RangeStore {
  /** `firstHeight` is that of the run. `undefined` for a store that was never initialised. */
  meta(): StoreMeta | undefined;
  latestIndexedHeight(): number;
  /**
   * The block at the watermark. For an open range without blocks: the covered block below it, which its first block
   * must link to, if there is one. Else `undefined`.
   */
  latestBlock(): BlockHead | undefined;
  /** Blocks of the run that were made durable above a gap, in ascending order; at most one window of them. */
  blocksAboveWatermark(): readonly BlockHead[];
  /** True when the block of this height is durable in this run, at, below or above the watermark. */
  hasHeight(height: number): boolean;
  /** Knows the heights of this run up to its watermark, and every covered height. */
  blockByHeight(height: number): Promise<StoredBlock | undefined>;
  /**
   * Announces that the next commit will carry this entry, so that it can be prepared while the previous commit is under
   * way. Stores nothing; if the next commit does not carry the entry, it is forgotten.
   */
  stage(entry: BlockEntry): void;
  /**
   * Atomic, and synced to disk before it resolves. At most one per run may be under way. Expected errors: `StorageError`
   * (the daemon stops with exit code 74). After one, the batch is durable as a whole or not at all, no reader sees it
   * before the next open, and every further write is refused.
   *
   * The commit that completes an open range also publishes it: it is covered, and no longer open. Expected error:
   * `ParentLinkError` when two blocks do not link; of a complete range also its first or last one to the covered block next to
   * it. Then nothing was written, and the run is over: an open range must be dropped and filled again, from other nodes.
   */
  commit(batch: CommitBatch): Promise<void>;
}
