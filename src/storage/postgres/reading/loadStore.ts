import type { BlockHead, HeightRange } from '../../port/stored.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { contains } from '../../records/heightRanges.js';
import { corruptRecord, unlessDamaged } from '../../StorageError.js';
import type { Session } from '../connection/Session.js';
import { bookOf, readHeads, readRanges, readSporks } from '../tables/bookRows.js';
import { postgresValues } from './postgresReader.js';

/** What the store holds. */
export interface Loaded {
  /** `undefined` for a store that was never initialised. */
  readonly book: StoreBook | undefined;
  /** A block that was indexed before no longer is. */
  readonly isRewound: boolean;
}

/**
 * Call it in a snapshot. `chainId`: for the meta record. `isTolerant`: a damaged block at the watermark is left to the rewind that
 * follows. `before`: the block at the watermark as last known.
 */
export async function loadStore(
  session: Session,
  {
    chainId,
    isTolerant,
    before,
  }: { readonly chainId: string; readonly isTolerant: boolean; readonly before?: BlockHead | undefined },
): Promise<Loaded> {
  const ranges = await readRanges(session);
  const { rows } = await session.query<{ createdBy: string }>({
    text: 'SELECT created_by AS "createdBy" FROM flow_store.store',
  });
  const isRewound = before !== undefined && !(await isIndexed(session, before, ranges.coverage));
  const book = bookOf(ranges, await readSporks(session));
  if (ranges.coverage.length === 0) return { book: undefined, isRewound };
  const { latestIndexedHeight, meta } = book.live;
  const heads = await readHeads(session, latestIndexedHeight + 1, Number.MAX_SAFE_INTEGER);
  let damaged = false;
  const latestBlock =
    latestIndexedHeight < meta.firstHeight
      ? undefined
      : await unlessDamaged(
          () => readHead(postgresValues(session), latestIndexedHeight),
          (damage) => {
            if (!isTolerant) throw damage;
            damaged = true;
          },
        );
  const live = {
    latestIndexedHeight,
    latestBlock,
    damaged,
    above: new Map(heads.map((head) => [head.height, head])),
    meta: { ...meta, chainId, createdBy: rows[0]?.createdBy ?? '' },
  };
  return { book: { ...book, live }, isRewound };
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
