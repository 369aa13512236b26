import { joined, type HeightRange } from '../../storage/index.js';

/** The readable heights, and the heads beyond them. `null`: not known yet. */
export interface IndexedRange {
  /** The first height of the live range, which ends at `latestIndexed` and has no holes. */
  readonly firstIndexed: number | null;
  /** The watermark; `firstIndexed - 1` while nothing is indexed. */
  readonly latestIndexed: number | null;
  readonly head: number | null;
  readonly sealed: number | null;
  /** Everything that can be read: ascending ranges that do not touch. Absent: only the live range. */
  readonly coverage?: readonly HeightRange[];
  /** Damaged heights that are being fetched again. Absent: none. */
  readonly healing?: readonly HeightRange[] | undefined;
  /** The heights whose ids and finality are proven; empty while none are. Absent: this daemon does not prove finality. */
  readonly proven?: HeightRange | undefined;
  /** Indexed, but not readable until proven final. Absent: nothing. */
  readonly awaitsProof?: readonly HeightRange[] | undefined;
}

/** The ranges that can be read, ascending. */
export function coverageOf(range: IndexedRange): readonly HeightRange[] {
  if (range.coverage !== undefined) return range.coverage;
  const latest = lastReadable(range);
  return range.firstIndexed === null || latest === null ? [] : [{ from: range.firstIndexed, to: latest }];
}

/** The range that a height is in, if it can be read. */
export function rangeWith(height: number, range: IndexedRange): HeightRange | undefined {
  return coverageOf(range).find(({ from, to }) => height >= from && height <= to);
}

/** The lowest height of those up to the live range without a gap, but for heights that heal. */
export function firstLinked(firstIndexed: number, range: IndexedRange): number {
  const coverage = joined([...coverageOf(range), ...(range.healing ?? [])]);
  return rangeWith(firstIndexed, { ...range, coverage })?.from ?? firstIndexed;
}

/** Whether a height that cannot be read is indexed, and not proven final yet. */
export function awaitsProof(height: number, range: IndexedRange): boolean {
  const isReadable = rangeWith(height, range) !== undefined;
  return !isReadable && range.awaitsProof?.some(({ from, to }) => height >= from && height <= to) === true;
}

/** The range for a caller that wants proven blocks only: no other height is readable. */
export function provenOnly(range: IndexedRange): IndexedRange {
  const { firstIndexed, latestIndexed, proven } = range;
  if (firstIndexed === null || latestIndexed === null) return range;
  const { from, to } = proven ?? { from: firstIndexed, to: firstIndexed - 1 };
  const awaitsProof = [...coverageOf(range), ...(range.awaitsProof ?? [])];
  const coverage = to < from ? [] : [{ from, to }];
  return { ...range, firstIndexed: from, latestIndexed: to, awaitsProof, coverage };
}

export function isProven(height: number, { proven }: Pick<IndexedRange, 'proven'>): boolean {
  return proven !== undefined && height >= proven.from && height <= proven.to;
}

/**
 * The last readable height, as shown to callers: `null` while nothing is indexed. (Internally, an empty store that begins at
 * height 0 ends at -1.)
 */
export function lastReadable({
  firstIndexed,
  latestIndexed,
}: Pick<IndexedRange, 'firstIndexed' | 'latestIndexed'>): number | null {
  return firstIndexed !== null && latestIndexed !== null && latestIndexed >= firstIndexed
    ? latestIndexed
    : null;
}
