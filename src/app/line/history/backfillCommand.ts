import { readHeightsToFill } from '../../../config/index.js';
import type { HeightsToFill } from '../../../config/index.js';
import type { FillOrder, WorkSource } from '../../../ranges/index.js';
import type { BackfillPlan } from '../../../storage/index.js';
import { notUnderstood } from '../../lifecycle/ControlSocket.js';

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
  const given = readCommand(command);
  switch (given.do) {
    case 'plan': {
      const heights = readHeightsToFill(given.heights);
      if (heights === undefined) throw notUnderstood();
      return { plan: await plan(heights, given.order) };
    }
    case 'pause':
    case 'resume':
    case 'cancel':
      await source[given.do](given.plan);
      return {};
    case 'redrive':
      return { redriven: await source.redrive() };
  }
}

function readCommand(command: unknown): BackfillCommand {
  if (typeof command !== 'object' || command === null || !('do' in command)) throw notUnderstood();
  const { do: what, heights, order, plan } = command as Readonly<Record<string, unknown>>;
  if (what === 'plan' && typeof heights === 'string' && (order === 'newest' || order === 'oldest'))
    return { do: what, heights, order };
  if (what === 'redrive') return { do: what };
  if (what !== 'pause' && what !== 'resume' && what !== 'cancel') throw notUnderstood();
  if (plan === undefined) return { do: what };
  if (typeof plan !== 'number') throw notUnderstood();
  return { do: what, plan };
}
