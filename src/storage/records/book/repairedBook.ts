import { OperatorError } from '../../../runtime/index.js';
import { MAX_PLANS, type BackfillPlan } from '../../port/RangeBook.js';
import type { HeightRange, StoreMeta } from '../../port/stored.js';
import { atMost, joined, rangeOf, rangesInWords, upTo, within, without } from '../heightRanges.js';
import type { HeightRanges } from '../heightRanges.js';
import { rewound } from '../accountCoverage.js';
import { coverageOfBook, emptyState, isCovered, liveRange } from './StoreBook.js';
import type { OpenState, StoreBook, StoreState } from './StoreBook.js';
import { settled } from './changeBook.js';

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
export function repairedBook(before: StoreBook, damaged: HeightRanges, lastPlan = 0): RepairedBook {
  const { accounts, latestIndexedHeight, meta } = before;
  const covered = coverageOfBook(before);
  const left = without(covered, damaged);
  const live = left.pop() ?? { from: meta.firstHeight, to: meta.firstHeight - 1 };
  const holes = without(upTo(covered, live.from - 1), left);
  const isSameTop = live.to === latestIndexedHeight;
  const entered = accounts && (isSameTop ? accounts : rewound(accounts, live.to));
  const book = settled({
    ...before,
    ...(isSameTop ? { meta: { ...meta, firstHeight: live.from } } : liveAt(meta, live)),
    published: left,
    plans: withHoles(before.plans, holes, lastPlan),
    open: before.open.filter(({ to }) => to < live.from).map((each) => repairedOpen(each, damaged)),
    accounts: entered && without(entered, upTo(damaged, live.to)),
  });
  return { book, holes };
}

/** Without the damaged heights below the watermark, which become planned holes; `undefined`: there is none. */
export function healedBook(before: StoreBook, damaged: HeightRanges, lastPlan = 0): RepairedBook | undefined {
  const below = upTo(damaged, before.latestIndexedHeight - 1);
  const lost = coverageOfBook(before).flatMap((range) => within(below, range));
  return lost.length === 0 ? undefined : repairedBook(before, lost, lastPlan);
}

/** A new live range, whose blocks the next load reads. `kept`: the highest height that is kept. */
function liveAt(meta: StoreMeta, { from, to }: HeightRange, kept = to): StoreState {
  // A spork whose root is removed will be recorded again; the first one stays.
  const sporks = meta.sporks.filter(({ rootHeight }) => rootHeight <= Math.max(kept, from));
  return emptyState({ ...meta, firstHeight: from, sporks }, to + 1);
}

function repairedOpen(open: OpenState, damaged: HeightRanges): OpenState {
  const lowest = within(damaged, open)[0]?.from;
  return lowest === undefined ? open : { ...open, next: Math.min(open.next, lowest), keep: undefined };
}

/** The heights that were damaged and are being filled again. */
export function healingIn(plans: readonly BackfillPlan[], coverage: HeightRanges): HeightRanges {
  const healed = plans.filter(({ heals }) => heals === true);
  return without(healed, coverage);
}

/**
 * A plan for each hole. If there are too many, all holes are planned again, with one plan for several that are close
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
  const wanted = isRoom ? holes : atMost(MAX_PLANS, joined([...healing, ...holes]));
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
export function keeps(before: StoreBook, after: StoreBook, height: number): boolean {
  const { latestIndexedHeight, open } = after;
  if (height > latestIndexedHeight) return latestIndexedHeight === before.latestIndexedHeight;
  return isCovered(after, height) || rangeOf(open, height) !== undefined;
}

/**
 * The book after a rewind, and the height above which everything is removed. Expected errors: `OperatorError` (`usage`) if
 * nothing would remain, or `height` is not a height.
 */
export function rewoundBook(
  book: StoreBook,
  height: number,
): { readonly after: StoreBook; readonly target: number } {
  const live = liveRange(book);
  const isHeight = Number.isSafeInteger(height);
  if (isHeight && (height >= live.from || (height === live.from - 1 && book.published.length === 0))) {
    const left = { from: live.from, to: Math.min(live.to, height) };
    return { after: withLive(book, left, book.published, height), target: height };
  }
  const kept = isHeight ? upTo(book.published, height) : [];
  const last = kept.pop();
  if (last === undefined) throw rewindRefusal(joined([...book.published, live]), live.from, height);
  return { after: withLive(book, last, kept, last.to), target: last.to };
}

/**
 * The book when `range` is the live one and nothing above `target` is kept. The next load corrects its blocks, plans and
 * version: until the rewind is done, the version stays.
 */
function withLive(
  book: StoreBook,
  range: HeightRange,
  published: StoreBook['published'],
  target: number,
): StoreBook {
  const open = book.open.filter(({ to }) => to < range.from);
  const isAbove = book.plans.some(({ to }) => to > target);
  const plans = isAbove ? upTo(book.plans, target) : book.plans;
  const unproven = upTo(book.unproven, target);
  return { ...book, ...liveAt(book.meta, range, target), published, plans, open, unproven };
}

/** Why a store with this coverage cannot be rewound to a height. */
function rewindRefusal(coverage: HeightRanges, firstHeight: number, height: number): OperatorError {
  const isOneRange = coverage.every(({ from }) => from >= firstHeight);
  const advice = isOneRange
    ? `this store begins at height ${firstHeight}. The lowest height to rewind to is ${firstHeight - 1}, which forgets ` +
      'every block.'
    : `this store holds heights ${rangesInWords(coverage)}, and nothing at or below ${height}. Name a height in one of ` +
      'them.';
  return new OperatorError('usage', `Cannot rewind to height ${height}: ${advice}`);
}
