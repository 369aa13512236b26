import { MAX_PLANS } from '../../port/RangeBook.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { HeightRange } from '../../port/stored.js';
import { contains, joined, rangeOf, upTo, within, withinGap, without } from '../heightRanges.js';
import type { HeightRanges } from '../heightRanges.js';
import { emptyLine, settled } from './changeBook.js';
import { coverageOfBook } from './StoreBook.js';
import type { OpenState, StoreBook, StoreState } from './StoreBook.js';

/** What remains of a store without its damaged heights. */
export interface RepairedBook {
  readonly book: StoreBook;
  /** The covered heights that are lost, below the live range. */
  readonly holes: HeightRanges;
}

/**
 * The live range is what remains of the highest range. Heights lost below it become plans, newest first; heights lost
 * above it are indexed again by following the head. `lastPlan`: plan ids up to this one are in use.
 */
export function repairedBook(
  before: StoreBook,
  damaged: HeightRanges,
  { lastPlan = 0 }: { readonly lastPlan?: number } = {},
): RepairedBook {
  const { meta } = before.live;
  const covered = coverageOfBook(before);
  const left = without(covered, damaged);
  const live = left.pop() ?? { from: meta.firstHeight, to: meta.firstHeight - 1 };
  const holes = without(upTo(covered, live.from - 1), left);
  const open = before.open
    .filter(({ record }) => record.to < live.from)
    .map((each) => repairedOpen(each, damaged));
  return {
    book: settled({
      live: repairedLive(before.live, live),
      published: left,
      plans: withHoles(before.plans, holes, lastPlan),
      open,
      hasAccounts: before.hasAccounts,
      unproven: before.unproven,
    }),
    holes,
  };
}

/** Without the damaged heights below the watermark, which become planned holes; `undefined`: there is none. */
export function healedBook(
  before: StoreBook,
  damaged: HeightRanges,
  options?: { readonly lastPlan?: number },
): RepairedBook | undefined {
  const below = upTo(damaged, before.live.latestIndexedHeight - 1);
  const lost = coverageOfBook(before).flatMap((range) => within(below, range));
  return lost.length === 0 ? undefined : repairedBook(before, lost, options);
}

function repairedLive(before: StoreState, { from, to }: HeightRange): StoreState {
  const { meta } = before;
  if (to === before.latestIndexedHeight) return { ...before, meta: { ...meta, firstHeight: from } };
  const kept = Math.max(to, from);
  const sporks = meta.sporks.filter(({ rootHeight }) => rootHeight <= kept);
  return { ...emptyLine(0), latestIndexedHeight: to, meta: { ...meta, firstHeight: from, sporks } };
}

function repairedOpen(open: OpenState, damaged: HeightRanges): OpenState {
  const { record, line } = open;
  const { from, to, next } = record;
  const lowest = within(damaged, { from, to })[0]?.from;
  if (lowest === undefined) return open;
  return { record: { ...record, next: Math.min(next, lowest), keep: undefined }, line };
}

/** The heights that were damaged and are being filled again. */
export function healingIn(plans: readonly BackfillPlan[], coverage: HeightRanges): HeightRanges {
  return without(joined(plans.filter(({ heals }) => heals === true)), coverage);
}

/**
 * A plan for each hole. If there are too many, all holes are planned anew, with one plan for several that are close
 * together.
 */
function withHoles(
  plans: readonly BackfillPlan[],
  holes: HeightRanges,
  lastPlan: number,
): readonly BackfillPlan[] {
  const healing = plans.filter(({ heals }) => heals === true);
  const isRoom = healing.length + holes.length <= MAX_PLANS;
  const kept = isRoom ? plans : plans.filter(({ heals }) => heals !== true);
  let wanted = isRoom ? holes : joined([...healing, ...holes]);
  for (let gap = 2; wanted.length > MAX_PLANS; gap *= 2) wanted = withinGap(wanted, gap);
  const next = Math.max(plans.at(-1)?.id ?? 0, lastPlan) + 1;
  const added = wanted.map(({ from, to }, index) => ({
    id: next + index,
    from,
    to,
    order: 'newest' as const,
    isPaused: false,
    heals: true,
  }));
  return [...kept, ...added];
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
