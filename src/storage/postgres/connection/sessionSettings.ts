/**
 * What a statement means, and how its answer is written, depends on settings that a role, a database or a server may have
 * changed. Every connection sets those that our statements and those of pg-boss depend on.
 */
const NEEDED: Readonly<Record<string, string>> = {
  // How a statement is read.
  standard_conforming_strings: 'on',
  backslash_quote: 'safe_encoding',
  transform_null_equals: 'off',
  array_nulls: 'on',
  client_encoding: 'UTF8',
  quote_all_identifiers: 'off',
  check_function_bodies: 'on',
  'plpgsql.extra_errors': 'none',
  'plpgsql.extra_warnings': 'none',
  // How values are written.
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '1',
  // What a transaction promises.
  synchronous_commit: 'on',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  // Rows that a policy hides are an error, not a hole in the index.
  row_security: 'off',
  // What ends a session.
  idle_session_timeout: '0',
  transaction_timeout: '0',
  // The server notices a machine that is gone, and its locks go with it.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
  client_min_messages: 'warning',
};

/** The name of our own setting, which tells the sessions apart. */
const MARK = 'flow_collection_indexer.session';

/**
 * Sets up a new session, and tells the number of its server process. The first two statements let the third one run, and
 * make its names mean those of the server. A role that only reads by default may write; where the database or the server is read-only by
 * default, its host means it: the disk may be full.
 */
export function setUp(own: Readonly<Record<string, string>>, mark: string): string {
  const values = Object.entries({ ...NEEDED, default_transaction_read_only: 'off', ...own });
  return `SET statement_timeout TO 0;
    SET search_path TO '';
    SELECT pg_backend_pid() AS pid, set_config('${MARK}', '${mark}', false), (
      SELECT count(set_config(name, value, false))
      FROM (VALUES ${values.map(([name, value]) => `('${name}', '${value}')`).join()}) AS needed (name, value)
      WHERE current_setting(name, true) IS NOT NULL
        AND (name <> 'default_transaction_read_only' OR EXISTS (
          SELECT FROM pg_settings WHERE name = 'default_transaction_read_only' AND source IN ('user', 'database user'))))`;
}

/** Whether a session is still the one that was set up. */
export const WHOSE = `SELECT pg_backend_pid() AS pid, current_setting('${MARK}', true) AS mark`;
