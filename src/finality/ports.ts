import type { BlockSource } from '../access/index.js';
import type { FinalizedBlock, Identifier } from '../flow/index.js';
import type { BlockJob } from '../jobqueue/index.js';

export const BLOCK_STREAM = 'SubscribeBlocksFromStartHeight';
export const BLOCK_CALL = 'GetBlockByHeight';

/** A counter with labels, like those of `createMetrics`. */
interface LabelledCounter<L extends string> {
  inc(labels: Record<L, string>): void;
}

/** The metrics of following the chain. */
export interface FinalityMetrics {
  readonly streamReopens: LabelledCounter<'stream' | 'reason'>;
  readonly invalidBlocks: LabelledCounter<'endpoint' | 'reason'>;
}

/** The head as a node reported it. */
export interface ReportedHead {
  readonly height: number;
  readonly id: Identifier;
  readonly node: string;
}

/** Finality's part of the record of a linked height. */
export interface LinkedHeight extends BlockJob<FinalizedBlock> {
  /** `undefined`: nobody is held responsible for it. */
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
