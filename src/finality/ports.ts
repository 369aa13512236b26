import type { AccessNodes, BlockSource } from '../access/index.js';
import type { FinalizedBlock, Identifier } from '../flow/index.js';
import type { BlockJob, Notifiable } from '../jobqueue/index.js';
import type { Logger } from '../observability/index.js';
import type { Clock, Random } from '../runtime/index.js';
import type { BlockHead } from '../storage/index.js';

export const BLOCK_STREAM = 'SubscribeBlocksFromStartHeight';
export const BLOCK_CALL = 'GetBlockByHeight';

/** Finality's part of the record of a linked height. */
export interface LinkedHeight extends BlockJob<FinalizedBlock> {
  /** `undefined`: no node is held responsible for it. */
  readonly blockSource: BlockSource | undefined;
}

/** The window, as far as finality uses it: how far blocks are read, and where they are kept. */
export interface ChainWindow {
  /** K: no height above watermark + K is requested. */
  readonly heights: number;
  /** Nothing above it is requested. */
  readonly stopHeight: number | undefined;
  /** Every height up to it is durable; first height - 1 on an empty store. */
  latestIndexedHeight(): number;
  /** The chain's head, which may be above the stop height. */
  finalizedHeight(): number | undefined;
  /** The highest height that may be worked on now. */
  upperBound(): number;
  at(height: number): LinkedHeight | undefined;
  /**
   * Adds a block that links. Returns the record of its height. If that holds another block, which was handed out, the
   * caller must replace it.
   */
  link(block: FinalizedBlock, blockSource: BlockSource): LinkedHeight;
  /** Forgets a block that was not handed out. A block that was is worked on until another one replaces it. */
  unlink(height: number): void;
}

/** What `finalizedBlocks` and its parts take. */
export interface ChainDependencies {
  readonly nodes: AccessNodes;
  readonly window: ChainWindow;
  /** The id that was reported for a recent finalized head. */
  readonly headId: (height: number) => Identifier | undefined;
  /** The block at the watermark; `undefined` on an empty store, whose first block has no parent to check. */
  readonly latestBlock: () => BlockHead | undefined;
  /** Notified whenever a height became available: wakes the consumer. */
  readonly signal: Notifiable;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: {
    readonly streamReopens: { inc(labels: Record<'stream' | 'reason', string>): void };
    readonly invalidBlocks: { inc(labels: Record<'endpoint' | 'reason', string>): void };
  };
  /** For the `rewind` advice; without it, or where it has none at a height, the advice is one height below the watermark. */
  readonly storedBlock?: ((height: number) => Promise<{ readonly id: Identifier } | undefined>) | undefined;
  /** A false block was handed out at this height, from a node that lied; this is the right one. */
  readonly onReplaced: (block: FinalizedBlock, blockSource: BlockSource) => void;
}
