import type { Status } from '../types.js';

/** Kinds of stretches of the chain; where they overlap, the first applies. */
export const segmentKinds = [
  'failed',
  'disputed',
  'filling',
  'begun',
  'indexed',
  'next',
  'unserved',
  'planned',
  'missing',
] as const;
export type SegmentKind = (typeof segmentKinds)[number];

export interface Segment {
  readonly from: number;
  readonly to: number;
  readonly kind: SegmentKind;
}

/** Narrower gaps between stretches of one kind are not drawn; a share of the whole. */
const SMALLEST_GAP = 1 / 1_000;

interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** The chain as far as it is known: from the lowest height that is served, planned or indexed to the head. */
export function chainOf({
  backfill,
  coverage,
  head,
  latestIndexed,
  lowestServed,
}: Status): Stretch | undefined {
  const first = coverage[0]?.from;
  const from = Math.min(
    ...[lowestServed ?? Infinity, first ?? Infinity],
    ...backfill.plans.map((plan) => plan.from),
  );
  const to = Math.max(head ?? -Infinity, latestIndexed ?? -Infinity);
  return Number.isFinite(from) && Number.isFinite(to) && from <= to ? { from, to } : undefined;
}

/** The chain cut into stretches of one kind, from its first height to its last. */
export function segmentsOf(status: Status): readonly Segment[] {
  const chain = chainOf(status);
  if (chain === undefined) return [];
  const { backfill, coverage, firstIndexed, latestIndexed } = status;
  const kindOf = { waiting: 'begun', running: 'filling', failed: 'failed', disputed: 'disputed' } as const;
  const nextFrom = (latestIndexed ?? (firstIndexed ?? Infinity) - 1) + 1;
  const stretches: readonly Segment[] = [
    ...backfill.ranges.map(({ from, to, state }) => ({ from, to, kind: kindOf[state] })),
    ...coverage.map(({ from, to }) => ({ from, to, kind: 'indexed' as const })),
    ...(nextFrom <= chain.to ? [{ from: nextFrom, to: chain.to, kind: 'next' as const }] : []),
    ...backfill.unserved.map(({ from, to }) => ({ from, to, kind: 'unserved' as const })),
    ...backfill.plans.map(({ from, to }) => ({ from, to, kind: 'planned' as const })),
    { ...chain, kind: 'missing' },
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
    const kind = segmentKinds.find((each) => open.some((stretch) => stretch.kind === each)) ?? 'missing';
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
