import { parseIdentifier } from '../../../flow/index.js';
import { corruptRecord } from '../../StorageError.js';
import type { BackfillPlan, OpenRange } from '../../port/RangeBook.js';
import type { BlockHead, HeightRange, SporkRecord } from '../../port/stored.js';
import { MAX_BLOCKS_ABOVE_WATERMARK } from '../../records/book/StoreBook.js';
import type { Session } from '../connection/Session.js';

/** Until the transaction ends, no other process changes what takes this lock: plans, ranges, partitions. */
export async function lockStore(session: Session): Promise<void> {
  await session.query({ text: 'SELECT FROM flow_store.store FOR UPDATE' });
}

/** Ascending; the last one is the live range, which may be empty. None: the store was never initialised. */
export async function readCoverage(session: Session, lock = ''): Promise<HeightRange[]> {
  const { rows } = await session.query<HeightRange>({
    text: `SELECT from_height AS "from", to_height AS "to" FROM flow_store.coverage ORDER BY from_height ${lock}`,
  });
  return rows;
}

export async function readSporks(session: Session): Promise<SporkRecord[]> {
  const { rows } = await session.query<{ rootHeight: number; sporkId: string; parent: string | null }>({
    text: `SELECT root_height AS "rootHeight", spork_id AS "sporkId", root_parent_id AS parent
      FROM flow_store.spork ORDER BY root_height`,
  });
  return rows.map(({ parent, ...spork }) => {
    const rootParentId = parent === null ? undefined : parseIdentifier(parent);
    return rootParentId === undefined ? spork : { ...spork, rootParentId };
  });
}

/** Adds new sporks, and the root's parent to a recorded one that lacks it. */
export async function writeSporks(session: Session, sporks: readonly SporkRecord[]): Promise<void> {
  for (const { rootHeight, sporkId, rootParentId } of sporks) {
    await session.query({
      text: `INSERT INTO flow_store.spork VALUES ($1, $2, $3) ON CONFLICT (root_height) DO UPDATE
        SET root_parent_id = coalesce(spork.root_parent_id, excluded.root_parent_id)`,
      values: [rootHeight, sporkId, rootParentId ?? null],
    });
  }
}

/** An open range, and the counts of its fence, which order the states of the row. */
export interface OpenRangeRow extends OpenRange {
  readonly reason: string | undefined;
  /** First seen with its blocks. */
  readonly sporks: readonly SporkRecord[];
  readonly epoch: number;
  readonly commits: number;
}

/** Ascending. */
export async function readOpenRanges(session: Session): Promise<OpenRangeRow[]> {
  const { rows } = await session.query<Omit<OpenRangeRow, 'reason'> & { readonly reason: string | null }>({
    text: `SELECT from_height AS "from", to_height AS "to", next_height AS next, failures, reason, sporks::json AS sporks,
        epoch, commits FROM flow_store.open_range ORDER BY from_height`,
  });
  return rows.map((row) => ({ ...row, reason: row.reason ?? undefined }));
}

/** What the database says of ranges. */
export async function readRanges(session: Session) {
  return {
    coverage: await readCoverage(session),
    open: await readOpenRanges(session),
    plans: await readPlans(session),
  };
}

export async function readPlans(session: Session): Promise<BackfillPlan[]> {
  const { rows } = await session.query<BackfillPlan>({
    text: `SELECT id, from_height AS "from", to_height AS "to", sort_order AS "order", is_paused AS "isPaused",
        coalesce((to_jsonb(plan) ->> 'heals')::boolean, false) AS heals
      FROM flow_store.plan ORDER BY id`,
  });
  // A store of an earlier version that is only read lacks the column.
  return rows.map(({ heals = false, ...plan }) => (heals ? { ...plan, heals } : plan));
}

export async function writePlans(session: Session, plans: readonly BackfillPlan[]): Promise<void> {
  await session.query({ text: 'DELETE FROM flow_store.plan' });
  for (const { id, from, to, order, isPaused, heals = false } of plans) {
    await session.query({
      text: `INSERT INTO flow_store.plan (id, from_height, to_height, sort_order, is_paused, heals)
        VALUES ($1, $2, $3, $4, $5, $6)`,
      values: [id, from, to, order, isPaused, heals],
    });
  }
}

/** The blocks of the heights `from … to`, ascending. Expected errors: `StorageError` (`corrupt`: too many). */
export async function readHeads(session: Session, from: number, to: number): Promise<BlockHead[]> {
  const { rows } = await session.query<BlockHead>({
    text: `SELECT height, encode(id, 'hex') AS id, encode(parent_id, 'hex') AS "parentId" FROM flow_store.block
      WHERE height BETWEEN $1 AND $2 ORDER BY height LIMIT ${MAX_BLOCKS_ABOVE_WATERMARK + 1}`,
    values: [from, to],
  });
  if (rows.length > MAX_BLOCKS_ABOVE_WATERMARK) {
    throw corruptRecord(
      'coverage',
      undefined,
      `more than ${MAX_BLOCKS_ABOVE_WATERMARK} blocks are stored above height ${from - 1}`,
    );
  }
  return rows;
}

/** The bytes of one height. */
export interface Stored {
  record: Buffer | undefined;
  readonly body: Map<number, Buffer>;
}

/** The stored bytes of some heights. Expected errors: those of the session. */
export async function readStored(session: Session, { from, to }: HeightRange): Promise<Map<number, Stored>> {
  const { rows } = await session.query<{ height: number; chunk: number; value: Buffer }>({
    text: `SELECT height, -1 AS chunk, record AS value FROM flow_store.block WHERE height BETWEEN $1 AND $2
      UNION ALL SELECT height, chunk, value FROM flow_store.body WHERE height BETWEEN $1 AND $2`,
    values: [from, to],
  });
  const stored = new Map<number, Stored>();
  for (const { height, chunk, value } of rows) {
    const values = stored.get(height) ?? { record: undefined, body: new Map<number, Buffer>() };
    stored.set(height, values);
    if (chunk < 0) values.record = value;
    else values.body.set(chunk, value);
  }
  return stored;
}
