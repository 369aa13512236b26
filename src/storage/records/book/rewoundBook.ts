import { OperatorError } from '../../../runtime/index.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { HeightRange } from '../../port/stored.js';
import { rangesInWords, upTo } from '../heightRanges.js';
import type { HeightRanges } from '../heightRanges.js';
import { emptyLine } from './changeBook.js';
import type { StoreBook } from './StoreBook.js';

/** The book after a rewind, and the height above which everything is removed; `undefined` if nothing would remain. */
export function rewoundBook(
  book: StoreBook,
  height: number,
): { readonly after: StoreBook; readonly target: number } | undefined {
  const { live, published } = book;
  const { firstHeight } = live.meta;
  const keepsLive = height >= firstHeight || (height === firstHeight - 1 && published.length === 0);
  if (keepsLive) {
    const to = Math.min(live.latestIndexedHeight, height);
    return { after: withLive(book, { from: firstHeight, to }, book.published, height), target: height };
  }
  const kept = upTo(published, height);
  const last = kept.pop();
  return last && { after: withLive(book, last, kept, last.to), target: last.to };
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
  const { meta } = book.live;
  // A spork whose root is removed will be recorded again; the first one stays.
  const kept = Math.max(target, range.from);
  const sporks = meta.sporks.filter(({ rootHeight }) => rootHeight <= kept);
  const open = book.open.filter(({ record }) => record.to < range.from);
  const isAbove = book.plans.some(({ to }) => to > target);
  const plans = isAbove ? book.plans.flatMap((plan) => planUpTo(plan, target)) : book.plans;
  const live = {
    ...emptyLine(0),
    latestIndexedHeight: range.to,
    meta: { ...meta, firstHeight: range.from, sporks },
  };
  return { ...book, published, plans, open, live, unproven: upTo(book.unproven, target) };
}

/** Why a store with this coverage cannot be rewound to a height. */
export function rewindRefusal(
  { coverage, firstHeight }: { readonly coverage: HeightRanges; readonly firstHeight: number },
  height: number,
): OperatorError {
  const isOneRange = coverage.every(({ from }) => from >= firstHeight);
  const advice = isOneRange
    ? `this store begins at height ${firstHeight}. The lowest height to rewind to is ${firstHeight - 1}, which forgets ` +
      'every block.'
    : `this store holds heights ${rangesInWords(coverage)}, and nothing at or below ${height}. Name a height in one of ` +
      'them.';
  return new OperatorError('usage', `Cannot rewind to height ${height}: ${advice}`);
}

function planUpTo(plan: BackfillPlan, height: number): readonly BackfillPlan[] {
  return plan.from > height ? [] : [{ ...plan, to: Math.min(plan.to, height) }];
}
