import { ok as assert } from 'node:assert/strict';
import { BorderError } from '../../port/BorderError.js';
import type { BackfillPlan } from '../../port/RangeBook.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange, SporkRecord, StoreMeta } from '../../port/stored.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { isDamagedEvidence } from '../../records/blocks/committeeEvidence.js';
import { coverageOfBook } from '../../records/book/StoreBook.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { isConfirmedRoot } from '../../records/book/applyCommit.js';
import { emptyLine, newRecord, unfilled } from '../../records/book/changeBook.js';
import { healedBook, rewoundRanges } from '../../records/book/repairedBook.js';
import type { RepairedBook } from '../../records/book/repairedBook.js';
import { contains, joined, overlap } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { SCHEMA_VERSION, parseEvidenceKey } from '../../records/schema.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { readEvidence } from '../tables/prepareDatabase.js';
import {
  lockStore,
  readCoverage,
  readHeads,
  readPlans,
  readRanges,
  readSporks,
  readStored,
  writePlans,
  writeSporks,
} from '../tables/readState.js';
import { BlockRows } from '../tables/BlockRows.js';
import { Scripts } from '../tables/Scripts.js';
import { isCovered } from '../tables/schema.js';
import { deleteBlocks } from './BlockLine.js';

/** The state of the store after a range was published. */
export interface Published {
  /** Ascending; the last one is the live range. */
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly plans: readonly BackfillPlan[];
}

/**
 * Makes a complete open range part of the coverage, joined with the ranges that it touches. Expected errors: those of the
 * session; `BorderError`.
 */
export async function publish(
  session: Session,
  range: HeightRange,
  sporks: readonly SporkRecord[],
): Promise<Published> {
  const { from, to } = range;
  // One publication at a time, in whatever process.
  await lockStore(session);
  const covered = await readCoverage(session, 'FOR UPDATE');
  const lower = covered.find((each) => each.to === from - 1);
  const upper = covered.find((each) => each.from === to + 1);
  await writeSporks(session, sporks);
  const known = await readSporks(session);
  await checkBorders(session, range, { sporks: known });
  const whole = { from: lower?.from ?? from, to: upper?.to ?? to };
  const others = covered.filter((each) => each !== lower && each !== upper);
  const coverage = [...others, whole].sort((left, right) => left.from - right.from);
  await writeCoverage(session, covered, coverage);
  await session.query({ text: 'DELETE FROM flow_store.open_range WHERE from_height = $1', values: [from] });
  return { coverage, sporks: known, plans: await removeDonePlans(session, coverage) };
}

/** A range whose upper end stays keeps its row: it may be the live range, whose writer finds it by that end. */
async function writeCoverage(session: Session, before: HeightRanges, after: HeightRanges): Promise<void> {
  const write = (text: string, ...values: number[]) => session.query({ text, values });
  const endsAt = (ranges: HeightRanges, end: number) => ranges.find(({ to }) => to === end);
  const kept = before.filter(({ to }) => endsAt(after, to) !== undefined);
  for (const range of before)
    if (!kept.includes(range))
      await write('DELETE FROM flow_store.coverage WHERE from_height = $1', range.from);
  for (const { from, to } of kept) {
    const next = endsAt(after, to)?.from ?? from;
    await write('UPDATE flow_store.coverage SET from_height = $2 WHERE from_height = $1', from, next);
  }
  for (const { from, to } of after)
    if (endsAt(kept, to) === undefined)
      await write('INSERT INTO flow_store.coverage VALUES ($1, $2)', from, to);
}

/**
 * Checks that a range's first and last block, if stored, link to the covered blocks next to them. Expected errors: those
 * of the session; `BorderError`.
 */
export async function checkBorders(
  session: Session,
  { from, to }: HeightRange,
  known: Pick<StoreMeta, 'sporks'>,
): Promise<void> {
  const covered = await readCoverage(session);
  for (const lowerHeight of [from - 1, to]) {
    const neighbour = lowerHeight === to ? to + 1 : lowerHeight;
    if (!contains(covered, neighbour)) continue;
    const [lower, upper] = await readHeads(session, lowerHeight, lowerHeight + 1);
    if (lower === undefined || upper === undefined || upper.parentId === lower.id) continue;
    if (!isConfirmedRoot(upper, known)) throw new BorderError(upper, lower);
  }
}

/** Removes the plans whose heights are all covered; returns the others. */
async function removeDonePlans(session: Session, coverage: readonly HeightRange[]): Promise<BackfillPlan[]> {
  const plans = await readPlans(session);
  const left = withHoles(plans, coverage);
  if (left.length < plans.length) await writePlans(session, left);
  return left;
}

export function withHoles(plans: readonly BackfillPlan[], coverage: readonly HeightRange[]): BackfillPlan[] {
  return unfilled(plans, coverage, coverage.at(-1)?.from ?? 0);
}

/** Call it in a write of the leader, while nobody publishes. Expected errors: those of the session; `OperatorError` (`usage`). */
export async function forgetAbove(session: Session, height: number): Promise<void> {
  const before = await readCoverage(session);
  const whole = before.at(-1);
  assert(whole !== undefined, 'the store is not initialised');
  const { live, published, target } = rewoundRanges({ published: before.slice(0, -1), live: whole }, height);
  await deleteBlocks(session, live.to + 1, Number.MAX_SAFE_INTEGER);
  const coverage = [...published, live];
  await writeCoverage(session, before, coverage);
  await session.query({
    text: 'DELETE FROM flow_store.open_range WHERE from_height > $1',
    values: [live.from],
  });
  await session.query({
    text: `UPDATE flow_store.unproven SET heights = heights * int8multirange(int8range(NULL, $1, '[]'))`,
    values: [target],
  });
  await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height > $1', values: [target] });
  await session.query({ text: 'UPDATE flow_store.proven SET height = least(height, $1)', values: [target] });
  // A spork whose root is removed will be recorded again; the first one stays.
  await session.query({
    text: `DELETE FROM flow_store.spork WHERE root_height > $1`,
    values: [Math.max(target, live.from)],
  });
  const plans = (await readPlans(session))
    .filter(({ from }) => from <= target)
    .map((plan) => ({ ...plan, to: Math.min(plan.to, target) }));
  await writePlans(session, withHoles(plans, coverage));
}

/**
 * Rebuilds every row of sound blocks from their bytes. Without a range: of the blocks that have a damaged script, and removes
 * damaged evidence, which nodes are asked for again. Expected
 * errors: those of the session; `StorageError` (`corrupt`).
 */
export async function repairRows(session: WriteSession, range: HeightRange | undefined): Promise<void> {
  if (range === undefined) await removeDamagedEvidence(session);
  const heights = range === undefined ? await removeDamagedScripts(session) : [range];
  for (const each of heights) {
    const entries: BlockEntry[] = [];
    for (const [height, { body, record }] of await readStored(session, each)) {
      if (record !== undefined) entries.push(assembleEntry(height, record, body));
    }
    const rows = new BlockRows({ scripts: new Scripts(), writer: new BlockEntryWriter() });
    for (const entry of entries) {
      await deleteBlocks(session, entry.block.height, entry.block.height);
      rows.add(entry);
    }
    for (const step of rows.steps()) session.later(step);
  }
}

async function removeDamagedEvidence(session: Session): Promise<void> {
  const heights: (number | undefined)[] = [];
  for (const entry of await readEvidence(session))
    if (await isDamagedEvidence(entry)) heights.push(parseEvidenceKey(entry[0]));
  await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height = ANY ($1)', values: [heights] });
}

/** Removes damaged scripts; returns for each the height of a transaction that has it. */
async function removeDamagedScripts(session: Session): Promise<HeightRange[]> {
  const { rows } = await session.query<{ height: number | null }>({
    text: `WITH wrong AS (DELETE FROM flow_store.script WHERE sha256(body) <> hash RETURNING hash)
      SELECT DISTINCT (SELECT min(height) FROM flow_store.transaction WHERE script_hash = hash) AS height FROM wrong`,
  });
  return rows.flatMap(({ height }) => (height === null ? [] : [{ from: height, to: height }]));
}

/** Writes the repaired book, and deletes lost heights and blocks outside all ranges. */
export async function writeRepaired(
  session: Session,
  {
    before,
    after,
    lost,
  }: { readonly before: StoreBook; readonly after: StoreBook; readonly lost: HeightRanges },
): Promise<void> {
  const { live, published, plans, open } = after;
  const isShorter = live.latestIndexedHeight < before.live.latestIndexedHeight;
  const gone = isShorter ? [{ from: live.latestIndexedHeight + 1, to: Number.MAX_SAFE_INTEGER }] : [];
  for (const { from, to } of [...lost, ...gone]) await deleteBlocks(session, from, to);
  const ranges = [...published, { from: live.meta.firstHeight, to: live.latestIndexedHeight }];
  await writeCoverage(session, await readCoverage(session), ranges);
  await session.query({
    text: 'DELETE FROM flow_store.spork WHERE NOT root_height = ANY($1)',
    values: [live.meta.sporks.map(({ rootHeight }) => rootHeight)],
  });
  await session.query({
    text: 'DELETE FROM flow_store.open_range WHERE NOT from_height = ANY($1)',
    values: [open.map(({ record }) => record.from)],
  });
  for (const { record } of open) {
    if (!lost.some((range) => overlap(range, record))) continue;
    // The next write of the range's worker is refused.
    await session.query({
      text: 'UPDATE flow_store.open_range SET next_height = $2, epoch = epoch + 1 WHERE from_height = $1',
      values: [record.from, record.next],
    });
  }
  await writePlans(session, plans);
  await deleteStrays(session);
}

/** Deletes blocks below the live range that are in no range. */
async function deleteStrays(session: Session): Promise<void> {
  const { rows } = await session.query<{ height: number }>({
    text: `SELECT height FROM flow_store.block data WHERE NOT ${isCovered('data.height')}
      AND NOT EXISTS (SELECT FROM flow_store.open_range
        WHERE data.height BETWEEN open_range.from_height AND open_range.to_height)
      AND data.height < (SELECT max(from_height) FROM flow_store.coverage)`,
  });
  for (const { from, to } of joined(rows.map(({ height }) => ({ from: height, to: height }))))
    await deleteBlocks(session, from, to);
}

/** The book according to the rows; no block is read. */
export async function bookOf(session: Session): Promise<StoreBook> {
  const { coverage, open, plans } = await readRanges(session);
  const live = coverage.at(-1);
  assert(live !== undefined, 'a store with damage was initialised');
  return {
    live: {
      ...emptyLine(live.from),
      latestIndexedHeight: live.to,
      meta: {
        schemaVersion: SCHEMA_VERSION,
        chainId: '',
        firstHeight: live.from,
        createdBy: '',
        sporks: await readSporks(session),
      },
    },
    published: coverage.slice(0, -1),
    plans,
    open: open.map(({ from, to, next }) => ({
      record: { ...newRecord({ from, to }, false), next },
      line: emptyLine(from),
    })),
    hasAccounts: false,
    unproven: [],
  };
}

/** Like `IndexStore.heal`; `undefined`: no height became a hole. Expected errors: those of the session. */
export async function healRows(
  session: Session,
  damaged: HeightRanges,
  lastPlan: number,
): Promise<(Published & Pick<RepairedBook, 'holes'>) | undefined> {
  // No publication meanwhile; the leader's commits wait for its row of the coverage.
  await lockStore(session);
  await readCoverage(session, 'FOR UPDATE');
  const before = await bookOf(session);
  const healed = healedBook(before, damaged, { lastPlan });
  if (healed === undefined) return undefined;
  const { book, holes } = healed;
  for (const { from, to } of holes) await deleteBlocks(session, from, to);
  const coverage = coverageOfBook(book);
  await writeCoverage(session, coverageOfBook(before), coverage);
  await writePlans(session, book.plans);
  return { coverage, sporks: book.live.meta.sporks, plans: book.plans, holes };
}
