import { MAX_RANGE_HEIGHTS } from '../storage/index.js';
import type { HeightRange } from '../storage/index.js';
import type { FillOrder } from './ports.js';

/** What remains of `ranges` without the heights of `taken`. Both may be in any order; the result is ascending and disjoint. */
export function without(
  ranges: readonly HeightRange[],
  taken: readonly HeightRange[],
): readonly HeightRange[] {
  const cuts = united(taken);
  return united(ranges).flatMap((range) => {
    const left: HeightRange[] = [];
    let { from } = range;
    for (const cut of cuts) {
      if (cut.to < from || cut.from > range.to) continue;
      if (cut.from > from) left.push({ from, to: cut.from - 1 });
      from = cut.to + 1;
    }
    return from > range.to ? left : [...left, { from, to: range.to }];
  });
}

/** The same heights, ascending, disjoint, and as few ranges as possible. */
export function united(ranges: readonly HeightRange[]): readonly HeightRange[] {
  const sorted = ranges.filter(({ from, to }) => from <= to).sort((a, b) => a.from - b.from);
  const out: HeightRange[] = [];
  for (const range of sorted) {
    const last = out.at(-1);
    if (last === undefined || range.from > last.to + 1) out.push(range);
    else if (range.to > last.to) out[out.length - 1] = { from: last.from, to: range.to };
  }
  return out;
}

/** What both have. */
export function common(a: readonly HeightRange[], b: readonly HeightRange[]): readonly HeightRange[] {
  return without(a, without(a, b));
}

export function countHeights(ranges: readonly HeightRange[]): number {
  return ranges.reduce((sum, { from, to }) => sum + Math.max(0, to - from + 1), 0);
}

export interface CutOptions {
  readonly order: FillOrder;
  /** Heights at which another spork begins, or none is served: no range has heights on both sides. */
  readonly borders: readonly number[];
  /** Default: the most that the store takes. */
  readonly maxHeights?: number | undefined;
}

/** The next range to run, at the upper or lower end of what is missing; `undefined` when nothing is. */
export function cutNext(
  missing: readonly HeightRange[],
  { order, borders, maxHeights = MAX_RANGE_HEIGHTS }: CutOptions,
): HeightRange | undefined {
  const holes = united(missing);
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
