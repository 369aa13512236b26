import type { BackfillPlan } from '../../port/RangeBook.js';
import type { BlockHead, HeightRange, SporkRecord } from '../../port/stored.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import { contains } from '../../records/heightRanges.js';
import { corruptRecord, isCorruption } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { readHeads, readRanges, readSporks } from '../tables/readState.js';
import type { OpenRangeRow } from '../tables/readState.js';
import { postgresValues } from './postgresReader.js';

/** The rows that say what the store holds. */
export interface Loaded {
  readonly createdBy: string;
  /** The last one is the live range. */
  readonly coverage: readonly HeightRange[];
  readonly sporks: readonly SporkRecord[];
  readonly open: readonly OpenRangeRow[];
  readonly plans: readonly BackfillPlan[];
  readonly latestBlock: BlockHead | undefined;
  readonly above: ReadonlyMap<number, BlockHead>;
  /** The block at the watermark is unreadable; tolerated only in order to rewind it away. */
  readonly isDamaged: boolean;
  /** A block that was indexed before no longer is. */
  readonly isRewound: boolean;
}

export interface LoadOptions {
  /** Leaves a damaged block at the watermark to the rewind that follows. */
  readonly isTolerant: boolean;
  /** The block at the watermark as last known. */
  readonly before?: BlockHead | undefined;
}

/** Call it in a snapshot. */
export async function loadStore(session: Session, { isTolerant, before }: LoadOptions): Promise<Loaded> {
  const ranges = await readRanges(session);
  const { coverage } = ranges;
  const { rows } = await session.query<{ createdBy: string }>({
    text: 'SELECT created_by AS "createdBy" FROM flow_store.store',
  });
  const common = {
    ...ranges,
    isDamaged: false,
    isRewound: before !== undefined && !(await isIndexed(session, before, coverage)),
    createdBy: rows[0]?.createdBy ?? '',
    sporks: await readSporks(session),
  };
  const live = coverage.at(-1);
  if (live === undefined) return { ...common, latestBlock: undefined, above: new Map() };
  const heads = await readHeads(session, live.to + 1, Number.MAX_SAFE_INTEGER);
  const above = new Map(heads.map((head) => [head.height, head]));
  if (live.to < live.from) return { ...common, latestBlock: undefined, above };
  try {
    return { ...common, latestBlock: await readHead(postgresValues(session), live.to), above };
  } catch (error) {
    if (!isTolerant || !isCorruption(error)) throw error;
    return { ...common, latestBlock: undefined, above, isDamaged: true };
  }
}

/** `loadStore` in a snapshot; waits while the database is unreachable. Expected errors: `StorageError`. */
export function readStore(database: PostgresDatabase, options: LoadOptions): Promise<Loaded> {
  return database.persist(() => database.snapshot((session) => loadStore(session, options)));
}

async function isIndexed(
  session: Session,
  { height, id }: BlockHead,
  coverage: readonly HeightRange[],
): Promise<boolean> {
  const [head] = contains(coverage, height) ? await readHeads(session, height, height) : [];
  return head?.id === id;
}

/** A cheap way to find out whether anything has changed. */
export interface StoreMark {
  /** The epoch of the leader: see `Fence`. */
  readonly epoch: number;
  /** Differs once the leader has written. */
  readonly live: string;
  /** Differs once anything else has changed: published ranges, open ones, plans, sporks. */
  readonly rest: string;
  /** See `flow_store.unproven`. */
  readonly unproven: string | null;
  /** See `flow_store.proven`. */
  readonly proven: number | null;
}

/** Not for a store that was opened to be read. Expected errors: those of the session. */
export async function readMark(session: Session): Promise<StoreMark> {
  const { rows } = await session.query<StoreMark>({ name: 'mark', text: MARK });
  const [row] = rows;
  if (row === undefined) throw corruptRecord('row of flow_store.store', undefined, 'it is missing');
  return row;
}

/** These tables have a few hundred short rows at most. */
const MARK = `
  SELECT epoch, concat_ws(':', epoch, commits) AS live, md5(concat_ws('|',
    (SELECT string_agg(concat_ws(',', from_height,
        nullif(to_height, (SELECT max(to_height) FROM flow_store.coverage))), ';' ORDER BY from_height)
      FROM flow_store.coverage),
    (SELECT string_agg(concat_ws(',', from_height, to_height, next_height, failures, reason), ';' ORDER BY from_height)
      FROM flow_store.open_range),
    (SELECT string_agg(concat_ws(',', id, from_height, to_height, sort_order, is_paused), ';' ORDER BY id)
      FROM flow_store.plan),
    (SELECT string_agg(concat_ws(',', root_height, spork_id, root_parent_id), ';' ORDER BY root_height)
      FROM flow_store.spork))) AS rest, (SELECT heights::text FROM flow_store.unproven) AS unproven,
    (SELECT height FROM flow_store.proven) AS proven
  FROM flow_store.store`;

/** Bytes of all tables, their indexes and parts. Expected errors: those of the session. */
export async function readSizeBytes(session: Session): Promise<number> {
  const { rows } = await session.query<{ bytes: string | null }>({
    text: `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
      WHERE relnamespace = 'flow_store'::regnamespace AND relkind = 'r'`,
  });
  return Number(rows[0]?.bytes ?? 0);
}
