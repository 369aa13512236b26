import { ok as assert } from 'node:assert/strict';
import { identifierBytes } from '../../../flow/index.js';
import { silentLogger } from '../../../observability/index.js';
import { systemClock } from '../../../runtime/index.js';
import type { TransactionPlace } from '../../port/stored.js';
import type { ReadPlace } from '../../records/blocks/openPointers.js';
import type { Values } from '../../records/blocks/readBlocks.js';
import type { PointersOf, RecordSource } from '../../records/reading/RecordReader.js';
import { Replica } from '../../records/reading/Replica.js';
import { parseBlockKey, parseBodyKey, Prefix } from '../../records/schema.js';
import type { PointerPrefix } from '../../records/schema.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { readAccountPage } from './accountPage.js';
import { readEvidence } from '../tables/prepareDatabase.js';

/** What a store in PostgreSQL holds: rows lead to the same bytes as in LevelDB, which are checked in the same way. */
export function postgresSource(session: Session): RecordSource {
  return {
    values: postgresValues(session),
    pointers: postgresPointers(session),
    evidence: () => readEvidence(session),
    isCovered: async (height) =>
      (await session.query({ name: 'is_covered', text: IS_COVERED, values: [height] })).rowCount > 0,
  };
}

/**
 * The read side of a database that another thread or process writes to, over connections of its own. It connects at the first
 * read, and reads fail (`unavailable`) while the database is unreachable. Expected errors: `OperatorError` (`configuration`).
 */
export function openPostgresReplica(url: string): Replica {
  // Reads never wait for the database, so there is nothing to log.
  const parts = { clock: systemClock, logger: silentLogger };
  const database = new PostgresDatabase(databasePlace(url), parts);
  return new Replica({
    ...postgresSource(database),
    accountPage: (query, { coverage }) => readAccountPage(database, query, coverage),
    close: () => database.close(),
  });
}

/** The coverage known here is a moment old: another process may have rewound or repaired since. */
const IS_COVERED = `
  SELECT FROM flow_store.coverage WHERE $1 BETWEEN from_height AND to_height
  UNION ALL
  SELECT FROM flow_store.open_range WHERE $1 >= from_height AND $1 < next_height`;

export function postgresValues(session: Session): Values {
  const getMany = async (keys: Buffer[]): Promise<(Buffer | undefined)[]> => {
    const asked = keys.map((key) => {
      const height = parseBlockKey(key);
      return height === undefined ? parseBodyKey(key) : { height, chunk: RECORD };
    });
    const height = asked[0]?.height;
    assert(asked.every((each) => each?.height === height) && height !== undefined, 'keys of one height');
    const { rows } = await session.query<{ chunk: number; value: Buffer }>({
      name: 'values_of_height',
      text: VALUES,
      values: [height, asked.map((each) => each?.chunk)],
    });
    const values = new Map(rows.map(({ chunk, value }) => [chunk, value]));
    return asked.map((each) => (each === undefined ? undefined : values.get(each.chunk)));
  };
  return { getMany, get: async (key) => (await getMany([key]))[0] };
}

/** The chunk number of a block's record, among the chunks of its body. */
const RECORD = -1;

const VALUES = `
  SELECT ${RECORD} AS chunk, record AS value FROM flow_store.block WHERE height = $1 AND ${RECORD} = ANY ($2::integer[])
  UNION ALL
  SELECT chunk, value FROM flow_store.body WHERE height = $1 AND chunk = ANY ($2::integer[])`;

function postgresPointers(session: Session): PointersOf {
  return async (prefix, id, limit, coverage) => {
    const bounds = [coverage.map(({ from }) => from), coverage.map(({ to }) => to)];
    const { rows } = await session.query<PointerRow>({
      ...POINTERS[prefix],
      values: [identifierBytes(id), ...bounds, limit],
    });
    return rows.map(({ offset, length, ...place }) => ({ ...place, slice: { offset, length } }));
  };
}

type PointerRow = TransactionPlace & ReadPlace['slice'];

const POINTERS: Readonly<Record<PointerPrefix, { readonly name: string; readonly text: string }>> = {
  [Prefix.blockId]: pointersOf('block', ['0', '0', '0', '0']),
  [Prefix.collection]: pointersOf('collection', ['collection_index', '0', 'body_offset', 'bytes']),
  [Prefix.transaction]: pointersOf('transaction', [
    ...(['collection_index', 'transaction_index', 'body_offset', 'bytes'] as const),
  ]),
};

/** Rows of the id $1 in the ranges from $2 to $3. */
function pointersOf(
  table: string,
  [collection, transaction, offset, bytes]: readonly [string, string, string, string],
) {
  const text = `
    SELECT height, ${collection} AS "collectionIndex", ${transaction} AS "transactionIndex", ${offset} AS offset,
      ${bytes} AS length FROM flow_store.${table}
    WHERE id = $1 AND EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS covered (low, high)
      WHERE height BETWEEN low AND high)
    ORDER BY 1, 2, 3 LIMIT $4`;
  return { name: `${table}_places`, text };
}
