import { OperatorError } from '../../runtime/index.js';
import { StorageError } from '../StorageError.js';
import { faultOf } from './faults.js';
import type { PostgresDatabase, Session } from './PostgresDatabase.js';
import { OLDEST_SERVER, POSTGRES_SCHEMA_VERSION, SCHEMA_STATEMENTS } from './schema.js';

/** Any number that other programs are not likely to use. */
const LOCK_KEY = 0x666c6f77;
/** `unique_violation`, `duplicate_schema`, `duplicate_table`: somebody else makes the tables at this moment. */
const MADE_MEANWHILE = /^(?:23505|42P06|42P07)$/;

export interface StoreRow {
  readonly schema_version: number;
  readonly chain_id: string;
  readonly created_by: string;
}

/**
 * Makes sure that this is a database for the program, with its tables, of the chain. Expected errors: `StorageError`
 * (`missing` where nothing is to be created); `OperatorError`: `foreign` for another chain's, `configuration` for a
 * newer schema and a server that is too old.
 */
export async function prepareDatabase(
  database: PostgresDatabase,
  { chainId, create }: { readonly chainId: string; readonly create: boolean },
): Promise<StoreRow> {
  await checkServer(database);
  if (!(await hasTables(database))) {
    if (!create) {
      throw new StorageError(
        'missing',
        `There is no store at ${database.place}. Check the network and the URL, or run "start" first.`,
      );
    }
    await makeTables(database, chainId);
  }
  const { rows } = await database.query<StoreRow>({
    text: 'SELECT schema_version, chain_id, created_by FROM flow_store.store',
  });
  const [row] = rows;
  if (row === undefined) {
    throw new StorageError(
      'corrupt',
      `The store at ${database.place} is damaged: its row of flow_store.store is missing. Restore it from a copy.`,
    );
  }
  checkStore(row, chainId, database.place);
  return row;
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

async function hasTables(session: Session): Promise<boolean> {
  const { rows } = await session.query<{ found: boolean }>({
    text: `SELECT to_regclass('flow_store.store') IS NOT NULL AS found`,
  });
  return rows[0]?.found === true;
}

async function makeTables(database: PostgresDatabase, chainId: string): Promise<void> {
  try {
    await database.transaction(async (session) => {
      await session.query({ text: SCHEMA_STATEMENTS.join(';\n') });
      await session.query({
        text: `INSERT INTO flow_store.store VALUES (1, $1, $2, '', 0, 0)`,
        values: [POSTGRES_SCHEMA_VERSION, chainId],
      });
    });
  } catch (error) {
    const code =
      error instanceof Error && error.cause instanceof Error && 'code' in error.cause ? error.cause.code : '';
    if (!MADE_MEANWHILE.test(String(code))) throw error;
    if (!(await hasTables(database))) throw faultOf(error, 'make the tables', database.place);
  }
}

function checkStore(row: StoreRow, chainId: string, place: string): void {
  if (row.schema_version > POSTGRES_SCHEMA_VERSION) {
    throw new OperatorError(
      'configuration',
      `The store at ${place} was written by a newer version of this program (schema ${row.schema_version}, ` +
        `this one knows ${POSTGRES_SCHEMA_VERSION}). Upgrade the program, or choose another database.`,
    );
  }
  if (row.chain_id !== chainId) {
    throw new OperatorError(
      'foreign',
      `The store at ${place} belongs to chain ${row.chain_id}, not to ${chainId}. ` +
        'Choose the matching network, or another database.',
    );
  }
}

/**
 * Tells daemons and commands apart by a lock of the session: false when another one holds it. It spares them each other;
 * what makes two writers harmless is the fence.
 */
export async function tryLock(session: Session): Promise<boolean> {
  const { rows } = await session.query<{ taken: boolean }>({
    text: 'SELECT pg_try_advisory_lock($1) AS taken',
    values: [LOCK_KEY],
  });
  return rows[0]?.taken === true;
}

/** The error for a store that somebody else writes to. */
export async function lockedError(session: Session, place: string): Promise<StorageError> {
  const { rows } = await session.query<{ name: string }>({
    text: `SELECT application_name AS name FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE locktype = 'advisory' AND objid = $1 AND granted AND database = (SELECT oid FROM pg_database
        WHERE datname = current_database())`,
    values: [LOCK_KEY],
  });
  const holder = rows[0]?.name;
  return new StorageError(
    'locked',
    `The store at ${place} is in use by ${holder === undefined || holder === '' ? 'another daemon' : holder}. ` +
      'Stop it, wait for it, or choose another database.',
  );
}
