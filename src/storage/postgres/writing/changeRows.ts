import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange, SporkRecord, StoreMeta } from '../../port/stored.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { isDamagedEvidence } from '../../records/blocks/committeeEvidence.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { checkBorders } from '../../records/book/applyCommit.js';
import { emptyLine, newRecord, settled, withPublished } from '../../records/book/changeBook.js';
import { healedBook, repairedBook, rewoundBook } from '../../records/book/repairedBook.js';
import type { RepairedBook } from '../../records/book/repairedBook.js';
import { joined } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { parseHeightKey, Prefix } from '../../records/schema.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { BlockRows } from '../tables/BlockRows.js';
import { deleteBlocks, readBook, writeBook } from '../tables/bookRows.js';
import { readEvidence } from '../tables/prepareDatabase.js';
import { lockStore, readCoverage, readHeads, readStored } from '../tables/readState.js';
import { Scripts } from '../tables/Scripts.js';
import { isCovered } from '../tables/schema.js';

/** Takes a state of the store over: only the live range may grow before the transaction ends. */
async function lockedBook(session: Session): Promise<StoreBook> {
  await lockStore(session);
  await readCoverage(session, 'FOR UPDATE');
  return readBook(session);
}

/**
 * Makes a complete open range part of the coverage, joined with the ranges that it touches. Resolves with the book after
 * that. Expected errors: those of the session; `BorderError`.
 */
export async function publish(
  session: Session,
  range: HeightRange,
  sporks: readonly SporkRecord[],
): Promise<StoreBook> {
  const before = await lockedBook(session);
  const after = withPublished(before, {
    record: { ...newRecord(range, false), sporks },
    line: emptyLine(range.from),
  });
  await checkBordersOf(session, range, after.live.meta);
  await writeBook(session, before, after);
  return after;
}

/** Like `checkBorders`. Expected errors: those of the session; `BorderError`. */
export async function checkBordersOf(
  session: Session,
  range: HeightRange,
  known: Pick<StoreMeta, 'sporks'>,
): Promise<void> {
  const coverage = await readCoverage(session);
  await checkBorders(range, { ...known, coverage }, (height) => readHeads(session, height, height + 1));
}

/** Call it in a write of the leader, while nobody publishes. Expected errors: those of the session; `OperatorError` (`usage`). */
export async function forgetAbove(session: Session, height: number): Promise<void> {
  const before = await readBook(session);
  const { after, target } = rewoundBook(before, height);
  await deleteBlocks(session, after.live.latestIndexedHeight + 1, Number.MAX_SAFE_INTEGER);
  await writeBook(session, before, settled(after));
  await session.query({
    text: `UPDATE flow_store.unproven SET heights = heights * int8multirange(int8range(NULL, $1, '[]'))`,
    values: [target],
  });
  await session.query({ text: 'DELETE FROM flow_store.evidence WHERE height > $1', values: [target] });
  await session.query({ text: 'UPDATE flow_store.proven SET height = least(height, $1)', values: [target] });
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
    if (await isDamagedEvidence(entry)) heights.push(parseHeightKey(Prefix.evidence, entry[0]));
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

/** Deletes lost heights and blocks outside all ranges; the others become the book. */
export async function repairBook(
  session: Session,
  lost: HeightRanges,
  lastPlan: number,
): Promise<RepairedBook> {
  const before = await readBook(session);
  const repaired = repairedBook(before, lost, { lastPlan });
  const { latestIndexedHeight } = repaired.book.live;
  const isShorter = latestIndexedHeight < before.live.latestIndexedHeight;
  const gone = isShorter ? [{ from: latestIndexedHeight + 1, to: Number.MAX_SAFE_INTEGER }] : [];
  for (const { from, to } of [...lost, ...gone]) await deleteBlocks(session, from, to);
  await writeBook(session, before, repaired.book);
  await deleteStrays(session);
  return repaired;
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

/** Like `IndexStore.heal`; `undefined`: no height became a hole. Expected errors: those of the session. */
export async function healRows(
  session: Session,
  damaged: HeightRanges,
  lastPlan: number,
): Promise<RepairedBook | undefined> {
  // No publication meanwhile; the leader's commits wait for its row of the coverage.
  const before = await lockedBook(session);
  const healed = healedBook(before, damaged, { lastPlan });
  if (healed === undefined) return undefined;
  for (const { from, to } of healed.holes) await deleteBlocks(session, from, to);
  await writeBook(session, before, healed.book);
  return healed;
}
