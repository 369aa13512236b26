import { MAX_OPEN_RANGES, overlap } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, OpenRange } from '../../storage/index.js';
import { common, cutNext, lacking } from '../planner.js';
import { bordersOf } from '../plans.js';
import type { ServedHeights } from '../ports.js';
import type { SporkTurns } from '../SporkTurns.js';

/** What the choice of the next range is made from. */
export interface Choice {
  readonly plans: readonly BackfillPlan[];
  readonly coverage: readonly HeightRange[];
  /** Begun and not published, ascending. */
  readonly open: readonly OpenRange[];
  /** Those of them that may go on now. */
  readonly ready: readonly OpenRange[];
  readonly running: readonly HeightRange[];
  readonly chain: ServedHeights;
  readonly maxHeights: number | undefined;
}

/** Of the spork whose turn it is: a range that was begun goes on before another one is. */
export function chooseRange(choice: Choice, turns: SporkTurns): HeightRange | undefined {
  const { chain, maxHeights, plans, ready, running } = choice;
  const planOf = (range: HeightRange): BackfillPlan | undefined => plans.find((plan) => overlap(plan, range));
  const unbegun = unbegunHeights(choice);
  const [begun] = ready;
  const order = (begun && planOf(begun)?.order) ?? unbegun[0]?.plan.order;
  if (order === undefined) return undefined;
  const borders = bordersOf(chain);
  for (const spork of turns.inTurn({ borders: chain.borders(), running, order })) {
    const its = ready.filter(({ from }) => from >= spork.from && from <= spork.to);
    const goesOn = its.at(its[0] && planOf(its[0])?.order === 'oldest' ? 0 : -1);
    if (goesOn !== undefined) return { from: goesOn.from, to: goesOn.to };
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

/** What may be begun of each plan, as far as it is served; nothing while too much is begun already. */
function unbegunHeights({ chain, coverage, open, plans }: Choice): readonly UnbegunHeights[] {
  if (open.length >= MAX_OPEN_RANGES) return [];
  const there = [...coverage, ...open];
  const served = chain.served();
  return plans
    .filter(({ isPaused }) => !isPaused)
    .map((plan) => ({ plan, heights: common(lacking([plan], there), served) }));
}
