import type { HeightRange } from '../port/stored.js';
import { contains, joined, upTo, without, type HeightRanges } from './heightRanges.js';

/**
 * The heights that the account index covers, whose blocks have all their account entries: ascending ranges, at least one
 * height apart. The last `to` may be OPEN_END: every durable block from `from` on, present and future. Entries of other
 * heights may exist; nothing is promised about them except that their block exists.
 */
export type Coverage = HeightRanges;

export const OPEN_END = Number.MAX_SAFE_INTEGER;

/**
 * There are more only after switching the index off and on many times before it is built: then the shortest is dropped.
 */
const MAX_RANGES = 16;

/** True while every commit also writes account entries. */
export function isLive(coverage: Coverage | undefined): boolean {
  return coverage?.at(-1)?.to === OPEN_END;
}

export function covers(coverage: Coverage | undefined, height: number): boolean {
  return coverage !== undefined && contains(coverage, height);
}

/** Opens a range at `next`, which is above every durable height: from now on every block has its entries. */
export function opened(coverage: Coverage, next: number): Coverage {
  if (isLive(coverage)) return coverage;
  const ranges = joined([...coverage, { from: next, to: OPEN_END }]);
  if (ranges.length <= MAX_RANGES) return ranges;
  const closed = ranges.slice(0, -1);
  const shortest = Math.min(...closed.map(heightsOf));
  return ranges.filter((range) => range !== closed.find((each) => heightsOf(each) === shortest));
}

/** Closes the open range: from now on blocks have no entries, and durable blocks above the watermark are not claimed. */
export function closed(coverage: Coverage, watermark: number): Coverage {
  return isLive(coverage) ? upTo(coverage, watermark) : coverage;
}

/** The coverage after a rewind to `target`. */
export function rewound(coverage: Coverage, target: number): Coverage {
  const kept = upTo(coverage, target);
  const live = coverage.at(-1);
  if (live?.to !== OPEN_END) return kept;
  return joined([...kept, { from: Math.min(live.from, target + 1), to: OPEN_END }]);
}

/** The uncovered heights from `firstHeight` up to the live range: none when it covers everything from there. */
export function missingBelow(coverage: Coverage, firstHeight: number): HeightRange[] {
  const live = coverage.at(-1);
  if (live === undefined || live.from <= firstHeight) return [];
  return without([{ from: firstHeight, to: live.from - 1 }], coverage);
}

export function heightsOf({ from, to }: HeightRange): number {
  return to - from + 1;
}
