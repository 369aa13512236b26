import type { OpenState } from '../../records/book/StoreBook.js';
import { MAX_UNPROVEN_RANGES, settled, withPublished } from '../../records/book/changeBook.js';
import { rewoundBook } from '../../records/book/repairedBook.js';
import { rangesAt } from '../../records/heightRanges.js';
import { StorageError } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session, WriteSession, Step } from '../connection/Session.js';
import { microsecondsOf } from '../tables/blockRows.js';
import { deleteBlocks, lockStore, readBook, readHeads, writeBook } from '../tables/bookRows.js';
import type { ReadBook } from '../tables/bookRows.js';
import { isCovered, POSTGRES_SCHEMA_VERSION } from '../tables/schema.js';
import type { FinalizedBlock } from '../../../flow/index.js';
import { provenRecord } from '../../records/blocks/readBlocks.js';

/** The book, which no other process changes before the transaction ends: the leader's writes begin with the row of the store. */
export async function lockedBook(session: Session): Promise<ReadBook> {
  await lockStore(session);
  return readBook(session);
}

/** Records how far a range is filled. */
export function progressOf({ from, next, sporks }: OpenState): Step {
  return {
    name: 'range_progress',
    text: 'UPDATE flow_store.open_range SET next_height = $2, sporks = $3 WHERE from_height = $1',
    values: [from, next, JSON.stringify(sporks)],
  };
}

/** Moves the upper end of the live range, by which its row is found: no other writer moves that, but its lower end may have moved. */
export function moveOf(database: PostgresDatabase, before: number, after: number): Step {
  const otherwise = async (): Promise<Error | undefined> => {
    const left = { text: 'SELECT FROM flow_store.coverage WHERE to_height = $1', values: [before] };
    // If the row is still there, something drops the change: wait until that is gone.
    if ((await database.query(left)).rowCount > 0) return undefined;
    const found = `No row of flow_store.coverage at ${database.place} ends at height ${before}, where this process left it`;
    const what = `${found}: it was changed from outside. Run "verify", then "repair --yes".`;
    return new StorageError('corrupt', what);
  };
  const text = 'UPDATE flow_store.coverage SET to_height = $2 WHERE to_height = $1';
  return { name: 'watermark', text, values: [before, after], writes: 1, otherwise };
}

/** Makes a whole range part of the coverage. Expected errors: those of the session and of `withPublished`. */
export async function publish(session: Session, range: OpenState): Promise<void> {
  const before = await lockedBook(session);
  const headAt = async (height: number) => (await readHeads(session, height, height))[0];
  await writeBook(session, before, await withPublished(before, range, headAt));
}

/** Call it in a write of the leader, whose fence blocks publishing. Expected errors: those of the session; `OperatorError` (`usage`). */
export async function forgetAbove(session: Session, height: number): Promise<void> {
  const before = await readBook(session);
  const { after, target } = rewoundBook(before, height);
  await writeBook(session, before, settled(after));
  await deleteAbove(session, target);
}

/** Deletes the blocks above a height, and what is known of them. */
export async function deleteAbove(session: Session, height: number): Promise<void> {
  await deleteBlocks(session, height + 1, Number.MAX_SAFE_INTEGER);
  for (const text of [
    `UPDATE flow_store.unproven SET heights = heights * int8multirange(int8range(NULL, $1, '[]'))`,
    'DELETE FROM flow_store.evidence WHERE height > $1',
    'UPDATE flow_store.proven SET height = least(height, $1)',
  ])
    await session.query({ text, values: [height] });
}

function heightsOf(blocks: readonly FinalizedBlock[]): string {
  const ranges = rangesAt(blocks.map(({ height }) => height));
  return `{${ranges.map(({ from, to }) => `[${from},${to + 1})`).join()}}`;
}

const RAISE_VERSION: Step = {
  name: 'raise_version',
  text: `UPDATE flow_store.store SET schema_version = ${POSTGRES_SCHEMA_VERSION} WHERE schema_version < ${POSTGRES_SCHEMA_VERSION}`,
};

/** Call it after the rows of the blocks were written. `hasProofs`: the store is known to have had one before. */
export function noteProofs(
  session: WriteSession,
  blocks: readonly FinalizedBlock[],
  { hasProofs }: { readonly hasProofs: boolean },
): void {
  const proven = blocks.filter(({ proof }) => proof !== undefined);
  const unproven = blocks.filter(({ proof }) => proof === undefined);
  if (proven.length > 0 && !hasProofs) {
    session.later(RAISE_VERSION);
    // The first proof of the store: nothing else that is durable has one.
    session.later({
      name: 'first_proof',
      text: `UPDATE flow_store.unproven SET heights = coalesce((SELECT range_agg(durable) FROM (
          SELECT int8range(from_height, to_height, '[]') FROM flow_store.coverage WHERE to_height >= from_height
          UNION ALL SELECT int8range(height, height, '[]') FROM flow_store.block
            WHERE height > (SELECT max(to_height) FROM flow_store.coverage)
          UNION ALL SELECT int8range(height, height, '[]') FROM flow_store.open_range
            JOIN flow_store.block ON height BETWEEN from_height AND to_height
        ) AS every (durable)), '{}') - $1::int8multirange WHERE heights IS NULL`,
      values: [heightsOf(proven)],
    });
  }
  if (unproven.length > 0)
    session.later({
      name: 'note_unproven',
      // With more ranges, everything from the lowest to the highest height counts, until the proofs are found there.
      text: `UPDATE flow_store.unproven SET heights = CASE
          WHEN (SELECT count(*) FROM unnest(heights + $1::int8multirange)) <= ${MAX_UNPROVEN_RANGES}
          THEN heights + $1::int8multirange ELSE int8multirange(range_merge(heights + $1::int8multirange)) END
        WHERE heights IS NOT NULL`,
      values: [heightsOf(unproven)],
    });
}

/** See `IndexStore.addProofs`. Resolves with the heights that are left, as text. */
export async function addProofs(
  session: WriteSession,
  blocks: readonly FinalizedBlock[],
): Promise<string | null> {
  // The row of the store, blocks, unproven heights: in the same order as other writers, so that none deadlock.
  session.later(RAISE_VERSION);
  const { rows } = await session.query<{ height: number; record: Buffer }>({
    text: `SELECT height, record FROM flow_store.block data WHERE height = ANY($1) AND ${isCovered('height')}
      ORDER BY height FOR UPDATE`,
    values: [blocks.map(({ height }) => height)],
  });
  const stored = new Map(rows.map(({ height, record }) => [height, record]));
  const proven: FinalizedBlock[] = [];
  for (const block of blocks) {
    const value = stored.get(block.height);
    const record = value && provenRecord(value, block);
    if (record === undefined) continue;
    proven.push(block);
    if (record === value) continue;
    session.later({
      name: 'add_proof',
      text: `UPDATE flow_store.block SET record = $2::bytea,
        time = timestamptz '2000-01-01 00:00:00+00' + $3::bigint * interval '1 microsecond' WHERE height = $1`,
      values: [...[block.height, `\\x${record.toString('hex')}`], String(microsecondsOf(block.encoded))],
    });
  }
  noteProofs(session, proven, { hasProofs: false });
  const left = await session.query<{ heights: string | null }>({
    text: 'UPDATE flow_store.unproven SET heights = heights - $1::int8multirange RETURNING heights::text AS heights',
    values: [heightsOf(proven)],
  });
  return left.rows[0]?.heights ?? null;
}
