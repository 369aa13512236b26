import { OperatorError } from '../../../runtime/index.js';
import { checkMeta } from '../../records/book/checkMeta.js';
import type { Entry } from '../../records/Database.js';
import { heightKey, Prefix } from '../../records/schema.js';
import { DatabaseFault } from '../../StorageError.js';
import type { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { lockStore, storeRow } from './bookRows.js';
import { DATA_TABLES, OLDEST_SERVER, PARTITION_HEIGHTS, POSTGRES_SCHEMA_VERSION } from './schema.js';
import { SCHEMA_STATEMENTS, unless, UPKEEP_STATEMENTS } from './schema.js';

/** The advisory lock that is held while tables or views are created. */
const MAKING = 1_179_402_084;

/**
 * Makes sure that the database holds the program's tables, for the chain. Expected errors:
 * `StorageError` (`missing` without tables and `create`: a replica may be about to receive them); `OperatorError`: `foreign` for
 * a store of another chain, `configuration` for a newer schema, a server that is too old and a pooler without sessions.
 */
export async function prepareDatabase(
  database: PostgresDatabase,
  { chainId, create, isReadOnly }: Readonly<{ chainId: string; create: boolean; isReadOnly: boolean }>,
): Promise<void> {
  await database.requireSessions();
  const server = await storeRow<{ number: number; version: string; hasStore: boolean }>(database, {
    text: `SELECT current_setting('server_version_num')::integer AS number, current_setting('server_version') AS version,
      to_regclass('flow_store.store') IS NOT NULL AS "hasStore"`,
  });
  if (server.number < OLDEST_SERVER * 10_000)
    throw new OperatorError(
      'configuration',
      `The server at ${database.place} is PostgreSQL ${server.version}, which is too old: ${OLDEST_SERVER} or newer is needed.`,
    );
  if (!server.hasStore) {
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
  const row = await storeRow<{ schemaVersion: number; chainId: string; isReplica: boolean }>(database, {
    text: `SELECT schema_version AS "schemaVersion", chain_id AS "chainId", pg_is_in_recovery() AS "isReplica"
      FROM flow_store.store`,
  });
  const usable = { chainId, newestVersion: POSTGRES_SCHEMA_VERSION, holder: 'database' } as const;
  checkMeta(row, { path: database.place, ...usable });
  // A replica receives what is created on its primary server, a little later.
  if (isReadOnly || row.isReplica) return;
  await make(database, (session) => session.query({ text: UPKEEP_STATEMENTS.join(';\n') }));
}

async function hasTable(session: Session, table: string): Promise<boolean> {
  const { rows } = await session.query<{ found: boolean }>({
    text: `SELECT to_regclass('flow_store.${table}') IS NOT NULL AS found`,
  });
  return rows[0]?.found === true;
}

/** Makes what is missing, while no other process does. */
function make(database: PostgresDatabase, work: (session: Session) => Promise<unknown>) {
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
      await database.write(async (session) => {
        // One process at a time creates partitions.
        await lockStore(session);
        await session.query({ text: partitionMade(partition) });
      });
      known.add(partition);
    }
  };
}

function partitionMade(partition: number): string {
  const from = partition * PARTITION_HEIGHTS;
  // Each is created alone and then attached: creating it in place would lock the whole table, and wait for all its readers.
  const statements = Object.keys(DATA_TABLES).map((table) => {
    const [whole, name] = [`flow_store.${table}`, `flow_store.${table}_${partition}`];
    const attached = `EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('${name}') AND relispartition)`;
    return unless(
      attached,
      `CREATE TABLE IF NOT EXISTS ${name} (LIKE ${whole} INCLUDING ALL);
      ALTER TABLE ${whole} ATTACH PARTITION ${name} FOR VALUES FROM (${from}) TO (${from + PARTITION_HEIGHTS})`,
    );
  });
  return statements.join(';\n');
}
