import { joined, MAX_RANGE_HEIGHTS, without } from '../storage/index.js';
import type { HeightRange } from '../storage/index.js';
import type { FillOrder } from './ports.js';

/** The heights of `wanted` that are in none of `there`, ascending; both in any order. */
export function lacking(
  wanted: readonly HeightRange[],
  there: readonly HeightRange[],
): readonly HeightRange[] {
  return without(joined(wanted), joined(there));
}

/** The heights in both. */
export function common(a: readonly HeightRange[], b: readonly HeightRange[]): readonly HeightRange[] {
  return lacking(a, lacking(a, b));
}

export function countHeights(ranges: readonly HeightRange[]): number {
  return ranges.reduce((sum, { from, to }) => sum + Math.max(0, to - from + 1), 0);
}

interface Cutting {
  readonly order: FillOrder;
  /** Heights at which a spork, or a served range, begins: no range crosses one. */
  readonly borders: readonly number[];
  /** Default: the maximum of the store. */
  readonly maxHeights?: number | undefined;
}

/** Cuts all missing heights into ranges, ascending. */
export function cutAll(
  missing: readonly HeightRange[],
  options: Omit<Cutting, 'order'>,
): readonly HeightRange[] {
  return joined(missing).flatMap((hole) => {
    const cuts: HeightRange[] = [];
    // Always from the bottom, so that two processes cut the same hole the same way.
    for (let from = hole.from; from <= hole.to;) {
      const cut = cutNext([{ from, to: hole.to }], { order: 'oldest', ...options });
      if (cut === undefined) break;
      cuts.push(cut);
      from = cut.to + 1;
    }
    return cuts;
  });
}

/** The next range to run, at the upper or lower end of the missing heights; `undefined` when none is missing. */
export function cutNext(
  missing: readonly HeightRange[],
  { order, borders, maxHeights = MAX_RANGE_HEIGHTS }: Cutting,
): HeightRange | undefined {
  const holes = joined(missing);
  if (order === 'newest') {
    const hole = holes.at(-1);
    if (hole === undefined) return undefined;
    const border = borders.reduce((high, at) => (at <= hole.to ? Math.max(high, at) : high), hole.from);
    return { from: Math.max(hole.from, border, hole.to - maxHeights + 1), to: hole.to };
  }
  const [hole] = holes;
  if (hole === undefined) return undefined;
  const border = borders.reduce((low, at) => (at > hole.from ? Math.min(low, at - 1) : low), hole.to);
  return { from: hole.from, to: Math.min(hole.to, border, hole.from + maxHeights - 1) };
}
