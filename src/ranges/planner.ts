import { joined, MAX_RANGE_HEIGHTS, within, type HeightRange } from '../storage/index.js';
import type { FillOrder } from './ports.js';

/** The heights in both. */
export function common(a: readonly HeightRange[], b: readonly HeightRange[]): readonly HeightRange[] {
  const present = joined(a);
  return joined(b).flatMap((range) => within(present, range));
}

/** The ranges between neighbouring borders, ascending; together they cover all heights. */
export function spansBetween(borders: readonly number[]): readonly HeightRange[] {
  const firsts = [...new Set([0, ...borders])].sort((a, b) => a - b);
  return firsts.map((from, at) => ({ from, to: (firsts[at + 1] ?? Number.MAX_SAFE_INTEGER) - 1 }));
}

export function countHeights(ranges: readonly HeightRange[]): number {
  return ranges.reduce((sum, { from, to }) => sum + Math.max(0, to - from + 1), 0);
}

/** The next range to run, at the upper or lower end of the missing heights; `undefined` when none is missing. */
export function cutNext(
  missing: readonly HeightRange[],
  how: {
    readonly order: FillOrder;
    /** Heights at which a spork begins: no range crosses one. */
    readonly borders?: readonly number[];
    /** Default: the maximum of the store. */
    readonly maxHeights?: number | undefined;
  },
): HeightRange | undefined {
  const { order, borders = [], maxHeights = MAX_RANGE_HEIGHTS } = how;
  const all = joined(missing);
  const holes = spansBetween(borders).flatMap((span) => within(all, span));
  const hole = holes.at(order === 'newest' ? -1 : 0);
  if (hole === undefined) return undefined;
  const { from, to } = hole;
  return order === 'newest'
    ? { from: Math.max(from, to - maxHeights + 1), to }
    : { from, to: Math.min(to, from + maxHeights - 1) };
}
