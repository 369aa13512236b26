import type { AccessNetwork, SporkTable } from '../../../access/index.js';
import { readHeightsToFill, type HeightsToFill } from '../../../config/index.js';
import type { Logger } from '../../../observability/index.js';
import { localWorkSource } from '../../../ranges/index.js';
import type { FillOrder, ServedHeights, SharedQueue, WorkSource } from '../../../ranges/index.js';
import { OperatorError, type Clock, type Random } from '../../../runtime/index.js';
import { sharedRangesOf } from '../../../storage/index.js';
import type { BackfillPlan, HeightRange, IndexStore } from '../../../storage/index.js';
import { rootOf } from '../../lifecycle/knownBlocks.js';
import { notUnderstood } from '../../lifecycle/openControlSocket.js';

/** A change to what history is filled in. */
export type BackfillCommand =
  /** `heights` in the form of `readHeightsToFill`. */
  | { readonly do: 'plan'; readonly heights: string; readonly order: FillOrder }
  /** Without `plan`: all plans. */
  | { readonly do: 'pause' | 'resume' | 'cancel'; readonly plan?: number }
  | { readonly do: 'redrive' };

/** The result of a command. */
export interface BackfillOutcome {
  /** The new plan. */
  readonly plan?: BackfillPlan;
  /** Disputed ranges that run again. */
  readonly redriven?: number;
}

/** What is known about the chain; without nodes, only the spork table and the sporks that the store holds. */
interface KnownChain {
  readonly sporks: SporkTable;
  readonly store: Pick<IndexStore, 'meta'>;
  readonly network?: Pick<AccessNetwork, 'liveRoot' | 'lowestHeight'> | undefined;
}

/**
 * Carries out a command, in a daemon or on a store without one. Expected errors: OperatorError `usage`; `unavailable` while no
 * node reports where the plan begins.
 */
export async function obeyBackfill(
  command: unknown,
  source: WorkSource,
  known: KnownChain,
): Promise<BackfillOutcome> {
  const given = (command ?? {}) as { readonly [Field in 'do' | 'heights' | 'order' | 'plan']?: unknown };
  const { do: what, heights, order, plan: id } = given;
  if (what === 'plan' && typeof heights === 'string' && (order === 'newest' || order === 'oldest')) {
    const wanted = readHeightsToFill(heights);
    if (wanted !== undefined) return { plan: await source.plan({ ...heightsOf(wanted, known), order }) };
  }
  if (what === 'redrive') return { redriven: await source.redrive() };
  const isOfPlans = what === 'pause' || what === 'resume' || what === 'cancel';
  if (!isOfPlans || (id !== undefined && typeof id !== 'number')) throw notUnderstood();
  await source[what](id);
  return {};
}

function heightsOf({ from, to }: HeightsToFill, known: KnownChain): HeightRange {
  // An empty store is refused by the source.
  const { firstHeight: first = Infinity } = known.store.meta() ?? {};
  const lowest = lowestOf(from, known);
  if (to !== undefined || lowest < first) return { from: lowest, to: to ?? first - 1 };
  const message = `Height ${lowest} is not below the first height of the live range, ${first}: there is nothing to plan.`;
  throw new OperatorError('usage', message);
}

function lowestOf(from: HeightsToFill['from'], { network, sporks, store }: KnownChain): number {
  if (typeof from === 'number') return from;
  if (typeof from === 'object') return rootOf(from.spork, sporks, 'usage');
  const recorded = store.meta()?.sporks ?? [];
  const [lowestKnown] = [...sporks, ...recorded].map(({ rootHeight }) => rootHeight).sort((a, b) => a - b);
  const served = network === undefined ? lowestKnown : network.lowestHeight();
  const lowest = from === 'root' ? (network?.liveRoot() ?? recorded.at(-1)?.rootHeight) : served;
  if (lowest !== undefined) return lowest;
  const which = from === 'root' ? 'the root of the live spork' : 'the lowest height that is served';
  const message =
    network === undefined
      ? `Only access nodes know ${which}: start the daemon and plan again, or name a height to begin the plan at.`
      : `No access node reports ${which}. Name a height to begin the plan at.`;
  throw new OperatorError(network === undefined ? 'usage' : 'unavailable', message);
}

/** Where the ranges of a store come from: the queue of the processes that share it, or the store alone. */
export function workSourceOf(
  parts: {
    readonly store: IndexStore;
    /** Shared with other processes. Absent: no other process has the store. */
    readonly queue?: SharedQueue | undefined;
    /** The most heights of one range. Default: as many as the store takes. */
    readonly maxRangeHeights?: number | undefined;
    readonly clock: Clock;
    readonly random: Random;
    readonly logger: Logger;
  },
  chain: ServedHeights,
) {
  const { maxRangeHeights, queue, store } = parts;
  const book = sharedRangesOf(store);
  return queue !== undefined && book !== undefined
    ? queue.source({ maxRangeHeights }, { book, chain })
    : localWorkSource({ maxRangeHeights }, { ...parts, chain });
}
