import { expect, it, onTestFinished, vi } from 'vitest';
import { loadPostgres } from '../../../src/storage/index.js';
import { asAdmin, begin, parts, plainChain, usePostgres } from '../../support/index.js';

/** What a role, or the role in one database, may have as its default, to the harm of a program that relies on another. */
const HOSTILE: readonly (readonly [name: string, value: string])[] = [
  ['standard_conforming_strings', 'off'],
  ['backslash_quote', 'off'],
  ['transform_null_equals', 'on'],
  ['array_nulls', 'off'],
  ['client_encoding', 'LATIN1'],
  ['quote_all_identifiers', 'on'],
  ['check_function_bodies', 'off'],
  ['plpgsql.extra_errors', 'all'],
  ['search_path', 'evil, pg_catalog, nowhere'],
  ['DateStyle', 'German, DMY'],
  ['IntervalStyle', 'iso_8601'],
  ['TimeZone', 'Asia/Kathmandu'],
  ['bytea_output', 'escape'],
  ['extra_float_digits', '-15'],
  ['jit', 'on'],
  ['synchronous_commit', 'off'],
  ['default_transaction_isolation', 'serializable'],
  ['default_transaction_deferrable', 'on'],
  ['default_transaction_read_only', 'on'],
  ['row_security', 'on'],
  ['statement_timeout', '20'],
  ['lock_timeout', '1'],
  ['idle_in_transaction_session_timeout', '1'],
  ['idle_session_timeout', '700'],
  ['client_min_messages', 'debug5'],
];

vi.setConfig({ testTimeout: 120_000 });
const postgres = usePostgres();
const quoted = (name: string, value: string) => (name === 'search_path' ? value : `'${value}'`);
const defaultsOf = (role: string, settings: typeof HOSTILE): string =>
  settings.map(([name, value]) => `ALTER ROLE ${role} SET ${name} = ${quoted(name, value)};`).join(' ');

/** A database, and a role of its own with these defaults. */
const home = async (settings: typeof HOSTILE) => {
  const { url } = await postgres.home({ isEmpty: true });
  const role = `odd_${Math.random().toString(36).slice(2)}`;
  const its = Object.assign(new URL(url), { username: role });
  const database = its.pathname.slice(1);
  await asAdmin(
    url,
    `CREATE ROLE ${role} LOGIN; GRANT ALL ON DATABASE ${database} TO ${role}; ${defaultsOf(role, settings)}
        CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO ${role};
        CREATE TABLE evil.pg_settings (name text, source text);
        CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL';
        CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL';
        CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::timestamptz $$`,
  );
  onTestFinished(async () => {
    await postgres.now();
    await asAdmin(url, `DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
  });
  return { url, its: its.href };
};

it('none of that holds for a session of ours, alone or beside the others', async () => {
  const { databasePlace, PostgresDatabase } = await loadPostgres();
  const { url, its } = await home([]);
  const role = new URL(its).username;
  for (const settings of [...HOSTILE.map((each) => [each]), HOSTILE]) {
    await asAdmin(url, `ALTER ROLE ${role} RESET ALL; ${defaultsOf(role, settings)}`);
    const opened = new PostgresDatabase(databasePlace(its), parts());
    const database = await postgres.later(Promise.resolve(opened));
    for (const [name, value] of settings) {
      const asked = { text: `SELECT current_setting('${name}') AS now` };
      const shown = [
        await database.query<{ now: string }>(asked),
        await database.transaction((session) => session.query<{ now: string }>(asked)),
      ];
      for (const { rows } of shown) expect(rows[0]?.now, name).not.toBe(value);
    }
  }
});

it('rows that a policy hides are an error, not a hole', async () => {
  const { url, its } = await home([['row_security', 'on']]);
  const store = await begin(postgres.open(its), 30, plainChain(30, 3));
  for (const how of ['ENABLE', 'FORCE'])
    await asAdmin(url, `ALTER TABLE flow_store.block ${how} ROW LEVEL SECURITY`);
  const reader = postgres.open(its, { isReadOnly: true, create: false });
  await expect(reader).rejects.toMatchObject({ exit: 'storage', code: '42501' });
  await asAdmin(url, 'ALTER TABLE flow_store.block DISABLE ROW LEVEL SECURITY');
  expect((await store.blockByHeight(30))?.block.height).toBe(30);
});
