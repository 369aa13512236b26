import { OperatorError } from '../runtime/index.js';
import { joined, MAX_PLANS, without } from '../storage/index.js';
import type { BackfillPlan, HeightRange, OpenRange, RangeFacts } from '../storage/index.js';
import { countHeights } from './planner.js';
import type { BackfillState, RangePhase, ServedHeights, WantedPlan } from './ports.js';

/** Failed runs in a row after which a range is disputed. */
export const FAILURES_BEFORE_DISPUTE = 5;
/** Pause before a failed range runs again. */
export const RETRY_BACKOFF = { minMs: 2_000, maxMs: 120_000 };

export function isDisputed({ failures }: Pick<OpenRange, 'failures'>): boolean {
  return failures >= FAILURES_BEFORE_DISPUTE;
}

/** The range that follows the head, the highest that is covered; `undefined` while it has no block. */
export function liveOf(coverage: readonly HeightRange[]): HeightRange | undefined {
  const live = coverage.at(-1);
  return live === undefined || live.to < live.from ? undefined : live;
}

/** Checks a wanted plan and gives it the number `id`. Expected errors: OperatorError `usage`. */
export function newPlan(
  { from, to, order }: WantedPlan,
  id: number,
  { plans, coverage }: Pick<RangeFacts, 'plans' | 'coverage'>,
): BackfillPlan {
  const live = liveOf(coverage);
  if (live === undefined)
    throw usage(
      'The store holds nothing yet: begin the live range first (start), then plan what lies below it.',
    );
  if (to > live.to)
    throw usage(
      `Height ${to} is above the latest indexed one, ${live.to}: the daemon indexes heights above that without a plan.` +
        (from < live.from ? ` End the plan at ${live.from - 1} or lower.` : ''),
    );
  if (from < 0 || from > to) throw usage(`There are no heights from ${from} to ${to}: swap them.`);
  if (plans.filter(({ heals }) => heals !== true).length >= MAX_PLANS)
    throw usage(`There are already ${MAX_PLANS} plans, the maximum. Wait for one, or cancel one.`);
  if (without([{ from, to }], coverage).length === 0)
    throw usage(`Heights ${from} to ${to} are all indexed already: there is nothing to plan.`);
  const planned = plans.find((other) => other.from <= from && other.to >= to);
  if (planned !== undefined)
    throw usage(
      `Heights ${from} to ${to} are planned already, by plan ${planned.id} (${planned.from} to ${planned.to}).`,
    );
  return { id, from, to, order, isPaused: false };
}

/**
 * Without `id`, chooses every plan except those that heal, which end when they are filled. Expected errors: OperatorError
 * `usage` (no such plan, or one that heals).
 */
export function choosePlans(
  plans: readonly BackfillPlan[],
  id: number | undefined,
): { readonly chosen: readonly BackfillPlan[]; readonly kept: readonly BackfillPlan[] } {
  const chosen = plans.filter((plan) => (id === undefined ? plan.heals !== true : plan.id === id));
  if (id !== undefined && chosen.length === 0)
    throw usage(`There is no plan ${id}. "backfill status" lists the plans.`);
  if (id !== undefined && chosen.some(({ heals }) => heals === true))
    throw usage(
      `Plan ${id} fetches damaged heights again: it ends by itself, and cannot be paused or cancelled.`,
    );
  return { chosen, kept: plans.filter((plan) => !chosen.includes(plan)) };
}

/** All plans, with the chosen ones paused or resumed. Expected errors: those of `choosePlans`. */
export function withPaused(
  plans: readonly BackfillPlan[],
  id: number | undefined,
  isPaused: boolean,
): readonly BackfillPlan[] {
  const { chosen } = choosePlans(plans, id);
  return plans.map((plan) => (chosen.includes(plan) ? { ...plan, isPaused } : plan));
}

/** The disputed ranges, as if they had never failed. */
export function redriven(open: readonly OpenRange[]) {
  return open.filter(isDisputed).map(({ from, to }) => ({ from, to, failures: 0 }));
}

/** Heights that no range crosses: where a spork begins, and where served heights begin and end. */
export function bordersOf(chain: ServedHeights): readonly number[] {
  return [...chain.borders(), ...joined(chain.served()).flatMap(({ from, to }) => [from, to + 1])];
}

/** Plans, open ranges, and the heights that are still missing. */
export function backfillState(
  { plans, open, coverage }: RangeFacts,
  chain: ServedHeights,
  isRunning: (range: HeightRange) => boolean,
): BackfillState {
  const stored = [...coverage, ...open.map(({ from, next }) => ({ from, to: next - 1 }))];
  const missing = without(plans, stored);
  return {
    plans: plans.map((plan) => ({ ...plan, missingHeights: countHeights(without([plan], stored)) })),
    ranges: open.map((range) => ({ ...range, phase: phaseOf(range, isRunning(range)) })),
    unserved: without(missing, chain.served()),
    missingHeights: countHeights(missing),
  };
}

function phaseOf(range: OpenRange, isRunning: boolean): RangePhase {
  if (isRunning) return 'running';
  if (isDisputed(range)) return 'disputed';
  return range.failures > 0 ? 'failed' : 'waiting';
}

function usage(message: string): OperatorError {
  return new OperatorError('usage', message);
}
