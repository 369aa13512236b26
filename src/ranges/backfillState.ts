import type { BackfillPlan, HeightRange, OpenRange } from '../storage/index.js';
import { countHeights, lacking } from './planner.js';
import { isDisputed } from './plans.js';
import type { BackfillState, RangePhase, ServedHeights } from './ports.js';

/** Plans, open ranges, and the heights that are still missing. */
export function backfillState(
  known: {
    readonly plans: readonly BackfillPlan[];
    readonly open: readonly OpenRange[];
    readonly coverage: readonly HeightRange[];
  },
  chain: ServedHeights,
  isRunning: (range: HeightRange) => boolean,
): BackfillState {
  const { plans, open, coverage } = known;
  const there = [...coverage, ...open.map(({ from, next }) => ({ from, to: next - 1 }))];
  const missing = lacking(plans, there);
  return {
    plans: plans.map((plan) => ({ ...plan, missingHeights: countHeights(lacking([plan], there)) })),
    ranges: open.map((range) => ({ ...range, phase: isRunning(range) ? 'running' : restingPhaseOf(range) })),
    unserved: lacking(missing, chain.served()),
    missingHeights: countHeights(missing),
  };
}

function restingPhaseOf(range: OpenRange): RangePhase {
  if (isDisputed(range)) return 'disputed';
  return range.failures > 0 ? 'failed' : 'waiting';
}
