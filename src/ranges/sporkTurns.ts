import { joined, overlap, within, type BackfillPlan, type HeightRange } from '../storage/index.js';
import { spansBetween } from './planner.js';
import type { ServedHeights } from './ports.js';

export type SporkTurns = ReturnType<typeof sporkTurns>;

/**
 * Lets the sporks take turns. Each has its own nodes, so working on more sporks keeps more nodes busy. Sporks with the fewest
 * running ranges come first, then those whose last turn is longest ago. A spork without a running range waits for at most one
 * turn of each other spork.
 */
export function sporkTurns(chain: ServedHeights) {
  /** By the first height of the spork; at most one entry for each spork. */
  const lastTurns = new Map<number, number>();
  let turns = 0;

  /** All sporks. The order of the first plan decides between those that had no turn yet. */
  const inTurn = (first: BackfillPlan | undefined, running: readonly HeightRange[]) => {
    const sporks = [...spansBetween(chain.borders())];
    const busyOf = (spork: HeightRange): number => running.filter((range) => overlap(range, spork)).length;
    const lastOf = ({ from }: HeightRange): number => lastTurns.get(from) ?? 0;
    if (first?.order === 'newest') sporks.reverse();
    // The sort is stable: equal sporks stay in the order of the plan.
    return sporks.sort((a, b) => busyOf(a) - busyOf(b) || lastOf(a) - lastOf(b));
  };

  return {
    /**
     * Where to look for the next range of some plans: `heights` are those of a plan that nodes serve, in one spork. Damaged heights
     * come first, since readers wait for them; then, in the spork whose turn it is, plan by plan. `running`: ranges that are being
     * filled.
     */
    *places(plans: readonly BackfillPlan[], running: readonly HeightRange[]) {
      const served = joined(chain.served());
      for (const some of [plans.filter(({ heals }) => heals === true), plans])
        for (const spork of inTurn(some[0], running))
          for (const plan of some) {
            const heights = within(within(served, spork), plan);
            if (heights.length > 0) yield { plan, heights };
          }
    },
    /** True when nodes serve the next height of an open range: otherwise a worker would hold the range and wait. */
    isServed: ({ next }: { readonly next: number }): boolean =>
      chain.served().some(({ from, to }) => from <= next && next <= to),
    /** Records a turn: a range of the spork was begun. */
    took: ({ from }: HeightRange): void => {
      const sporks = spansBetween(chain.borders());
      const known = new Set(sporks.map((spork) => spork.from));
      for (const first of lastTurns.keys()) if (!known.has(first)) lastTurns.delete(first);
      const spork = sporks.findLast((each) => each.from <= from);
      if (spork !== undefined) lastTurns.set(spork.from, (turns += 1));
    },
  };
}
