import type { HeightRange, SporkRecord, BlockHead } from '../../port/stored.js';
import { sporksBesides } from '../../records/book/changeBook.js';
import { emptyBook, liveRange, MAX_BLOCKS_ABOVE_WATERMARK } from '../../records/book/StoreBook.js';
import { NO_BLOCKS, type StoreBook } from '../../records/book/StoreBook.js';
import type { OpenRecord } from '../../records/coding/jsonRecords.js';
import { joined, without, type HeightRanges } from '../../records/heightRanges.js';
import { PROOFS_SCHEMA_VERSION, RECORD, SCHEMA_VERSION } from '../../records/schema.js';
import type { Session, Statement } from '../connection/Session.js';
import { storedHeights, type StoredHeight, type StoredValue } from '../../verify/checkHeights.js';
import { DATA_TABLES, POSTGRES_SCHEMA_VERSION } from './schema.js';
import { corruptRecord, StorageError } from '../../StorageError.js';
import type { BackfillPlan, OpenRange } from '../../port/RangeBook.js';

/** Until the transaction ends, no other process writes what takes this lock: the live range, plans, ranges, partitions. */
export async function lockStore(session: Session): Promise<void> {
  await session.query({ text: 'SELECT FROM flow_store.store FOR UPDATE' });
}

/** Rows as JSON, without the fields that are null. */
function listOf(rows: string): string {
  return `(SELECT json_strip_nulls(coalesce(json_agg(listed), '[]')) FROM (${rows}) AS listed)`;
}

/** The rows of the tables that have few of them. */
export const LISTS = {
  coverage: listOf(
    'SELECT from_height AS "from", to_height AS "to" FROM flow_store.coverage ORDER BY from_height',
  ),
  sporks: listOf(
    `SELECT root_height AS "rootHeight", spork_id AS "sporkId", root_parent_id AS "rootParentId"
      FROM flow_store.spork ORDER BY root_height`,
  ),
  open: listOf(
    `SELECT from_height AS "from", to_height AS "to", next_height AS next, failures, reason, sporks::json AS sporks
      FROM flow_store.open_range ORDER BY from_height`,
  ),
  // A store of an earlier version that is only read lacks the column `heals`.
  plans: listOf(
    `SELECT id, from_height AS "from", to_height AS "to", sort_order AS "order", is_paused AS "isPaused",
        nullif((to_jsonb(plan) ->> 'heals')::boolean, false) AS heals
      FROM flow_store.plan ORDER BY id`,
  ),
};

/** What the database holds of a store, except its blocks. Lists ascend. */
interface BookRow {
  readonly schemaVersion: number;
  readonly createdBy: string;
  readonly chainId: string;
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  /** With the sporks that were first seen with their blocks. */
  readonly open: readonly (OpenRange & Pick<OpenRecord, 'sporks'>)[];
  readonly plans: readonly BackfillPlan[];
}

/** The book according to the database; no block is read. */
export interface ReadBook extends StoreBook {
  /** The last one is the live range, which may be empty. None: the store was never initialised. */
  readonly coverage: HeightRanges;
}

/** What the database holds of ranges. */
export type RangeFacts = Pick<ReadBook, 'coverage' | 'plans'> & { readonly open: readonly OpenRange[] };

const ROWS = `SELECT schema_version AS "schemaVersion", created_by AS "createdBy", chain_id AS "chainId",
  ${Object.entries(LISTS)
    .map(([name, list]) => `${list} AS ${name}`)
    .join()} FROM flow_store.store`;

/** All from one moment. Expected errors: those of `storeRow`. */
export async function readBook(session: Session): Promise<ReadBook> {
  const row = await storeRow<BookRow>(session, { name: 'book', text: ROWS });
  const { chainId, coverage, createdBy, open, plans, sporks } = row;
  // Only their type constrains these numbers; no statement of ours writes such values.
  for (const [table, ranges] of Object.entries({ coverage, open_range: open, plan: plans }))
    for (const { from, to } of ranges)
      if (from < 0 || !Number.isSafeInteger(to)) throw damagedRow(table, `${from} to ${to} are no heights`);
  const live = coverage.at(-1) ?? { from: 0, to: -1 };
  const meta = { schemaVersion: SCHEMA_VERSION, chainId, firstHeight: live.from, createdBy, sporks };
  const unused = { hasAccounts: false, keep: undefined, isDropped: false, ...NO_BLOCKS };
  const book = {
    ...emptyBook(meta),
    latestIndexedHeight: live.to,
    coverage,
    published: coverage.slice(0, -1),
    plans,
    open: open.map((range) => ({ ...range, ...unused })),
  };
  // A store of an earlier version, which has no proofs, may lack the table.
  if (row.schemaVersion < POSTGRES_SCHEMA_VERSION) return book;
  const text = 'SELECT heights::text AS heights FROM flow_store.unproven';
  return withUnproven(book, (await storeRow<{ heights: string | null }>(session, { text })).heights);
}

/** A book with what `flow_store.unproven` says; null: no block has a proof. */
export function withUnproven<Book extends StoreBook>(book: Book, heights: string | null): Book {
  if (heights === null) return book;
  const ranges = [...heights.matchAll(/\[(\d+),(\d+)\)/g)];
  const unproven = ranges.map(([, from, to]) => ({ from: Number(from), to: Number(to) - 1 }));
  return { ...book, meta: { ...book.meta, schemaVersion: PROOFS_SCHEMA_VERSION }, unproven };
}

/** What a statement finds of the store, in one row. Expected errors: those of the session; `StorageError` (`corrupt`). */
export async function storeRow<Row extends object>(session: Session, statement: Statement): Promise<Row> {
  const { rows } = await session.query<Row>(statement);
  const [row] = rows;
  if (row === undefined) throw damagedRow('store', 'it is missing');
  return row;
}

/** No command repairs it: `verify` and `repair` need the rows as well. */
function damagedRow(table: string, detail: string): StorageError {
  const damage = `row of flow_store.${table}: ${detail}`;
  const advice = 'That table was changed from outside: correct it, or restore the database from a copy.';
  return new StorageError('corrupt', `The store is damaged: ${damage}. ${advice}`, { damage });
}

/** Writes one row; a fault that is retried while something drops the row. */
export async function writeRow(session: Session, text: string, ...values: unknown[]): Promise<void> {
  await session.query({ text, values, writes: 1 });
}

/** Adds new sporks, and to a recorded one its id and its root's parent where it lacks them. */
export async function writeSporks(session: Session, sporks: readonly SporkRecord[]): Promise<void> {
  const text = `INSERT INTO flow_store.spork VALUES ($1, $2, $3) ON CONFLICT (root_height) DO UPDATE
    SET spork_id = coalesce(nullif(spork.spork_id, ''), excluded.spork_id),
      root_parent_id = coalesce(spork.root_parent_id, excluded.root_parent_id)`;
  for (const { rootHeight, sporkId, rootParentId = null } of sporks)
    await writeRow(session, text, rootHeight, sporkId, rootParentId);
}

async function writePlans(session: Session, plans: readonly BackfillPlan[]): Promise<void> {
  await session.query({ text: 'DELETE FROM flow_store.plan' });
  await session.query({
    text: `INSERT INTO flow_store.plan (id, from_height, to_height, sort_order, is_paused, heals)
      SELECT id, "from", "to", "order", "isPaused", coalesce(heals, false) FROM json_to_recordset($1) AS plan
        (id bigint, "from" bigint, "to" bigint, "order" text, "isPaused" boolean, heals boolean)`,
    values: [JSON.stringify(plans)],
    writes: plans.length,
  });
}

/** The blocks of the heights `from … to`, ascending. Expected errors: `StorageError` (`corrupt`: too many). */
export async function readHeads(session: Session, from: number, to: number): Promise<BlockHead[]> {
  const { rows } = await session.query<BlockHead>({
    text: `SELECT height, encode(id, 'hex') AS id, encode(parent_id, 'hex') AS "parentId" FROM flow_store.block
      WHERE height BETWEEN $1 AND $2 ORDER BY height LIMIT ${MAX_BLOCKS_ABOVE_WATERMARK + 1}`,
    values: [from, to],
  });
  if (rows.length <= MAX_BLOCKS_ABOVE_WATERMARK) return rows;
  const what = `more than ${MAX_BLOCKS_ABOVE_WATERMARK} blocks are stored above height ${from - 1}`;
  throw corruptRecord('coverage', undefined, what);
}

/** The stored bytes of some heights, ascending. Expected errors: those of the session. */
export async function* readStored(session: Session, { from, to }: HeightRange): AsyncGenerator<StoredHeight> {
  for (let next = from; next <= to;) {
    const { rows } = await session.query<StoredValue>({ text: STORED, values: [next, to] });
    yield* storedHeights(rows);
    next = (rows.at(-1)?.height ?? to) + 1;
  }
}

/** One read returns the first heights up to this many bytes, and one more: blocks may be of any size. */
const BYTES_AT_ONCE = 16 * 1024 * 1024;
const STORED = `
  SELECT height, chunk, value FROM (
    SELECT *, sum(octet_length(value)) OVER (ORDER BY height RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS below
    FROM (
      SELECT height, ${RECORD} AS chunk, record AS value FROM flow_store.block WHERE height BETWEEN $1 AND $2
      UNION ALL SELECT height, chunk, value FROM flow_store.body WHERE height BETWEEN $1 AND $2) AS every_value
  ) AS summed WHERE coalesce(below, 0) < ${BYTES_AT_ONCE} ORDER BY height`;

/** The first blocks below the live range that are in no range, ascending; default: all. Expected errors: those of `readBook`. */
export async function readStrays(session: Session, limit = Infinity): Promise<number[]> {
  const { coverage, open } = await readBook(session);
  const below = { from: Number.MIN_SAFE_INTEGER, to: (coverage.at(-1)?.from ?? -Infinity) - 1 };
  const found: number[] = [];
  // By the index, which holds few or none: to compare every block of a chain takes longer than a statement may.
  for (const { from, to } of without([below], joined([...coverage, ...open]))) {
    const { rows } = await session.query<{ height: number }>({
      text: 'SELECT height FROM flow_store.block WHERE height BETWEEN $1 AND $2 ORDER BY height LIMIT $3',
      values: [from, to, limit === Infinity ? null : limit - found.length],
    });
    for (const { height } of rows) found.push(height);
  }
  return found;
}

/**
 * Writes what has changed in a book that is locked, and deletes the blocks of a dropped range. An open range that has changed
 * counts as a new one: the next write of its worker is refused.
 */
export async function writeBook(session: Session, before: StoreBook, after: StoreBook): Promise<void> {
  const [covered, wanted] = [
    [...before.published, liveRange(before)],
    [...after.published, liveRange(after)],
  ];
  const besides = (ranges: HeightRanges, others: HeightRanges) =>
    ranges.filter(({ from, to }) => !others.some((each) => each.from === from && each.to === to));
  for (const { from } of besides(covered, wanted))
    await writeRow(session, 'DELETE FROM flow_store.coverage WHERE from_height = $1', from);
  for (const { from, to } of besides(wanted, covered))
    await writeRow(session, 'INSERT INTO flow_store.coverage VALUES ($1, $2)', from, to);
  const { sporks } = after.meta;
  const roots = sporks.map(({ rootHeight }) => rootHeight);
  const text = 'DELETE FROM flow_store.spork WHERE root_height <> ALL ($1)';
  await session.query({ text, values: [roots] });
  await writeSporks(session, sporksBesides(before.meta.sporks, sporks));
  const left = new Map(after.open.map((range) => [range.from, range]));
  const known = new Set(before.open);
  for (const { from, to } of known) {
    const range = left.get(from);
    if (range !== undefined && range.keep === undefined) continue;
    // The row first: this waits for the write under way, and no other can follow.
    await writeRow(session, 'DELETE FROM flow_store.open_range WHERE from_height = $1', from);
    if (range !== undefined) await deleteBlocks(session, from, to);
  }
  for (const range of after.open) {
    if (known.has(range) || range.isDropped) continue;
    // The epoch begins at the current time: a range that is dropped and begun again must differ from the former one.
    await writeRow(
      session,
      `INSERT INTO flow_store.open_range VALUES ($1, $2, $3, $4, $5, '[]',
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0)
      ON CONFLICT (from_height) DO UPDATE SET next_height = excluded.next_height, failures = excluded.failures,
        reason = excluded.reason, epoch = open_range.epoch + 1`,
      ...[range.from, range.to, range.next, range.failures, range.reason ?? null],
    );
  }
  if (after.plans !== before.plans) await writePlans(session, after.plans);
}

/** Deletes every row of the heights `from … to`, but `kept`. */
export async function deleteBlocks(
  session: Session,
  from: number,
  to: number,
  kept: readonly number[] = [],
): Promise<void> {
  for (const table of Object.keys(DATA_TABLES)) {
    const text = `DELETE FROM flow_store.${table} WHERE height BETWEEN $1 AND $2 AND height <> ALL ($3::bigint[])`;
    await session.query({ text, values: [from, to, kept] });
  }
}
