import { ok as assert } from 'node:assert/strict';
import { MAX_OPEN_RANGES, MAX_PLANS, MAX_RANGE_HEIGHTS } from '../../port/RangeBook.js';
import type { BackfillPlan, RangeChange } from '../../port/RangeBook.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { RangeTakenError } from '../../port/ParentLinkError.js';
import type { BlockHead, HeightRange, SporkRecord } from '../../port/stored.js';
import { isLive } from '../accountCoverage.js';
import type { OpenRecord } from '../coding/jsonRecords.js';
import { atMost, joined, overlap, rangesAt, upTo, without, type HeightRanges } from '../heightRanges.js';
import { PROOFS_SCHEMA_VERSION, schemaVersionOf } from '../schema.js';
import { checkLink } from './applyCommit.js';
import { coverageOfBook, durableHeights, emptyState, isCovered, NO_BLOCKS } from './StoreBook.js';
import type { OpenState, StoreBook, StoreState } from './StoreBook.js';

/** Without completed plans, and with the schema version for what remains. */
export function settled(book: StoreBook): StoreBook {
  const { accounts, meta, published, open } = book;
  const missing = unfilled(book.plans, coverageOfBook(book), meta.firstHeight);
  const plans = missing.length === book.plans.length ? book.plans : missing;
  const ranges = published.length + plans.length + open.length > 0;
  const proofs = meta.schemaVersion === PROOFS_SCHEMA_VERSION;
  const schemaVersion = schemaVersionOf({ accounts: accounts !== undefined, ranges, proofs });
  if (plans === book.plans && schemaVersion === meta.schemaVersion) return book;
  return { ...book, plans, meta: { ...meta, schemaVersion } };
}

/** The plans with an uncovered height below the live range, which grows over the heights above it. */
function unfilled(
  plans: readonly BackfillPlan[],
  coverage: HeightRanges,
  firstHeight: number,
): BackfillPlan[] {
  return plans.filter((plan) => without(upTo([plan], firstHeight - 1), coverage).length > 0);
}

export function openAt({ open }: StoreBook, { from, to }: HeightRange): OpenState | undefined {
  return open.find((range) => range.from === from && range.to === to);
}

/** Adds an open range, or replaces the one with the same first height. */
export function withOpen(book: StoreBook, open: OpenState): StoreBook {
  const all = [...withoutOpen(book, open.from).open, open];
  return { ...book, open: all.sort((left, right) => left.from - right.from) };
}

export function withoutOpen(book: StoreBook, from: number): StoreBook {
  return { ...book, open: book.open.filter((range) => range.from !== from) };
}

/** There are more only where nodes with and without proofs alternate: then heights between two of them count as well. */
export const MAX_UNPROVEN_RANGES = 256;

/** Notes which of these blocks, which are about to be durable, have a proof. `before`: the book without them. */
export function withProofs(
  before: StoreBook,
  after: StoreBook,
  entries: readonly Pick<BlockEntry, 'block'>[],
): StoreBook {
  const { meta } = after;
  const heightsWith = (has: boolean): HeightRange[] =>
    rangesAt(entries.flatMap(({ block }) => ((block.proof !== undefined) === has ? [block.height] : [])));
  const [proven, added] = [heightsWith(true), heightsWith(false)];
  const isFirst = meta.schemaVersion !== PROOFS_SCHEMA_VERSION;
  if (isFirst ? proven.length === 0 : added.length + before.unproven.length === 0) return after;
  // Before the first proof in this store, nothing that is durable has any.
  const above = [before, ...before.open].flatMap((run) => rangesAt(run.above.keys()));
  const old = isFirst ? [...durableHeights(before), ...above] : before.unproven;
  return {
    ...after,
    meta: isFirst ? { ...meta, schemaVersion: PROOFS_SCHEMA_VERSION } : meta,
    unproven: atMost(MAX_UNPROVEN_RANGES, without([...old, ...added], proven)),
  };
}

/** The state of an open range as its line sees it. */
export function stateOfOpen({ meta }: StoreBook, open: OpenState): StoreState {
  const { above, from, latestBlock, next } = open;
  const sporks = bothSporks(meta.sporks, open.sporks);
  return { ...emptyState({ ...meta, firstHeight: from, sporks }, next), latestBlock, above };
}

/** The open range after a commit. */
export function openAfter(book: StoreBook, open: OpenState, state: StoreState): OpenState {
  const { above, latestBlock, latestIndexedHeight, meta } = state;
  const sporks = sporksBesides(book.meta.sporks, meta.sporks);
  return { ...open, next: latestIndexedHeight + 1, latestBlock, above, sporks };
}

/** True for an open range that is filled to its end. */
export function isWhole({ next, to }: OpenState): boolean {
  return next > to;
}

/** Marks the blocks of an open range for removal, and the range itself if `isDropped`. */
export function emptied(record: OpenRecord, isDropped: boolean): OpenState {
  const { from } = record;
  return { ...record, ...NO_BLOCKS, next: from, keep: from - 1, isDropped };
}

/** A range that was not open before. Expected errors: `RangeTakenError`. */
export function newRange(book: StoreBook, { from, to }: HeightRange): OpenState {
  const isRange = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to >= from;
  assert(isRange && to - from < MAX_RANGE_HEIGHTS, `${from} to ${to} is not a range`);
  const { latestIndexedHeight, meta } = book;
  // Another process may have rewound it.
  if (latestIndexedHeight < meta.firstHeight || to > latestIndexedHeight)
    throw new RangeTakenError(`height ${to} is not below the live range`);
  const range = { from, to };
  const overlaps = (other: HeightRange): boolean => overlap(other, range);
  if (coverageOfBook(book).some(overlaps))
    throw new RangeTakenError(`the range ${from} to ${to} is covered in part`);
  if (book.open.some(overlaps)) throw new RangeTakenError(`the range ${from} to ${to} overlaps an open one`);
  if (book.open.length >= MAX_OPEN_RANGES)
    throw new RangeTakenError(`more than ${MAX_OPEN_RANGES} ranges would be open`);
  const unset = { failures: 0, sporks: [], keep: undefined, isDropped: false };
  return { from, to, next: from, hasAccounts: isLive(book.accounts), ...unset, ...NO_BLOCKS };
}

/**
 * The book after a change of plans and open ranges; the same book if nothing changes. Marks the blocks of a dropped range
 * for removal. Expected errors: `RangeTakenError`.
 */
export function withRangeChange(
  book: StoreBook,
  { plans, failed = [], dropped = [] }: RangeChange,
): StoreBook {
  const wanted = typeof plans === 'function' ? plans(book.plans) : plans;
  let after = wanted === undefined ? book : { ...book, plans: checked(wanted) };
  for (const { failures, reason, ...range } of failed) {
    const open = openAt(after, range) ?? newRange(after, range);
    after = withOpen(after, { ...open, failures, reason });
  }
  for (const { from, to } of dropped) {
    const open = openAt(after, { from, to });
    if (open === undefined) continue;
    const isDropped = !failed.some((other) => other.from === from && other.to === to);
    after = withOpen(after, emptied(open, isDropped));
  }
  return after === book ? book : settled(after);
}

function checked(plans: readonly BackfillPlan[]): readonly BackfillPlan[] {
  const wanted = plans.filter(({ heals }) => heals !== true);
  assert(wanted.length <= MAX_PLANS, `there would be more than ${MAX_PLANS} plans`);
  let below = -1;
  for (const { id, from, to } of plans) {
    assert(id > below, 'the ids of plans must ascend');
    assert(from >= 0 && to >= from, `plan ${id} has no heights`);
    below = id;
  }
  return plans;
}

/** Later blocks of the range have no account entries. */
export function withoutEntries<Open extends OpenRecord>(open: Open): Open {
  return open.hasAccounts ? { ...open, hasAccounts: false } : open;
}

/**
 * A complete open range becomes covered, with its account entries, and part of the live range if it touches that. Expected errors:
 * `ParentLinkError`, when its first or last block does not link to the covered block next to it; those of `headAt`.
 */
export async function withPublished(
  book: StoreBook,
  { from, to, hasAccounts, sporks }: Pick<OpenRecord, 'from' | 'to' | 'hasAccounts' | 'sporks'>,
  headAt: (height: number) => Promise<BlockHead | undefined>,
): Promise<StoreBook> {
  const { accounts } = book;
  const meta = { ...book.meta, sporks: bothSporks(book.meta.sporks, sporks) };
  if (isCovered(book, from - 1)) checkLink(await headAt(from - 1), await headAt(from), meta);
  if (isCovered(book, to + 1)) checkLink(await headAt(to), await headAt(to + 1), meta);
  const published = joined([...book.published, { from, to }]);
  const last = published.at(-1);
  const touches = last?.to === meta.firstHeight - 1;
  return settled({
    ...withoutOpen(book, from),
    meta: { ...meta, firstHeight: touches ? last.from : meta.firstHeight },
    accounts: accounts && hasAccounts ? joined([...accounts, { from, to }]) : accounts,
    published: touches ? published.slice(0, -1) : published,
  });
}

/** Those of `sporks` that `known` does not have, or has without their root's parent. */
export function sporksBesides(
  known: readonly SporkRecord[],
  sporks: readonly SporkRecord[],
): readonly SporkRecord[] {
  const keyOf = (spork: SporkRecord): string => `${spork.rootHeight} ${spork.sporkId} ${spork.rootParentId}`;
  const keys = new Set(known.map(keyOf));
  return sporks.filter((spork) => !keys.has(keyOf(spork)));
}

/** All sporks, ascending; of two records of a spork, the one that knows its root's parent. */
export function bothSporks(
  sporks: readonly SporkRecord[],
  others: readonly SporkRecord[],
): readonly SporkRecord[] {
  if (others.length === 0) return sporks;
  const byRoot = new Map(sporks.map((spork) => [spork.rootHeight, spork]));
  for (const spork of others) {
    if (byRoot.get(spork.rootHeight)?.rootParentId === undefined) byRoot.set(spork.rootHeight, spork);
  }
  return [...byRoot.values()].sort((left, right) => left.rootHeight - right.rootHeight);
}
