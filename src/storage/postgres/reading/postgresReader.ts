import { ok as assert } from 'node:assert/strict';
import { identifierBytes, addressBytes } from '../../../flow/index.js';
import { silentLogger } from '../../../observability/index.js';
import type { QueryResultRow } from 'pg';
import { systemClock, type Clock } from '../../../runtime/index.js';
import type { ReadPlace } from '../../records/blocks/openPointers.js';
import type { Values } from '../../records/blocks/readBlocks.js';
import type { PointersOf, RecordSource } from '../../records/reading/RecordReader.js';
import { Replica } from '../../records/reading/Replica.js';
import { parseValueKey, Prefix, RECORD, type PointerPrefix } from '../../records/schema.js';
import { databasePlace } from '../connection/databasePlace.js';
import { MOMENT_MS, PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Rows, Session, Statement } from '../connection/Session.js';
import { DatabaseFault } from '../../StorageError.js';
import { readEvidence } from '../tables/prepareDatabase.js';
import { PARTITION_HEIGHTS } from '../tables/schema.js';
import type { AccountCoverage, AccountPage, AccountQuery } from '../../port/AccountIndex.js';
import type { AccountTransaction } from '../../port/AccountIndex.js';

/** How often a process or thread that serves readers checks whether its database answers. */
const LOOK_EVERY_MS = 1_000;

/** What a store in PostgreSQL holds: rows lead to the same bytes as in LevelDB, which are checked in the same way. */
export function postgresSource(session: Session): RecordSource {
  return {
    values: postgresValues(session),
    pointers: postgresPointers(session),
    evidence: () => readEvidence(session),
    accountPage: (query, coverage) => readAccountPage(session, query, coverage),
    // The coverage known here is a moment old: another process may have rewound or repaired since.
    isCovered: async (height) => {
      const text = `SELECT FROM flow_store.coverage WHERE $1 BETWEEN from_height AND to_height
        UNION ALL SELECT FROM flow_store.open_range WHERE $1 >= from_height AND $1 < next_height`;
      return (await session.query({ name: 'is_covered', text, values: [height] })).rowCount > 0;
    },
  };
}

/**
 * The read side of a database that another thread or process writes to, over separate connections. Reads fail
 * (`unavailable`) while the database is unreachable for longer than a moment; it notices that even without reads. Expected
 * errors: `OperatorError` (`configuration`).
 */
export function openPostgresReplica(url: string): Replica {
  const parts = { clock: systemClock, logger: silentLogger };
  const database = new PostgresDatabase(databasePlace(url), parts, { patienceMs: MOMENT_MS });
  const look = (): Promise<undefined> => database.query({ text: 'SELECT' }).then(() => undefined);
  const looking = database.watch<never>(look, LOOK_EVERY_MS);
  const close = (): Promise<void> => database.close().then(() => looking);
  const aside = asideLocks(database.patient, systemClock);
  const trouble = (): string | undefined => database.trouble() ?? aside.trouble();
  return new Replica({ ...postgresSource(aside), trouble, close });
}

/** SQLSTATE: another session held a lock for too long. */
const LOCK_TIMEOUT = '55P03';
/** How long after such an error what was read counts as locked. */
const LOCKED_MS = 10_000;

/**
 * Reads of locked rows would wait on all connections, and keep out all other reads. Once one has timed out, only one at a time
 * waits: further reads with the same statement, and of the same partition, get its error.
 */
function asideLocks(session: Session, clock: Clock) {
  type Lock = { readonly error: DatabaseFault; readonly atMs: number; isTried: boolean };
  const locked = new Map<string, Lock>();
  const query = async <Row extends QueryResultRow>(statement: Statement): Promise<Rows<Row>> => {
    const what = `${statement.name} ${Math.floor(Number(statement.values?.[0]) / PARTITION_HEIGHTS)}`;
    const known = locked.get(what);
    if (known?.isTried === true) throw known.error;
    if (known !== undefined) known.isTried = true;
    try {
      const rows = await session.query<Row>(statement);
      locked.delete(what);
      return rows;
    } catch (error) {
      if (!(error instanceof DatabaseFault && error.code === LOCK_TIMEOUT)) locked.delete(what);
      // A read that began to wait before the lock was known lets no other one try.
      else if (locked.get(what) === known)
        locked.set(what, { error, atMs: clock.monotonic(), isTried: false });
      throw error;
    }
  };
  const trouble = (): string | undefined =>
    [...locked.values()].find(({ atMs }) => clock.monotonic() - atMs < LOCKED_MS)?.error.message;
  return { query, trouble };
}

export function postgresValues(session: Session): Values {
  const getMany = async (keys: Buffer[]): Promise<(Buffer | undefined)[]> => {
    const asked = keys.flatMap((key) => parseValueKey(key) ?? []);
    const [{ height } = { height: NaN }] = asked;
    const isOfOne = asked.length === keys.length && asked.every((each) => each.height === height);
    assert(isOfOne, 'keys of one height');
    const { rows } = await session.query<{ chunk: number; value: Buffer }>({
      name: 'values_of_height',
      text: `SELECT ${RECORD} AS chunk, record AS value FROM flow_store.block
          WHERE height = $1 AND ${RECORD} = ANY ($2::integer[])
        UNION ALL SELECT chunk, value FROM flow_store.body WHERE height = $1 AND chunk = ANY ($2::integer[])`,
      values: [height, asked.map(({ chunk }) => chunk)],
    });
    const values = new Map(rows.map(({ chunk, value }) => [chunk, value]));
    return asked.map(({ chunk }) => values.get(chunk));
  };
  return { getMany, get: async (key) => (await getMany([key]))[0] };
}

/** The tables of ids, and what a row says of its place besides the height. */
const PLACES: Readonly<Record<PointerPrefix, readonly [table: string, columns: string]>> = {
  [Prefix.blockId]: ['block', '0, 0, 0, 0'],
  [Prefix.collection]: ['collection', 'collection_index, 0, body_offset, bytes'],
  [Prefix.transaction]: ['transaction', 'collection_index, transaction_index, body_offset, bytes'],
};

function postgresPointers(session: Session): PointersOf {
  return async (prefix, id, limit, coverage) => {
    const [table, columns] = PLACES[prefix];
    const bounds = [coverage.map(({ from }) => from), coverage.map(({ to }) => to)];
    const { rows } = await session.query<ReadPlace>({
      name: `${table}_places`,
      // In two steps: a server without statistics would look for the lowest place from the first row of the table on.
      text: `WITH place (height, "collectionIndex", "transactionIndex", start, bytes) AS MATERIALIZED (
          SELECT height, ${columns} FROM flow_store.${table} WHERE id = $1
        ) SELECT height, "collectionIndex", "transactionIndex", json_build_object('offset', start, 'length', bytes) AS slice
        FROM place WHERE EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS covered (low, high)
          WHERE height BETWEEN low AND high) ORDER BY 1, 2, 3 LIMIT $4`,
      values: [identifierBytes(id), ...bounds, limit],
    });
    return rows;
  };
}

/** The most entries of other roles that one page of an account skips; then the caller must request the next page. */
const MAX_EXAMINED = 2_000;
const ALL_ROLES = 7;

/** Like `AccountReader.page`, for the heights of `coverage`. */
async function readAccountPage(
  session: Session,
  { address, roles, before, limit }: AccountQuery,
  coverage: AccountCoverage,
): Promise<AccountPage> {
  const top = { height: coverage.to + 1, collectionIndex: 0, transactionIndex: 0 };
  const below = before === undefined || before.height > coverage.to ? top : before;
  const most = roles === ALL_ROLES ? limit + 1 : limit + 1 + MAX_EXAMINED;
  const { rows } = await session.query<{ entry: AccountTransaction; isLast: boolean }>({
    name: 'account_page',
    text: ACCOUNT_PAGE,
    values: [
      ...[addressBytes(address), below.height, below.collectionIndex, below.transactionIndex],
      ...[coverage.from, most, roles, limit + 1],
    ],
  });
  const found = rows.map(({ entry }) => entry).filter((entry) => (entry.roles & roles) !== 0);
  const transactions = found.slice(0, limit);
  const last = found.length > limit ? transactions.at(-1) : rows.find(({ isLast }) => isLast)?.entry;
  return { transactions, next: last?.place, coverage };
}

/**
 * The entries below a place, newest first. Examines at most $6 entries; returns those that match, $8 at most, and the last examined
 * one if there were that many.
 */
const ACCOUNT_PAGE = `
  WITH page AS MATERIALIZED (
    SELECT *, number = $6 AS "isLast" FROM (
      SELECT height, collection_index, transaction_index, roles,
        row_number() OVER (ORDER BY height DESC, collection_index DESC, transaction_index DESC) AS number
      FROM flow_store.account_transaction WHERE address = $1 AND height >= $5 AND height <= $2
        AND (height, collection_index, transaction_index) < ($2, $3, $4)
      ORDER BY height DESC, collection_index DESC, transaction_index DESC LIMIT $6
    ) AS entry WHERE (roles & $7) <> 0 OR number = $6 ORDER BY number LIMIT $8
  )
  SELECT "isLast", json_build_object('id', encode(transaction.id, 'hex'), 'blockId', encode(block.id, 'hex'),
    'collectionId', encode(collection.id, 'hex'), 'roles', roles, 'place', json_build_object('height', height,
    'collectionIndex', collection_index, 'transactionIndex', transaction_index)) AS entry
  FROM page JOIN flow_store.transaction USING (height, collection_index, transaction_index)
    JOIN flow_store.collection USING (height, collection_index) JOIN flow_store.block USING (height) ORDER BY number`;
