import { overlap, type HeightRange } from '../storage/index.js';
import { spansBetween } from './planner.js';
import type { FillOrder } from './ports.js';

/**
 * Lets the sporks take turns. Each has its own nodes, so working on more sporks keeps more nodes busy. Sporks with the fewest
 * running ranges come first, then those whose last turn is longest ago. A spork without a running range waits for at most one
 * turn of each other spork.
 */
export class SporkTurns {
  /** By the first height of the spork; at most one entry for each spork. */
  readonly #lastTurns = new Map<number, number>();
  #turns = 0;

  /**
   * All sporks in the order of their turns. Together they cover all heights. `borders`: where another spork begins; `running`:
   * ranges that are being filled; `order` decides between sporks that had no turn yet.
   */
  inTurn(
    borders: readonly number[],
    running: readonly HeightRange[],
    order: FillOrder,
  ): readonly HeightRange[] {
    const sporks = spansBetween(borders);
    const busyOf = (spork: HeightRange): number => running.filter((range) => overlap(range, spork)).length;
    const lastOf = ({ from }: HeightRange): number => this.#lastTurns.get(from) ?? 0;
    const ordered = order === 'newest' ? [...sporks].reverse() : [...sporks];
    // The sort is stable: equal sporks stay in the order of the plan.
    return ordered.sort((a, b) => busyOf(a) - busyOf(b) || lastOf(a) - lastOf(b));
  }

  /** Records a turn: a range of the spork was begun. */
  took({ from }: HeightRange, borders: readonly number[]): void {
    const sporks = spansBetween(borders);
    const known = new Set(sporks.map((spork) => spork.from));
    for (const first of this.#lastTurns.keys()) if (!known.has(first)) this.#lastTurns.delete(first);
    const spork = sporks.findLast((each) => each.from <= from);
    if (spork !== undefined) this.#lastTurns.set(spork.from, (this.#turns += 1));
  }
}
