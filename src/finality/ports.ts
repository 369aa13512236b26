import type { Giver } from '../access/index.js';
import type { FinalizedBlock, Identifier } from '../flow/index.js';
import type { BlockJob } from '../jobqueue/index.js';

/** A counter with labels; those of `createMetrics` fit. */
export interface LabelledCounter<L extends string> {
  inc(labels: Record<L, string>): void;
}

/** The metrics that following the chain moves. */
export interface FinalityMetrics {
  readonly streamReopens: LabelledCounter<'stream' | 'reason'>;
  readonly invalidBlocks: LabelledCounter<'reason'>;
}

/** The head as a node reported it. */
export interface ToldHead {
  readonly height: number;
  readonly id: Identifier;
  readonly node: string;
}

/** What finality knows of a height whose block links: its part of the record that the whole line keeps of it. */
export interface LinkedHeight extends BlockJob<FinalizedBlock> {
  /** `undefined`: nobody is held responsible for it. */
  readonly giver: Giver | undefined;
}

/** The records of the window, as far as finality keeps them. */
export interface LinkedHeights {
  at(height: number): LinkedHeight | undefined;
  /**
   * This block links at its height: from now on it is known, or known again. Answers the record of the height, which holds
   * another block when that one was handed out: it is to be replaced.
   */
  link(block: FinalizedBlock, giver: Giver): LinkedHeight;
  /** Forgets a block that was not handed out; one that was is worked on until another one replaces it. */
  unlink(height: number): void;
}
