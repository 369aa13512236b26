import type { HeightRange, SporkRecord } from '../../port/stored.js';
import { emptyLine, sporksBesides } from '../../records/book/changeBook.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import type { HeightRanges } from '../../records/heightRanges.js';
import { SCHEMA_VERSION } from '../../records/schema.js';
import type { Session } from '../connection/Session.js';
import { readRanges, readSporks, writePlans, writeSporks } from './readState.js';
import { DATA_TABLES } from './schema.js';

/** The book according to the rows; no block is read. */
export async function readBook(session: Session): Promise<StoreBook> {
  return bookOf(await readRanges(session), await readSporks(session));
}

export function bookOf(
  { coverage, open, plans }: Awaited<ReturnType<typeof readRanges>>,
  sporks: readonly SporkRecord[],
): StoreBook {
  const live = coverage.at(-1) ?? { from: 0, to: -1 };
  const meta = { schemaVersion: SCHEMA_VERSION, chainId: '', firstHeight: live.from, createdBy: '', sporks };
  return {
    live: { ...emptyLine(live.to + 1), meta },
    published: coverage.slice(0, -1),
    plans,
    open: open.map(({ epoch, commits, ...row }) => ({
      record: { ...row, hasAccounts: false, keep: undefined, isDropped: false },
      line: emptyLine(row.next),
      counts: { epoch, commits },
    })),
    accounts: undefined,
    unproven: [],
  };
}

/** Every range of a book, ascending; the last one is the live range, which may be empty. */
export function rangesOf({ live, published }: StoreBook): HeightRanges {
  return [...published, { from: live.meta.firstHeight, to: live.latestIndexedHeight }];
}

/**
 * Writes what has changed in the book. Of a range that was dropped, the blocks go as well. An open range that has changed
 * counts as another: the next write of its worker is refused.
 */
export async function writeBook(session: Session, before: StoreBook, after: StoreBook): Promise<void> {
  const run = (text: string, ...values: unknown[]) => session.query({ text, values });
  await writeCoverage(session, rangesOf(before), rangesOf(after));
  const { sporks } = after.live.meta;
  const roots = new Set(sporks.map(({ rootHeight }) => rootHeight));
  for (const { rootHeight } of before.live.meta.sporks)
    if (!roots.has(rootHeight)) await run('DELETE FROM flow_store.spork WHERE root_height = $1', rootHeight);
  await writeSporks(session, sporksBesides(before.live.meta.sporks, sporks));
  const left = new Map(after.open.map(({ record }) => [record.from, record]));
  const known = new Set(before.open.map(({ record }) => record));
  for (const { from, to } of known) {
    const record = left.get(from);
    if (record !== undefined && record.keep === undefined) continue;
    // The row first: this waits for the write under way, and no other can follow.
    await run('DELETE FROM flow_store.open_range WHERE from_height = $1', from);
    if (record !== undefined) await deleteBlocks(session, from, to);
  }
  for (const { record } of after.open) {
    if (known.has(record) || record.isDropped) continue;
    // The epoch begins at the current time: a range that is dropped and begun again must differ from the former one.
    await run(
      `INSERT INTO flow_store.open_range VALUES ($1, $2, $3, $4, $5, '[]',
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0)
      ON CONFLICT (from_height) DO UPDATE SET next_height = excluded.next_height, failures = excluded.failures,
        reason = excluded.reason, epoch = open_range.epoch + 1`,
      ...[record.from, record.to, record.next, record.failures, record.reason ?? null],
    );
  }
  if (after.plans !== before.plans) await writePlans(session, after.plans);
}

/** A range whose upper end stays keeps its row: it may be the live range, whose writer finds it by that end. */
async function writeCoverage(session: Session, before: HeightRanges, after: HeightRanges): Promise<void> {
  const write = (text: string, ...values: number[]) => session.query({ text, values });
  const endsAt = (ranges: HeightRanges, end: number): HeightRange | undefined =>
    ranges.find(({ to }) => to === end);
  const kept = before.filter(({ to }) => endsAt(after, to) !== undefined);
  for (const range of before)
    if (!kept.includes(range))
      await write('DELETE FROM flow_store.coverage WHERE from_height = $1', range.from);
  for (const { from, to } of kept) {
    const next = endsAt(after, to)?.from ?? from;
    if (next !== from)
      await write('UPDATE flow_store.coverage SET from_height = $2 WHERE from_height = $1', from, next);
  }
  for (const { from, to } of after)
    if (endsAt(kept, to) === undefined)
      await write('INSERT INTO flow_store.coverage VALUES ($1, $2)', from, to);
}

/** Deletes every row of the heights `from … to`. */
export async function deleteBlocks(session: Session, from: number, to: number): Promise<void> {
  for (const table of DATA_TABLES) {
    await session.query({
      text: `DELETE FROM flow_store.${table} WHERE height BETWEEN $1 AND $2`,
      values: [from, to],
    });
  }
}
