import type { Identifier } from '../flow/index.js';

/** A counter with labels; those of `createMetrics` fit. */
export interface LabelledCounter<L extends string> {
  inc(labels: Record<L, string>): void;
}

/** The metrics that following the chain moves. */
export interface FinalityMetrics {
  readonly streamReopens: LabelledCounter<'stream' | 'reason'>;
  readonly invalidBlocks: LabelledCounter<'reason'>;
}

/** What a node told of the head. */
export interface ToldHead {
  readonly height: number;
  readonly id: Identifier;
  readonly node: string;
}
