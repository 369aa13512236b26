/** Heights whose blocks have all their account entries, both ends included. */
export interface CoveredRange {
  readonly from: number;
  /** OPEN_END: every durable block from `from` on, present and future. */
  readonly to: number;
}

/**
 * The heights that the account index covers: ascending ranges, at least one height apart. Entries of other heights may
 * exist; nothing is promised about them except that their block exists.
 */
export type Coverage = readonly CoveredRange[];

export const OPEN_END = Number.MAX_SAFE_INTEGER;

/**
 * More arise only by switching the index off and on again and again before it is built: the shortest range is dropped.
 */
const MAX_RANGES = 16;

/** True while every commit also writes account entries. */
export function isLive(coverage: Coverage | undefined): boolean {
  return coverage?.at(-1)?.to === OPEN_END;
}

export function covers(coverage: Coverage | undefined, height: number): boolean {
  return coverage?.some(({ from, to }) => height >= from && height <= to) === true;
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

/**
 * Closes the open range: from now on blocks have no entries, and durable blocks above the watermark are not claimed.
 */
export function closed(coverage: Coverage, watermark: number): Coverage {
  return coverage.flatMap((range) => {
    if (range.to !== OPEN_END) return [range];
    return range.from <= watermark ? [{ from: range.from, to: watermark }] : [];
  });
}

/** What is left when no block above `target` is. */
export function rewound(coverage: Coverage, target: number): Coverage {
  const kept = coverage.flatMap(({ from, to }) => {
    if (to === OPEN_END) return [{ from: Math.min(from, target + 1), to }];
    return from <= target ? [{ from, to: Math.min(to, target) }] : [];
  });
  return joined(kept);
}

/** The live range now reaches down to `from`. */
export function extended(coverage: Coverage, from: number): Coverage {
  return joined([...coverage.slice(0, -1), { from, to: OPEN_END }]);
}

/** The highest heights missing below the live range; `undefined` when it covers everything from `firstHeight`. */
export function nextHole(coverage: Coverage, firstHeight: number): CoveredRange | undefined {
  const live = coverage.at(-1);
  if (live === undefined || live.from <= firstHeight) return undefined;
  const below = coverage.at(-2);
  return { from: below === undefined ? firstHeight : below.to + 1, to: live.from - 1 };
}

/** Heights below the live range that no range covers. */
export function missingHeights(coverage: Coverage, firstHeight: number): number {
  const live = coverage.at(-1);
  if (live === undefined) return 0;
  const covered = coverage.slice(0, -1).reduce((sum, range) => sum + heightsOf(range), 0);
  return Math.max(0, live.from - firstHeight - covered);
}

function heightsOf({ from, to }: CoveredRange): number {
  return to - from + 1;
}

/** Merges neighbours. */
function joined(ranges: Coverage): Coverage {
  const result: CoveredRange[] = [];
  for (const range of ranges) {
    const last = result.at(-1);
    if (last !== undefined && range.from <= last.to + 1) {
      result[result.length - 1] = { from: last.from, to: Math.max(last.to, range.to) };
    } else result.push(range);
  }
  return result;
}
