import type { Status } from './daemon.js';

/** Kinds of stretches of the chain, as the page names them; where they overlap, the first applies. */
export const NAMES = {
  failed: 'failed, to be tried again',
  disputed: 'disputed at its borders',
  filling: 'being filled in',
  begun: 'begun, waiting its turn',
  indexed: 'indexed',
  next: 'to be indexed up to the head',
  unserved: 'planned, but not served by any known node',
  planned: 'planned',
  missing: 'not indexed, not planned',
} as const;
type SegmentKind = keyof typeof NAMES;
export const kinds = Object.keys(NAMES) as SegmentKind[];

/** The kind of a range of history, by its state. */
export const kindOf = {
  waiting: 'begun',
  running: 'filling',
  failed: 'failed',
  disputed: 'disputed',
} as const;

interface Stretch {
  readonly from: number;
  readonly to: number;
}

interface Segment extends Stretch {
  readonly kind: SegmentKind;
}

/** Narrower gaps between stretches of one kind are not drawn; a share of the whole. */
const SMALLEST_GAP = 1 / 1_000;

/** The chain as far as it is known: from the lowest height that is served, planned or indexed to the head. */
export function chainOf({
  backfill,
  coverage,
  head,
  latestIndexed,
  lowestServed,
}: Status): Stretch | undefined {
  const firsts = [lowestServed ?? Infinity, ...[...coverage, ...backfill.plans].map(({ from }) => from)];
  const from = Math.min(...firsts);
  const to = Math.max(head ?? -Infinity, latestIndexed ?? -Infinity);
  return Number.isFinite(from) && Number.isFinite(to) && from <= to ? { from, to } : undefined;
}

/** The chain cut into stretches of one kind, from its first height to its last. */
export function segmentsOf(status: Status, chain: Stretch): readonly Segment[] {
  const { backfill, coverage, firstIndexed, latestIndexed } = status;
  const nextFrom = (latestIndexed ?? (firstIndexed ?? Infinity) - 1) + 1;
  const all = (stretches: readonly Stretch[], kind: SegmentKind): readonly Segment[] =>
    stretches.map(({ from, to }) => ({ from, to, kind }));
  const stretches: readonly Segment[] = [
    ...backfill.ranges.map(({ from, to, state }) => ({ from, to, kind: kindOf[state] })),
    ...all(coverage, 'indexed'),
    ...all(nextFrom <= chain.to ? [{ from: nextFrom, to: chain.to }] : [], 'next'),
    ...all(backfill.unserved, 'unserved'),
    ...all(backfill.plans, 'planned'),
    ...all([chain], 'missing'),
  ];
  return joined(cut(stretches, chain), (chain.to - chain.from + 1) * SMALLEST_GAP);
}

/** Cuts overlapping stretches where any of them begins or ends; each piece is of the first kind that covers it. */
function cut(stretches: readonly Segment[], chain: Stretch): readonly Segment[] {
  const starts = new Map<number, Segment[]>();
  const edges = new Set<number>();
  for (const stretch of stretches) {
    const from = Math.max(chain.from, stretch.from);
    if (from > stretch.to || stretch.from > chain.to) continue;
    starts.set(from, [...(starts.get(from) ?? []), stretch]);
    edges.add(from);
    edges.add(Math.min(chain.to, stretch.to) + 1);
  }
  const ascending = [...edges].sort((a, b) => a - b);
  const pieces: Segment[] = [];
  let open: Segment[] = [];
  for (const [index, from] of ascending.entries()) {
    const end = ascending[index + 1];
    if (end === undefined) break;
    open = [...open.filter(({ to }) => to >= from), ...(starts.get(from) ?? [])];
    const kind = kinds.find((each) => open.some((stretch) => stretch.kind === each)) ?? 'missing';
    pieces.push({ from, to: end - 1, kind });
  }
  return pieces;
}

/** Joins neighbours of one kind, also across a small gap. */
function joined(pieces: readonly Segment[], smallestGap: number): readonly Segment[] {
  const segments: Segment[] = [];
  for (const piece of pieces) {
    const [before, last] = [segments.at(-2), segments.at(-1)];
    const isSmall = last !== undefined && last.to - last.from + 1 < smallestGap && last.kind === 'missing';
    if (last?.kind === piece.kind) segments[segments.length - 1] = { ...last, to: piece.to };
    else if (isSmall && before?.kind === piece.kind) {
      segments.splice(-2, 2, { ...before, to: piece.to });
    } else segments.push(piece);
  }
  return segments;
}
