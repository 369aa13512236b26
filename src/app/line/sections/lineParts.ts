import type { AccessNetwork, AccessNodes, SporkTable } from '../../../access/index.js';
import type { EndpointSlots, Window } from '../../../collections/index.js';
import type { FinalizationListener, FinalizedBlocksOptions, RootParent } from '../../../finality/index.js';
import type { FinalizedBlock } from '../../../flow/index.js';
import type { Logger, Metrics } from '../../../observability/index.js';
import type { Clock, Random } from '../../../runtime/index.js';
import { isCorruption } from '../../../storage/index.js';
import type { RangeStore, WriteRoom } from '../../../storage/index.js';
import type { Lifecycle } from '../../lifecycle/Lifecycle.js';

/** The head of the chain for a line: a FinalizationListener, or the end of a range. */
export type ChainHead = Pick<
  FinalizationListener,
  'finalizedHeight' | 'sealedHeight' | 'toldHead' | 'onTold' | 'onAnswerAgain'
>;

/** What a line is built from. */
export interface IndexingLineParts {
  /** The run of heights that the line writes: the live range, or one of history. */
  readonly store: RangeStore;
  /** The source of everything. */
  readonly nodes: AccessNodes;
  readonly network: Pick<AccessNetwork, 'heights' | 'onAnswering'>;
  readonly listener: ChainHead;
  /** Outlives the line, which begins with an empty one. */
  readonly window: Window;
  readonly lifecycle: Pick<Lifecycle, 'fail' | 'supervise'>;
  readonly sporks: SporkTable;
  /** Shared by all lines. */
  readonly slots: EndpointSlots;
  /** Where the store is written. Default: there always is room. */
  readonly room?: WriteRoom | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

export interface IndexingLineOptions {
  /** See `FinalizedBlocks`. */
  readonly reachedHeight: number;
  /** A range of history, which yields to the live range in everything. Default false. */
  readonly isHistory?: boolean;
  /** Of history: it does not yield, because readers wait for it. Default false. */
  readonly isUrgent?: boolean;
  /** Known parents besides the spork table: the one that the block above a range names. */
  readonly rootParents?: readonly RootParent[];
  /** See `FinalizedBlocks`. */
  readonly asksFor?: FinalizedBlocksOptions['asksFor'];
}

/** The dependencies of every part. */
export function commonOf({ nodes, clock, random, metrics, logger }: IndexingLineParts) {
  return { nodes, clock, random, metrics, logger };
}

/** A stored block; `undefined` also for a damaged one, which is healed (`Healing`). Expected errors: `StorageError`. */
export async function soundBlock(
  store: Pick<RangeStore, 'blockByHeight'>,
  height: number,
): Promise<FinalizedBlock | undefined> {
  try {
    return (await store.blockByHeight(height))?.block;
  } catch (error) {
    if (!isCorruption(error)) throw error;
    return undefined;
  }
}
