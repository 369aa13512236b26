import type { AccessNetwork, SporkTable } from '../../../access/index.js';
import { readHeightsToFill, type HeightsToFill } from '../../../config/index.js';
import type { FillOrder, WorkSource } from '../../../ranges/index.js';
import { OperatorError } from '../../../runtime/index.js';
import type { BackfillPlan, HeightRange, IndexStore, SporkRecord } from '../../../storage/index.js';
import { notUnderstood } from '../../lifecycle/openControlSocket.js';
import { NotKnownYet } from './NotKnownYet.js';

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

/** Carries out a command, in a daemon or on a store without one. Expected errors: OperatorError `usage`. */
export async function obeyBackfill(
  command: unknown,
  source: Pick<WorkSource, 'pause' | 'resume' | 'cancel' | 'redrive'>,
  plan: (heights: HeightsToFill, order: FillOrder) => Promise<BackfillPlan>,
): Promise<BackfillOutcome> {
  const given = (command ?? {}) as { readonly [Field in 'do' | 'heights' | 'order' | 'plan']?: unknown };
  const { do: what, heights, order, plan: id } = given;
  if (what === 'plan' && typeof heights === 'string' && (order === 'newest' || order === 'oldest')) {
    const wanted = readHeightsToFill(heights);
    if (wanted !== undefined) return { plan: await plan(wanted, order) };
  }
  if (what === 'redrive') return { redriven: await source.redrive() };
  const isOfPlans = what === 'pause' || what === 'resume' || what === 'cancel';
  if (!isOfPlans || (id !== undefined && typeof id !== 'number')) throw notUnderstood();
  await source[what](id);
  return {};
}

/** What is known about the chain; without nodes, only the spork table. */
export interface KnownChain {
  readonly sporks: SporkTable;
  readonly network?: Pick<AccessNetwork, 'liveRoot' | 'lowestHeight'> | undefined;
}

/** The heights as numbers. Expected errors: OperatorError `usage`. */
export function heightsOf(
  { from, to }: HeightsToFill,
  store: Pick<IndexStore, 'meta' | 'latestBlock'>,
  chain: KnownChain,
): HeightRange {
  const meta = store.meta();
  if (meta === undefined || store.latestBlock() === undefined)
    throw usage(
      'The store holds nothing yet. Let the daemon index its first block, then plan what lies below it.',
    );
  const first = meta.firstHeight;
  const lowest = lowestOf(from, chain, meta.sporks);
  if (to === undefined && lowest >= first)
    throw usage(
      `Height ${lowest} is not below the first height of the live range, ${first}: there is nothing to plan.`,
    );
  return { from: lowest, to: to ?? first - 1 };
}

function lowestOf(
  from: HeightsToFill['from'],
  { network, sporks }: KnownChain,
  recorded: readonly SporkRecord[],
): number {
  if (typeof from === 'number') return from;
  if (typeof from === 'object') {
    const spork = sporks.find(({ name }) => name === from.spork);
    if (spork !== undefined) return spork.rootHeight;
    const names = sporks.map(({ name }) => name).join(', ');
    const known = names === '' ? '' : `, which has ${names}`;
    throw usage(`There is no spork ${from.spork} in config/sporks.json for this network${known}.`);
  }
  // Without nodes, the index still knows the sporks that it holds.
  const [lowestKnown] = [...sporks, ...recorded].map(({ rootHeight }) => rootHeight).sort((a, b) => a - b);
  const lowest =
    from === 'root'
      ? (network?.liveRoot() ?? recorded.at(-1)?.rootHeight)
      : network === undefined
        ? lowestKnown
        : network.lowestHeight();
  if (lowest !== undefined) return lowest;
  const which = from === 'root' ? 'the root of the live spork' : 'the lowest height that is served';
  if (network !== undefined)
    throw new NotKnownYet('usage', `No access node reports ${which}. Name a height to begin the plan at.`);
  throw usage(
    `Only access nodes know ${which}: start the daemon and plan again, or name a height to begin the plan at.`,
  );
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}
