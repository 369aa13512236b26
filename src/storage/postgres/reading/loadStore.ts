import type { BlockHead } from '../../port/stored.js';
import { readHead } from '../../records/blocks/readBlocks.js';
import type { StoreBook } from '../../records/book/StoreBook.js';
import { contains } from '../../records/heightRanges.js';
import { unlessDamaged, type StorageError } from '../../StorageError.js';
import type { Session } from '../connection/Session.js';
import { LISTS, readBook, readHeads, storeRow } from '../tables/bookRows.js';
import { postgresValues } from './postgresReader.js';

/** What the store holds. */
export interface Loaded {
  /** `undefined` for a store that was never initialised. */
  readonly book: StoreBook | undefined;
  /** A block that was indexed before no longer is. */
  readonly isRewound: boolean;
}

/**
 * Call it in a snapshot. A damaged block at the watermark is left to the leader. `before`: the block at the watermark as last
 * known.
 */
export async function loadStore(session: Session, before?: BlockHead): Promise<Loaded> {
  const stored = await readBook(session);
  const { coverage, latestIndexedHeight, meta } = stored;
  const isCovered = before !== undefined && contains(coverage, before.height);
  const [head] = isCovered ? await readHeads(session, before.height, before.height) : [];
  const isRewound = head?.id !== before?.id;
  if (coverage.length === 0) return { book: undefined, isRewound };
  const heads = await readHeads(session, latestIndexedHeight + 1, Number.MAX_SAFE_INTEGER);
  let damage: StorageError | undefined;
  const latestBlock =
    latestIndexedHeight < meta.firstHeight
      ? undefined
      : await unlessDamaged(
          () => readHead(postgresValues(session), latestIndexedHeight),
          (error) => (damage = error),
        );
  const above = new Map(heads.map((each) => [each.height, each]));
  return { book: { ...stored, above, damage, latestBlock }, isRewound };
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

/** Not for a store that was opened only to be read. Expected errors: those of `storeRow`. */
export function readMark(session: Session): Promise<StoreMark> {
  return storeRow<StoreMark>(session, { name: 'mark', text: MARK });
}

/** These tables have a few hundred short rows at most. The end of the live range is left out, which only its leader moves. */
const MARK = `SELECT epoch, concat_ws(':', epoch, commits) AS live, md5(concat_ws('|',
    (SELECT string_agg(concat_ws(',', from_height,
        nullif(to_height, (SELECT max(to_height) FROM flow_store.coverage))), ';' ORDER BY from_height)
      FROM flow_store.coverage),
    ${LISTS.open}, ${LISTS.plans}, ${LISTS.sporks})) AS rest,
  (SELECT heights::text FROM flow_store.unproven) AS unproven, (SELECT height FROM flow_store.proven) AS proven
  FROM flow_store.store`;

/** Bytes of all tables, their indexes and parts. Expected errors: those of the session. */
export async function readSizeBytes(session: Session): Promise<number> {
  const { rows } = await session.query<{ bytes: string | null }>({
    text: `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
      WHERE relnamespace = 'flow_store'::regnamespace AND relkind = 'r'`,
  });
  return Number(rows[0]?.bytes ?? 0);
}
