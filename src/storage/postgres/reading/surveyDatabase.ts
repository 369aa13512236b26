import { silentLogger } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';
import { databasePlace } from '../connection/databasePlace.js';
import { PostgresDatabase } from '../connection/PostgresDatabase.js';
import type { Session } from '../connection/Session.js';
import { readBook, storeRow } from '../tables/bookRows.js';
import { POSTGRES_SCHEMA_VERSION } from '../tables/schema.js';
import { readSizeBytes } from './loadStore.js';

/** What `doctor` learns about a database, in one read-only transaction. */
export type DatabaseSurvey = Awaited<ReturnType<typeof surveyDatabase>>;

const SERVER = `SELECT current_setting('server_version') AS version,
  current_user AS user, (SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl) AS tls,
  pg_is_in_recovery() AS "isReplica", ARRAY (SELECT name || ' = ' || setting FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes') AND setting <> 'on' ORDER BY name) AS unsafe,
  to_regclass('flow_store.store') IS NOT NULL AS "hasStore", coalesce((
    SELECT has_schema_privilege(relnamespace, 'USAGE') AND has_table_privilege(oid, 'SELECT') FROM pg_class
    WHERE relnamespace = to_regnamespace('flow_jobs') AND relname = 'version'), false) AS "hasJobs",
  json_build_object('max', current_setting('max_connections')::integer, 'used',
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')) AS connections`;

/** What a server reports about itself. */
interface ServerRow {
  readonly version: string;
  readonly user: string;
  /** It accepts no writes. */
  readonly isReplica: boolean;
  /** Server settings with which a power loss may lose committed data. */
  readonly unsafe: readonly string[];
  readonly connections: { readonly used: number; readonly max: number };
  /** The protocol, such as `TLSv1.3`; `null` for an unencrypted connection. */
  readonly tls: string | null;
  readonly hasStore: boolean;
  readonly hasJobs: boolean;
}

/** Changes nothing. Expected errors: `OperatorError` (the URL, a pooler without sessions), `StorageError` (no answer, or a refusal). */
export async function surveyDatabase(
  options: { readonly url: string; readonly key: string },
  { clock }: { readonly clock: Clock },
) {
  const parts = { clock, logger: silentLogger };
  const database = new PostgresDatabase(databasePlace(options.url, options.key), parts);
  try {
    await database.requireSessions();
    return await database.snapshot(async (session) => {
      const server = await storeRow<ServerRow>(session, { text: SERVER });
      const askedAtMs = clock.monotonic();
      await session.query({ text: 'SELECT 1' });
      const roundTripMs = clock.monotonic() - askedAtMs;
      const { hasJobs, hasStore, tls, ...facts } = server;
      const store = hasStore ? await surveyTables(session) : undefined;
      const jobs = { text: 'SELECT version FROM flow_jobs.version' };
      const found = hasJobs ? await session.query<{ version: number }>(jobs) : undefined;
      // Of pg-boss' tables; `undefined`: there are none, or they may not be read.
      const jobsVersion = found?.rows[0]?.version;
      return { ...facts, place: database.place, store, jobsVersion, roundTripMs, tls: tls ?? undefined };
    });
  } finally {
    await database.close();
  }
}

/** `undefined`: they are not filled yet. */
async function surveyTables(session: Session) {
  const { rows } = await session.query<{ readonly schemaVersion: number }>({
    text: 'SELECT schema_version AS "schemaVersion" FROM flow_store.store',
  });
  const [row] = rows;
  if (row === undefined) return undefined;
  const common = { ...row, bytes: await readSizeBytes(session) };
  // The tables of a newer version may mean something else.
  if (row.schemaVersion > POSTGRES_SCHEMA_VERSION) return { ...common, coverage: [], sporks: [], plans: [] };
  const { coverage, meta, plans } = await readBook(session);
  // The live range last.
  return { ...common, coverage: coverage.filter(({ from, to }) => to >= from), sporks: meta.sporks, plans };
}
