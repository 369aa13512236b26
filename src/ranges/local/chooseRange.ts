import { MAX_OPEN_RANGES, overlap } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, OpenRange } from '../../storage/index.js';
import { common, cutNext, lacking } from '../planner.js';
import { bordersOf } from '../plans.js';
import type { ServedHeights } from '../ports.js';
import type { SporkTurns } from '../SporkTurns.js';

/** What the choice of the next range depends on. */
export interface Choice {
  readonly plans: readonly BackfillPlan[];
  readonly coverage: readonly HeightRange[];
  /** Begun and not published, ascending. */
  readonly open: readonly OpenRange[];
  /** Open ranges that may run now. */
  readonly ready: readonly OpenRange[];
  readonly running: readonly HeightRange[];
  readonly chain: ServedHeights;
  readonly maxHeights: number | undefined;
}

/** The next range, from the spork whose turn it is: an open range before a new one. */
export function chooseRange(choice: Choice, turns: SporkTurns): HeightRange | undefined {
  const { chain, maxHeights, plans, ready, running } = choice;
  const planOf = (range: HeightRange): BackfillPlan | undefined => plans.find((plan) => overlap(plan, range));
  const unbegun = unbegunHeights(choice);
  const [begun] = ready;
  const order = (begun && planOf(begun)?.order) ?? unbegun[0]?.plan.order;
  if (order === undefined) return undefined;
  const borders = bordersOf(chain);
  for (const spork of turns.inTurn({ borders: chain.borders(), running, order })) {
    const openInSpork = ready.filter(({ from }) => from >= spork.from && from <= spork.to);
    const next = openInSpork.at(openInSpork[0] && planOf(openInSpork[0])?.order === 'oldest' ? 0 : -1);
    if (next !== undefined) return { from: next.from, to: next.to };
    for (const { plan, heights } of unbegun) {
      const cut = cutNext(common(heights, [spork]), { order: plan.order, borders, maxHeights });
      if (cut !== undefined) return cut;
    }
  }
  return undefined;
}

interface UnbegunHeights {
  readonly plan: BackfillPlan;
  readonly heights: readonly HeightRange[];
}

/** The served heights of each plan that may be begun; none while too many ranges are open. */
function unbegunHeights({ chain, coverage, open, plans }: Choice): readonly UnbegunHeights[] {
  if (open.length >= MAX_OPEN_RANGES) return [];
  const there = [...coverage, ...open];
  const served = chain.served();
  return plans
    .filter(({ isPaused }) => !isPaused)
    .map((plan) => ({ plan, heights: common(lacking([plan], there), served) }));
}
