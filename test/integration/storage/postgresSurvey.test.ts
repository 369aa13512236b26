import { expect, it, onTestFinished, vi } from 'vitest';
import { loadPostgres } from '../../../src/storage/index.js';
import { asAdmin, commitThrough, fault, fill, plainChain, range, refusal } from '../../support/index.js';
import { rowsOf, usePostgres } from '../../support/index.js';

const chain = plainChain(10, 25);

const postgres = usePostgres({ isOwn: true });

const { opening, surveyed } = postgres;

/** A role that may log in and nothing else, and the URL by which it does. */
const stranger = async (url: string): Promise<{ readonly name: string; readonly its: string }> => {
  const name = `stranger_${Math.random().toString(36).slice(2)}`;
  await asAdmin(url, `CREATE ROLE ${name} LOGIN PASSWORD 'hush'`);
  onTestFinished(async () => {
    await postgres.now();
    await asAdmin(url, `DROP OWNED BY ${name}; DROP ROLE ${name}`);
  });
  const its = Object.assign(new URL(url), { username: name, password: 'hush' });
  return { name, its: its.href };
};

it('of one without tables tells the server and who asks', async () => {
  const { url } = await postgres.home();
  const survey = await surveyed(url);
  expect(survey).toMatchObject({
    ...{ tls: undefined, isReplica: false },
    ...{ store: undefined, jobsVersion: undefined, version: expect.stringMatching(/^\d+/) as string },
  });
  expect(survey.place).not.toContain('@');
  expect(survey.roundTripMs).toBeGreaterThan(0);
  expect(survey.connections.used).toBeGreaterThan(0);
  expect(survey.connections.used).toBeLessThanOrEqual(survey.connections.max);
  const error = fault('missing', 'Check the network and the URL, or run "start" first');
  await expect(opening(url, { create: false })).rejects.toMatchObject(error);
  expect((await surveyed(url)).store).toBeUndefined();
});

it('of a store tells its ranges, plans and size, changes nothing, and reads but the version of a newer one', async () => {
  const { store, url } = await postgres.filled(30);
  expect((await surveyed(url)).store).toMatchObject({ coverage: [], sporks: [{ rootHeight: 30 }] });
  await commitThrough(store, chain, 32);
  await fill(store, chain, range(10, 14));
  const plan = { id: 1, from: 16, to: 20, order: 'newest', isPaused: true } as const;
  await store.ranges.change({ plans: [plan] });
  const survey = await surveyed(url);
  expect(survey.store).toMatchObject({
    plans: [plan],
    coverage: [range(10, 14), range(30, 32)],
    sporks: [{ rootHeight: 30, sporkId: 'aa' }],
  });
  expect(survey.store?.bytes).toBeGreaterThan(0);
  await commitThrough(store, chain, 34);
  await store.close();
  await asAdmin(url, 'UPDATE flow_store.store SET schema_version = 99');
  expect((await surveyed(url)).store).toMatchObject({
    ...{ schemaVersion: 99, coverage: [], sporks: [], plans: [] },
  });
  await expect(opening(url)).rejects.toMatchObject(
    refusal('configuration', 'Upgrade the program, or choose another database'),
  );
});

it('finds no store where its one row is gone, and tells the version of the job queue where there is one', async () => {
  const { url } = await postgres.home();
  await (await postgres.open(url)).close();
  await asAdmin(url, 'DELETE FROM flow_store.store');
  expect((await surveyed(url)).store).toBeUndefined();
  await expect(opening(url)).rejects.toMatchObject(
    fault('corrupt', 'row of flow_store.store: it is missing. That table was changed from outside'),
  );
  await asAdmin(url, 'CREATE TABLE flow_jobs.version (version integer)');
  expect((await surveyed(url)).jobsVersion).toBeUndefined();
  await asAdmin(url, 'INSERT INTO flow_jobs.version VALUES (24)');
  expect((await surveyed(url)).jobsVersion).toBe(24);
});

it('names the settings with which a power loss takes what was committed', async () => {
  const { url } = await postgres.home();
  const { unsafe } = await surveyed(url);
  const off = `SELECT name || ' = ' || setting AS words FROM pg_settings
      WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name`;
  expect(unsafe.map((words) => ({ words }))).toEqual(await rowsOf(url, off));
  if (postgres.server().machine === undefined) return;
  const set = async (how: string) => {
    await asAdmin(url, `ALTER SYSTEM ${how}`);
    await asAdmin(url, 'SELECT pg_reload_conf()');
  };
  onTestFinished(() => set('RESET full_page_writes'));
  await set('SET full_page_writes = off');
  await expect.poll(async () => (await surveyed(url)).unsafe).toContain('full_page_writes = off');
});

it('says to a user without rights at the open what to do', async () => {
  const { url } = await postgres.home();
  const { its, name } = await stranger(url);
  expect(await surveyed(its)).toMatchObject({ user: name, store: undefined });
  const says = /permission denied for database .*Grant it: .*, or may create schemas/;
  await expect(opening(its)).rejects.toMatchObject(fault('permission', says));
  const { url: other } = await postgres.home();
  const given = await stranger(other);
  const schemas = ['flow_store', 'flow', 'flow_jobs'].map(
    (each) => `CREATE SCHEMA ${each} AUTHORIZATION ${given.name}`,
  );
  await asAdmin(other, schemas.join(';'));
  await opening(given.its);
  await postgres.queue(given.its);
  await (await postgres.open(url)).close();
  await expect(surveyed(its)).rejects.toMatchObject({ kind: 'permission' });
  const all = 'ON ALL TABLES IN SCHEMA flow_store';
  await asAdmin(url, `GRANT USAGE ON SCHEMA flow_store TO ${name}; GRANT SELECT ${all} TO ${name}`);
  expect((await surveyed(its)).store).toMatchObject({ coverage: [] });
});

it('shows a place without credentials: one of a socket, of an address, or of the usual host and port', async () => {
  const { databasePlace } = await loadPostgres();
  for (const [url, itsPlace] of [
    ['postgres://me:secret@[::1]/flow', '::1:5432'],
    ['postgresql:///flow', 'localhost:5432'],
    ['postgres://%2Frun%2Fpostgresql:5433/flow', 'localhost (/run/postgresql):5433'],
    ['postgres:///flow?host=/run/postgresql', 'localhost (/run/postgresql):5432'],
  ] as const)
    expect(databasePlace(url).shown).toBe(`postgres://${itsPlace}/flow`);
});

it('takes the password of PGPASSWORD, where the URL has none', async () => {
  const { databasePlace } = await loadPostgres();
  onTestFinished(() => void vi.unstubAllEnvs());
  // As the package calls it.
  const asked = [{ host: 'host', port: 5432, database: 'flow', user: 'me' }];
  const passwordOf = async (url: string): Promise<unknown> => {
    const { password } = databasePlace(url).config;
    return typeof password === 'function' ? Reflect.apply(password, undefined, asked) : password;
  };
  vi.stubEnv('PGPASSWORD', 'from the environment');
  expect(await passwordOf('postgres://me:secret@host/flow')).toBe('secret');
  expect(await passwordOf('postgres://me@host/flow')).toBe('from the environment');
  // As a secret that was made from a file has it.
  vi.stubEnv('PGPASSWORD', ' from a file\r\n');
  expect(await passwordOf('postgres://me@host/flow')).toBe(' from a file');
  vi.stubEnv('PGPASSWORD', '\n');
  vi.stubEnv('PGPASSFILE', '/no/such/file');
  expect(await passwordOf('postgres://host/flow')).toBeUndefined();
});
