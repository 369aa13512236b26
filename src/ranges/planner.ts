import { joined, MAX_RANGE_HEIGHTS, slicesOf, within, without, type HeightRange } from '../storage/index.js';
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
  const there = joined(a);
  return joined(b).flatMap((range) => within(there, range));
}

/** Between two borders each, ascending; together they cover all heights. */
export function spansBetween(borders: readonly number[]): readonly HeightRange[] {
  const firsts = [...new Set([0, ...borders])].sort((a, b) => a - b);
  return firsts.map((from, at) => ({ from, to: (firsts[at + 1] ?? Number.MAX_SAFE_INTEGER) - 1 }));
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

/** Cuts all missing heights into ranges, ascending; always from the bottom, so that two processes cut the same hole the same way. */
export function cutAll(
  missing: readonly HeightRange[],
  { borders, maxHeights = MAX_RANGE_HEIGHTS }: Pick<Cutting, 'borders' | 'maxHeights'>,
): readonly HeightRange[] {
  return [...slicesOf(splitAt(borders, missing), maxHeights)];
}

/** The next range to run, at the upper or lower end of the missing heights; `undefined` when none is missing. */
export function cutNext(
  missing: readonly HeightRange[],
  { order, borders, maxHeights = MAX_RANGE_HEIGHTS }: Cutting,
): HeightRange | undefined {
  const hole = splitAt(borders, missing).at(order === 'newest' ? -1 : 0);
  if (hole === undefined) return undefined;
  const { from, to } = hole;
  return order === 'newest'
    ? { from: Math.max(from, to - maxHeights + 1), to }
    : { from, to: Math.min(to, from + maxHeights - 1) };
}

function splitAt(borders: readonly number[], heights: readonly HeightRange[]): readonly HeightRange[] {
  const all = joined(heights);
  return spansBetween(borders).flatMap((span) => within(all, span));
}
