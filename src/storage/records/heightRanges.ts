import type { HeightRange } from '../port/stored.js';

/** Ascending ranges that neither overlap nor touch. */
export type HeightRanges = readonly HeightRange[];

export function rangeOf<Range extends HeightRange>(
  ranges: readonly Range[],
  height: number,
): Range | undefined {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranges[middle] as Range).to < height) low = middle + 1;
    else high = middle;
  }
  const range = ranges[low];
  return range !== undefined && range.from <= height ? range : undefined;
}

/** False for anything that is not a height. */
export function contains(ranges: HeightRanges, height: number): boolean {
  return Number.isSafeInteger(height) && rangeOf(ranges, height) !== undefined;
}

/** All heights of the ranges, which may be in any order. */
export function joined(ranges: readonly HeightRange[]): HeightRange[] {
  const result: HeightRange[] = [];
  for (const range of [...ranges].sort((left, right) => left.from - right.from)) {
    const last = result.at(-1);
    if (range.to < range.from) continue;
    if (last !== undefined && range.from <= last.to + 1) {
      result[result.length - 1] = { from: last.from, to: Math.max(last.to, range.to) };
    } else result.push({ from: range.from, to: range.to });
  }
  return result;
}

/** The ranges of some heights. */
export function rangesAt(heights: Iterable<number>): HeightRange[] {
  return joined([...heights].map((height) => ({ from: height, to: height })));
}

/** The heights of `ranges` that are not in `removed`; both may be in any order. */
export function without(ranges: readonly HeightRange[], removed: readonly HeightRange[]): HeightRange[] {
  const gaps = joined(removed);
  return joined(ranges).flatMap((range) => {
    const left: HeightRange[] = [];
    let { from } = range;
    for (const gap of gaps) {
      if (gap.to < from || gap.from > range.to) continue;
      if (gap.from > from) left.push({ from, to: gap.from - 1 });
      from = gap.to + 1;
    }
    if (from <= range.to) left.push({ from, to: range.to });
    return left;
  });
}

/** The heights of `ranges` that are in a range. */
export function within(ranges: HeightRanges, { from, to }: HeightRange): HeightRange[] {
  return upTo(ranges, to)
    .map((range) => ({ from: Math.max(range.from, from), to: range.to }))
    .filter((range) => range.to >= range.from);
}

/** The heights up to a limit. */
export function upTo<R extends HeightRange>(ranges: readonly R[], height: number): R[] {
  return ranges
    .filter(({ from }) => from <= height)
    .map((range) => ({ ...range, to: Math.min(range.to, height) }));
}

export function* heightsIn(ranges: HeightRanges): Generator<number, void> {
  for (const { from, to } of ranges) for (let height = from; height <= to; height += 1) yield height;
}

/** The ranges in parts of at most so many heights. */
export function* slicesOf(ranges: HeightRanges, heights: number): Generator<HeightRange, void> {
  for (const range of ranges)
    for (let { from } = range; from <= range.to; from += heights)
      yield { from, to: Math.min(range.to, from + heights - 1) };
}

/** "5 to 9, 12 and 20 to 30", for messages; of many ranges only the first ones and the last. */
export function rangesInWords(ranges: HeightRanges): string {
  const words = ranges.map(({ from, to }) => (from === to ? String(from) : `${from} to ${to}`));
  const last = words.pop() ?? 'none';
  if (words.length === 0) return last;
  const some = words.length < MAX_WORDS ? words : [...words.slice(0, MAX_WORDS - 1), '…'];
  return `${some.join(', ')} and ${last}`;
}

/** Most ranges listed in a message. */
const MAX_WORDS = 8;

/** At most `max` ascending ranges: if there are more, those that are closest together become one. */
export function atMost(max: number, ranges: HeightRanges): HeightRange[] {
  let left = [...ranges];
  for (let gap = 2; left.length > max; gap *= 2) {
    const wider = joined(left.map(({ from, to }) => ({ from, to: to + gap })));
    left = wider.map(({ from, to }) => ({ from, to: to - gap }));
  }
  return left;
}

export function overlap(left: HeightRange, right: HeightRange): boolean {
  return left.from <= right.to && right.from <= left.to;
}
