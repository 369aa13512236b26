import type { BackfillPlan, HeightRange, SporkRecord } from '../IndexStore.js';
import type { WriteBatch } from '../records/Database.js';
import {
  encodeCoverage,
  encodeMeta,
  encodeOpenRecord,
  encodePlans,
  encodeProgress,
} from '../records/codecs.js';
import type { OpenRecord } from '../records/codecs.js';
import { contains, joined, upTo, without } from '../records/heightRanges.js';
import {
  META_KEY,
  openKey,
  PLANS_KEY,
  PROGRESS_KEY,
  PUBLISHED_KEY,
  schemaVersionOf,
  seal,
} from '../records/schema.js';
import { coverageOfBook } from '../records/storeState.js';
import type { LineState, OpenState, StoreBook, StoreState } from '../records/storeState.js';

/** Puts every record that changes with the book. `before` is `undefined` for a new store. */
export function putChanges(before: StoreBook | undefined, after: StoreBook, batch: WriteBatch): void {
  const { live, published, plans, open } = after;
  const put = (key: Buffer, payload: Buffer): void => batch.put(key, seal(key, payload));
  const putList = (key: Buffer, list: readonly unknown[], payload: Buffer): void => {
    if (list.length > 0) put(key, payload);
    else if (before !== undefined) batch.del(key);
  };
  if (live.meta !== before?.live.meta) put(META_KEY, encodeMeta(live.meta));
  if (live.latestIndexedHeight !== before?.live.latestIndexedHeight) {
    put(PROGRESS_KEY, encodeProgress(live.latestIndexedHeight));
  }
  if (published !== before?.published) putList(PUBLISHED_KEY, published, encodeCoverage(published));
  if (plans !== before?.plans) putList(PLANS_KEY, plans, encodePlans(plans));
  if (open === before?.open) return;
  const records = new Set(before?.open.map(({ record }) => record));
  for (const { record } of open)
    if (!records.has(record)) put(openKey(record.from), encodeOpenRecord(record));
  const left = new Set(open.map(({ record }) => record.from));
  for (const { from } of records) if (!left.has(from)) batch.del(openKey(from));
}

/** Without completed plans, and with the schema version for what remains. */
export function settled(book: StoreBook): StoreBook {
  const missing = book.plans.filter((plan) => holesOf(book, plan).length > 0);
  const plans = missing.length === book.plans.length ? book.plans : missing;
  const { hasAccounts, published, open, live } = book;
  const ranges = published.length + plans.length + open.length > 0;
  const schemaVersion = schemaVersionOf({ accounts: hasAccounts, ranges });
  if (plans === book.plans && schemaVersion === live.meta.schemaVersion) return book;
  return { ...book, plans, live: { ...live, meta: { ...live.meta, schemaVersion } } };
}

/**
 * The heights of a range below the live one that are not covered. Those above it are not a hole: the live range grows.
 */
function holesOf(book: StoreBook, { from, to }: HeightRange): HeightRange[] {
  return without([{ from, to: Math.min(to, book.live.meta.firstHeight - 1) }], coverageOfBook(book));
}

export function openAt({ open }: StoreBook, { from, to }: HeightRange): OpenState | undefined {
  return open.find(({ record }) => record.from === from && record.to === to);
}

/** Adds an open range, or replaces the one with the same first height. */
export function withOpen(book: StoreBook, open: OpenState): StoreBook {
  const others = book.open.filter(({ record }) => record.from !== open.record.from);
  return { ...book, open: [...others, open].sort((left, right) => left.record.from - right.record.from) };
}

export function withoutOpen(book: StoreBook, from: number): StoreBook {
  return { ...book, open: book.open.filter(({ record }) => record.from !== from) };
}

/** The state of an open range as its line sees it. */
export function stateOfOpen({ live }: StoreBook, { record, line }: OpenState): StoreState {
  const sporks = bothSporks(live.meta.sporks, record.sporks);
  return { ...line, meta: { ...live.meta, firstHeight: record.from, sporks } };
}

/** The open range after a commit. */
export function openAfter(book: StoreBook, { record }: OpenState, state: StoreState): OpenState {
  const known = new Set(book.live.meta.sporks);
  const { latestIndexedHeight, latestBlock, above, damaged } = state;
  return {
    record: {
      ...record,
      next: latestIndexedHeight + 1,
      sporks: state.meta.sporks.filter((spork) => !known.has(spork)),
    },
    line: { latestIndexedHeight, latestBlock, above, damaged },
  };
}

/** The line of a range of which nothing is durable. */
export function emptyLine(from: number): LineState {
  return { latestIndexedHeight: from - 1, latestBlock: undefined, above: new Map(), damaged: false };
}

export function newRecord({ from, to }: HeightRange, hasAccounts: boolean): OpenRecord {
  const unset = { failures: 0, reason: undefined, sporks: [], keep: undefined, isDropped: false };
  return { from, to, next: from, hasAccounts, ...unset };
}

/** Later blocks of the range have no account entries. */
export function withoutEntries(open: OpenState): OpenState {
  const { record } = open;
  return record.hasAccounts ? { ...open, record: { ...record, hasAccounts: false } } : open;
}

/** A complete open range becomes covered, and part of the live range if it touches that. */
export function withPublished(book: StoreBook, open: OpenState): StoreBook {
  const { from, to } = open.record;
  const published = joined([...book.published, { from, to }]);
  const { meta } = book.live;
  const sporks = bothSporks(meta.sporks, open.record.sporks);
  const last = published.at(-1);
  const touches = last?.to === meta.firstHeight - 1;
  const firstHeight = touches ? last.from : meta.firstHeight;
  const live = { ...book.live, meta: { ...meta, firstHeight, sporks } };
  return settled({
    ...withoutOpen(book, from),
    ...{ live, published: touches ? published.slice(0, -1) : published },
  });
}

/** Ascending; of two records of a spork, the one that says more about its root. */
function bothSporks(sporks: readonly SporkRecord[], others: readonly SporkRecord[]): readonly SporkRecord[] {
  if (others.length === 0) return sporks;
  const byRoot = new Map(sporks.map((spork) => [spork.rootHeight, spork]));
  for (const spork of others) {
    const known = byRoot.get(spork.rootHeight);
    if (known === undefined || known.rootParentId === undefined) byRoot.set(spork.rootHeight, spork);
  }
  return [...byRoot.values()].sort((left, right) => left.rootHeight - right.rootHeight);
}

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
 * The book when `range` is the live one and nothing above `target` is kept. Its blocks, plans and version are settled
 * when it is loaded again: until the work is done, the version stays.
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
  return {
    ...{ ...book, published, plans, open },
    live: {
      ...{ ...emptyLine(0), latestIndexedHeight: range.to },
      meta: { ...meta, firstHeight: range.from, sporks },
    },
  };
}

function planUpTo(plan: BackfillPlan, height: number): readonly BackfillPlan[] {
  return plan.from > height ? [] : [{ ...plan, to: Math.min(plan.to, height) }];
}

/**
 * Heights whose blocks exist unless something is damaged: the covered ones, and those of open ranges below their gaps.
 */
export function durableHeights(book: StoreBook): HeightRange[] {
  const open = book.open.map(({ record: { from, next } }) => ({ from, to: next - 1 }));
  return joined([...coverageOfBook(book), ...open]);
}

export function isCovered(book: StoreBook, height: number): boolean {
  return contains(coverageOfBook(book), height);
}
