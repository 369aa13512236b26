import { overlap } from '../storage/index.js';
import type { HeightRange } from '../storage/index.js';
import type { FillOrder } from './ports.js';

/** Which sporks there are, and what is being filled of them now. */
export interface SporksAtWork {
  /** Heights at which another spork begins. */
  readonly borders: readonly number[];
  readonly running: readonly HeightRange[];
  /** Decides between sporks of which nothing was begun yet. */
  readonly order: FillOrder;
}

/**
 * Lets the sporks take turns. Each has nodes of its own, so the more sporks are worked on, the more nodes are busy: first come
 * those of which the fewest ranges are being filled, then those whose last turn is longest ago. A spork of which nothing is
 * being filled waits for one turn of each other one at most.
 */
export class SporkTurns {
  /** By the first height of the spork; at most one entry for each that there is. */
  readonly #lastTurns = new Map<number, number>();
  #turns = 0;

  /** All sporks, the one whose turn it is first. Together they are all heights. */
  inTurn({ borders, running, order }: SporksAtWork): readonly HeightRange[] {
    const sporks = sporksBetween(borders);
    const busy = new Map(
      sporks.map((spork) => [spork, running.filter((range) => overlap(range, spork)).length]),
    );
    const ordered = order === 'newest' ? [...sporks].reverse() : [...sporks];
    // A stable sort: sporks that are equal stay in the order of the plan.
    return ordered.sort(
      (a, b) => (busy.get(a) ?? 0) - (busy.get(b) ?? 0) || this.#lastTurn(a) - this.#lastTurn(b),
    );
  }

  /** The range is begun: its spork has had its turn. */
  took({ from }: HeightRange, borders: readonly number[]): void {
    const sporks = sporksBetween(borders);
    const known = new Set(sporks.map((spork) => spork.from));
    for (const first of this.#lastTurns.keys()) if (!known.has(first)) this.#lastTurns.delete(first);
    const spork = sporks.findLast((each) => each.from <= from);
    if (spork !== undefined) this.#lastTurns.set(spork.from, (this.#turns += 1));
  }

  #lastTurn({ from }: HeightRange): number {
    return this.#lastTurns.get(from) ?? 0;
  }
}

/** Ascending. */
function sporksBetween(borders: readonly number[]): readonly HeightRange[] {
  const firsts = [...new Set([0, ...borders])].sort((a, b) => a - b);
  return firsts.map((from, at) => ({ from, to: (firsts[at + 1] ?? Number.MAX_SAFE_INTEGER) - 1 }));
}
