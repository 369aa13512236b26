/** Heights whose blocks have all their account entries, both ends included. */
export interface CoveredRange {
  readonly from: number;
  /** OPEN_END: of every durable block from `from` on, whenever it comes. */
  readonly to: number;
}

/**
 * Which heights the account index covers: ranges that ascend and leave a height or more between them. Entries of other
 * heights may be there; nothing is said of them, but that their block is.
 */
export type Coverage = readonly CoveredRange[];

export const OPEN_END = Number.MAX_SAFE_INTEGER;

/** More are made only by switching the index off and on before it was built, again and again: the shortest is given up. */
const MAX_RANGES = 16;

/** True while every block that is committed has its entries written along. */
export function isLive(coverage: Coverage | undefined): boolean {
  return coverage?.at(-1)?.to === OPEN_END;
}

export function covers(coverage: Coverage | undefined, height: number): boolean {
  return coverage?.some(({ from, to }) => height >= from && height <= to) === true;
}

/** From now on every block has its entries. `next`: above every height that is durable. */
export function opened(coverage: Coverage, next: number): Coverage {
  if (isLive(coverage)) return coverage;
  const ranges = joined([...coverage, { from: next, to: OPEN_END }]);
  if (ranges.length <= MAX_RANGES) return ranges;
  const closed = ranges.slice(0, -1);
  const shortest = Math.min(...closed.map(heightsOf));
  return ranges.filter((range) => range !== closed.find((each) => heightsOf(each) === shortest));
}

/** From now on blocks have no entries: what is durable above the watermark is not claimed. */
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

/** The live range reaches down to `from` now. */
export function extended(coverage: Coverage, from: number): Coverage {
  return joined([...coverage.slice(0, -1), { from, to: OPEN_END }]);
}

/** The highest heights that the live range does not reach down to yet; `undefined` when it covers all from `firstHeight`. */
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

/** Neighbours become one. */
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
