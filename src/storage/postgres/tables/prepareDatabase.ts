import { OperatorError } from '../../../runtime/index.js';
import { checkMeta } from '../../records/book/checkMeta.js';
import type { Entry } from '../../records/Database.js';
import { heightKey, Prefix } from '../../records/schema.js';
import { DatabaseFault } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { lockStore, storeRow } from './bookRows.js';
import { NOTHING_LACKS } from './completeTables.js';
import { DATA_TABLES, LATER_STATEMENTS, OLDEST_SERVER, PARTITION_HEIGHTS } from './schema.js';
import { POSTGRES_SCHEMA_VERSION, SCHEMA_STATEMENTS, schemaMade, VIEWS } from './schema.js';

/** The advisory lock that is held while tables or views are created. */
const MAKING = 1_179_402_084;

/**
 * Makes sure that the database holds the program's tables, for the chain. False: `completeTables` must follow. Expected errors:
 * `StorageError` (`missing` without tables and `create`: a replica may be about to receive them); `OperatorError`: `foreign` for
 * a store of another chain, `configuration` for a newer schema, a server that is too old and a pooler without sessions.
 */
export async function prepareDatabase(
  database: PostgresDatabase,
  { chainId, create, isReadOnly }: Readonly<{ chainId: string; create: boolean; isReadOnly: boolean }>,
): Promise<boolean> {
  await database.requireSessions();
  await checkServer(database);
  if (!(await hasTable(database, 'store'))) {
    if (!create)
      throw new DatabaseFault(
        'missing',
        `There is no store at ${database.place}. Check the network and the URL, or run "start" first.`,
        {},
      );
    await make(database, async (session) => {
      if (await hasTable(session, 'store')) return;
      await session.query({ text: SCHEMA_STATEMENTS.join(';\n') });
      const text = `INSERT INTO flow_store.store VALUES (1, $1, $2, '', 0, 0)`;
      await session.query({ text, values: [1, chainId] });
    });
  }
  interface StoreRow {
    readonly schemaVersion: number;
    readonly chainId: string;
    /** It has what a store of an earlier version lacks. */
    readonly isCurrent: boolean;
    /** See `completeTables`. */
    readonly isComplete: boolean;
    readonly isReplica: boolean;
  }
  const row = await storeRow<StoreRow>(database, {
    text: `SELECT schema_version AS "schemaVersion", chain_id AS "chainId",
      to_regclass('flow_store.evidence') IS NOT NULL AND EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = 'flow_store.plan'::regclass AND attname = 'heals') AS "isCurrent",
      ${NOTHING_LACKS} AS "isComplete", pg_is_in_recovery() AS "isReplica"
      FROM flow_store.store`,
  });
  const usable = { chainId, newestVersion: POSTGRES_SCHEMA_VERSION, holder: 'database' } as const;
  checkMeta(row, { path: database.place, ...usable });
  // A replica receives what is created on its primary server, a little later.
  if (isReadOnly || row.isReplica) return true;
  if (!row.isCurrent)
    await make(database, async (session) => {
      await session.query({ text: LATER_STATEMENTS.join(';\n') });
    });
  await make(database, makeViews);
  return row.isComplete;
}

/** Creates missing views (see `completeTables` for outdated ones), and the schema of the queue, which creates its own tables. */
async function makeViews(session: Session): Promise<void> {
  const { rows } = await session.query<{ view: string }>({
    text: `SELECT view FROM unnest($1::text[]) AS view WHERE NOT EXISTS (SELECT FROM pg_class
      JOIN pg_namespace namespace ON namespace.oid = relnamespace WHERE nspname = 'flow' AND relname = view)`,
    values: [[...VIEWS.keys()]],
  });
  const views = rows.map(({ view }) => `CREATE VIEW flow.${view} AS ${VIEWS.get(view) ?? ''}`);
  await session.query({ text: [...['flow', 'flow_jobs'].map(schemaMade), ...views].join(';\n') });
}

async function checkServer(database: PostgresDatabase): Promise<void> {
  const { rows } = await database.query<{ number: number; version: string }>({
    text: `SELECT current_setting('server_version_num')::integer AS number, current_setting('server_version') AS version`,
  });
  const [server] = rows;
  if (server === undefined || server.number >= OLDEST_SERVER * 10_000) return;
  throw new OperatorError(
    'configuration',
    `The server at ${database.place} is PostgreSQL ${server.version}, which is too old: ${OLDEST_SERVER} or newer is needed.`,
  );
}

async function hasTable(session: Session, table: string): Promise<boolean> {
  const { rows } = await session.query<{ found: boolean }>({
    text: `SELECT to_regclass('flow_store.${table}') IS NOT NULL AS found`,
  });
  return rows[0]?.found === true;
}

/** Makes what is missing, while no other process does. */
function make(database: PostgresDatabase, work: (session: Session) => Promise<void>): Promise<void> {
  return database.transaction(async (session) => {
    await session.query({ text: 'SELECT pg_advisory_xact_lock($1)', values: [MAKING] });
    await work(session);
  });
}

/** The evidence of a database, ascending, as LevelDB has it. A store of an earlier version, which is only read, has none. */
export async function readEvidence(session: Session): Promise<Entry[]> {
  if (!(await hasTable(session, 'evidence'))) return [];
  const { rows } = await session.query<{ height: number; record: Buffer }>({
    text: 'SELECT height, record FROM flow_store.evidence ORDER BY height',
  });
  return rows.map(({ height, record }) => [heightKey(Prefix.evidence, height), record]);
}

/** Creates the partitions of the data tables before the first height of each is written. Expected errors: `StorageError`. */
export function partitionMaker(database: PostgresDatabase): (heights: readonly number[]) => Promise<void> {
  const known = new Set<number>();
  return async (heights) => {
    for (const partition of new Set(heights.map((height) => Math.floor(height / PARTITION_HEIGHTS)))) {
      if (known.has(partition)) continue;
      await database.write((session) => makePartition(session, partition));
      known.add(partition);
    }
  };
}

async function makePartition(session: Session, partition: number): Promise<void> {
  // One process at a time creates partitions.
  await lockStore(session);
  const { rows } = await session.query<{ table: string }>({
    text: `SELECT wanted AS table FROM unnest($1::text[]) AS wanted WHERE NOT EXISTS (SELECT FROM pg_class
      WHERE oid = to_regclass('flow_store.' || wanted || '_' || $2) AND relispartition)`,
    values: [Object.keys(DATA_TABLES), String(partition)],
  });
  if (rows.length === 0) return;
  const from = partition * PARTITION_HEIGHTS;
  // Each is created alone and then attached: creating it in place would lock the whole table, and wait for all its readers.
  const statements = rows.map(({ table }) => {
    const [whole, name] = [`flow_store.${table}`, `flow_store.${table}_${partition}`];
    return `CREATE TABLE IF NOT EXISTS ${name} (LIKE ${whole} INCLUDING ALL);
      ALTER TABLE ${whole} ATTACH PARTITION ${name} FOR VALUES FROM (${from}) TO (${from + PARTITION_HEIGHTS})`;
  });
  await session.query({ text: statements.join(';\n') });
}
