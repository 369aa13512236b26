import type { BlockEntry } from '../../port/RangeStore.js';
import type { HeightRange } from '../../port/stored.js';
import { assembleEntry } from '../../records/blocks/assembleBlock.js';
import { isDamagedEvidence } from '../../records/blocks/committeeEvidence.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { joined, overlap } from '../../records/heightRanges.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { parseEvidenceKey } from '../../records/schema.js';
import type { Session, WriteSession } from '../connection/Session.js';
import { readEvidence } from '../reading/evidenceRows.js';
import { readStored } from '../reading/readStored.js';
import { BlockRows } from '../tables/BlockRows.js';
import { writePlans } from '../tables/readState.js';
import { isCovered } from '../tables/schema.js';
import { Scripts } from '../tables/Scripts.js';
import { deleteBlocks } from './BlockLine.js';

/**
 * Rebuilds every row of sound blocks from their bytes. Without a range: of the blocks that have a damaged script, and removes
 * damaged evidence, which nodes are asked for again. Expected
 * errors: those of the session; `StorageError` (`corrupt`).
 */
export async function mendRows(session: WriteSession, range: HeightRange | undefined): Promise<void> {
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
  const damaged = (await readEvidence(session)).filter(isDamagedEvidence);
  const heights = damaged.map(([key]) => parseEvidenceKey(key));
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
export async function writeMended(
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
  await session.query({ text: 'DELETE FROM flow_store.coverage' });
  const ranges = [...published, { from: live.meta.firstHeight, to: live.latestIndexedHeight }];
  for (const { from, to } of ranges) {
    await session.query({ text: 'INSERT INTO flow_store.coverage VALUES ($1, $2)', values: [from, to] });
  }
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
