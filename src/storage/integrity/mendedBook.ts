import { MAX_PLANS } from '../port/RangeBook.js';
import type { BackfillPlan } from '../port/RangeBook.js';
import { emptyLine, settled } from '../records/book/changeBook.js';
import { coverageOfBook } from '../records/book/StoreBook.js';
import type { OpenState, StoreBook } from '../records/book/StoreBook.js';
import { contains, rangeOf, upTo, within, without } from '../records/heightRanges.js';
import type { HeightRanges } from '../records/heightRanges.js';
import { withinGap } from './verify/DamageList.js';

/** What remains of a store without its damaged heights. */
export interface MendedBook {
  readonly book: StoreBook;
  /** The covered heights that are lost, below the live range. */
  readonly holes: HeightRanges;
}

/**
 * The live range is what remains of the highest range. Heights lost below it become plans, newest first; heights lost
 * above it are indexed again by following the head. `lastPlan`: plan ids up to this one are in use.
 */
export function mendedBook(
  before: StoreBook,
  damaged: HeightRanges,
  { lastPlan = 0 }: { readonly lastPlan?: number } = {},
): MendedBook {
  const { meta } = before.live;
  const covered = coverageOfBook(before);
  const left = without(covered, damaged);
  const live = left.pop() ?? { from: meta.firstHeight, to: meta.firstHeight - 1 };
  const holes = without(upTo(covered, live.from - 1), left);
  const kept = Math.max(live.to, live.from);
  const sporks = meta.sporks.filter(({ rootHeight }) => rootHeight <= kept);
  const open = before.open
    .filter(({ record }) => record.to < live.from)
    .map((each) => mendedOpen(each, damaged));
  return {
    book: settled({
      live: {
        ...emptyLine(0),
        latestIndexedHeight: live.to,
        meta: { ...meta, firstHeight: live.from, sporks },
      },
      published: left,
      plans: withHoles(before.plans, holes, lastPlan),
      open,
      hasAccounts: before.hasAccounts,
      unproven: before.unproven,
    }),
    holes,
  };
}

function mendedOpen({ record, line }: OpenState, damaged: HeightRanges): OpenState {
  const { from, to, next } = record;
  const lowest = within(damaged, { from, to })[0]?.from ?? next;
  return { record: { ...record, next: Math.min(next, lowest), keep: undefined }, line };
}

/** A plan for each hole; if there are too many, one for several holes that are close together. */
function withHoles(
  plans: readonly BackfillPlan[],
  holes: HeightRanges,
  lastPlan: number,
): readonly BackfillPlan[] {
  let wanted = holes;
  const room = Math.max(1, MAX_PLANS - plans.length);
  for (let gap = 2; wanted.length > room; gap *= 2) wanted = withinGap(wanted, gap);
  const next = Math.max(plans.at(-1)?.id ?? 0, lastPlan) + 1;
  const added = wanted.map(({ from, to }, index) => ({
    id: next + index,
    from,
    to,
    order: 'newest' as const,
    isPaused: false,
  }));
  return [...plans, ...added];
}

/**
 * True for a height whose entries may stay: covered heights, heights of open ranges, and those above the watermark if it
 * is unchanged.
 */
export function keeps(before: StoreBook, { live, ...book }: StoreBook, height: number): boolean {
  if (height > live.latestIndexedHeight) return live.latestIndexedHeight === before.live.latestIndexedHeight;
  const open = book.open.map(({ record }) => record);
  return contains(coverageOfBook({ live, ...book }), height) || rangeOf(open, height) !== undefined;
}
