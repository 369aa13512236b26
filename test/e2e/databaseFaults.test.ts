import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { asAdmin, atEnd, devnetForTest, eventually, runCommand, runDaemonHere } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, startDaemonHere } from '../support/daemons.js';
import { usePostgres } from '../support/daemons.js';

/** A superuser who signs in with a password, which `passwordFile` holds, for PGPASSFILE; `hold` puts another one there. */
async function passwordRole(url: string, name: string, password: string) {
  const { rows } = await asAdmin(url, 'SHOW hba_file');
  const { hba_file: rules } = rows[0] as { hba_file: string };
  const before = readFileSync(rules, 'utf8');
  const write = async (text: string): Promise<void> => {
    writeFileSync(rules, text);
    await asAdmin(url, 'SELECT pg_reload_conf()');
  };
  await asAdmin(url, `CREATE ROLE ${name} LOGIN PASSWORD '${password}' SUPERUSER`);
  atEnd(() => write(before));
  await write(`host all ${name} 127.0.0.1/32 scram-sha-256\n${before}`);
  const { host, hostname, port, pathname } = new URL(url);
  const passwordFile = join(scratchDirectory(), 'passwords');
  const hold = (held: string): void =>
    writeFileSync(passwordFile, `${hostname}:${port}:*:${name}:${held}\n`, { mode: 0o600 });
  hold(password);
  return { url: `postgres://${name}@${host}${pathname}`, passwordFile, hold };
}

const HEAD = 20;

/** The commands that touch a store, with what they need besides its place. */
const COMMANDS: readonly (readonly string[])[] = [
  ['get', 'block', '5'],
  ['explain', '5'],
  ['export', '--from', '0', '--to', '5', '--format', 'ndjson'],
  ['verify'],
  ['repair'],
  ['repair', '--yes'],
  ['rewind', '--to', '5', '--yes'],
  ['backfill', 'status'],
  ['backfill', 'plan', '--from', '0', '--to', '3'],
  ['backfill', 'redrive'],
  ['workers'],
];

const postgres = usePostgres({ isOwn: true });

const begin = async () => {
  const devnet = await devnetForTest({ seed: 7, startHead: HEAD, paused: true, sealedLag: 0 });
  const { url } = await postgres.home();
  const start = (...flags: string[]): string[] =>
    startArguments(devnet, scratchDirectory(), '--start-height', '0', ...flags);
  return { devnet, start, url };
};

it('is quoted by every command, which ends with 74', async () => {
  const { start, url } = await begin();
  const faults = await postgres.faultsBefore(url);
  expect((await runDaemonHere([...start('--store', url), '--stop-height', String(HEAD)])).code).toBe(0);
  const where = ['--network', 'devnet', '--data-dir', scratchDirectory(), '--store', faults.url];
  const migrate = ['migrate', '--network', 'devnet', '--from', faults.url, '--to', scratchDirectory()];
  const commands = [...COMMANDS.map((command) => [...command, ...where]), migrate];
  const doctor = ['doctor', ...start('--store', faults.url).slice(1)];
  for (const [kind, code] of [
    ['startup', 'XX000'],
    ['statements', 'P0001'],
  ] as const) {
    faults.script = (request) => (request.kind === kind ? { code, message: 'not today' } : undefined);
    const ran = await Promise.all([...commands, doctor].map((command) => runCommand(command)));
    for (const [index, { code: exit, stderr, stdout }] of ran.entries()) {
      const said = [stdout, stderr].join('');
      expect([exit, said], commands[index]?.join(' ')).toEqual([
        74,
        expect.stringContaining(`not today [SQLSTATE ${code}]`),
      ]);
      expect(said).not.toMatch(/fault of the program|tries again|\n {4}at /);
    }
  }
});

it('is named where it refuses readers alone, though none asks', async () => {
  const { start, url } = await begin();
  const faults = await postgres.faultsBefore(url);
  const daemon = await startDaemonHere(start('--store', faults.url));
  await daemon.reaches(HEAD);
  await daemon.ready();
  const full = { code: '53300', message: 'no connection is left' };
  faults.script = ({ text }) => (/^SELECT\W*$|FROM flow_store\.body/.test(text) ? full : undefined);
  expect((await daemon.reason('database_unreachable')).message).toContain(full.message);
  expect((await daemon.api('/v1/blocks?height=10')).status).toBe(503);
  faults.script = () => undefined;
  await daemon.ready();
  expect((await daemon.api('/v1/blocks?height=10')).status).toBe(200);
});

it('because the password has changed, is asked again with that of the file', async () => {
  const { devnet, start, url } = await begin();
  if (postgres.server().machine === undefined) {
    // Somebody else's server keeps its rules.
    expect(process.env['PGURL']).toBeDefined();
    return;
  }
  const role = await passwordRole(url, 'rotated', 'old-one');
  for (const [store, words] of [
    [role.url, /Give the password in PGPASSWORD, or in the file that PGPASSFILE names/],
    [role.url.replace('@', ':wrong-one@'), /password authentication failed .*PGPASSFILE/],
  ] as const) {
    const { code, stderr } = await runCommand(['verify', '--network', 'devnet', '--store', store]);
    expect([code, stderr]).toEqual([74, expect.stringMatching(words)]);
    expect(stderr).not.toMatch(/wrong-one|rotated:/);
  }
  const environment = { PGPASSFILE: role.passwordFile, NODE_PG_FORCE_NATIVE: '1' };
  const daemon = await startDaemon(start('--store', role.url), environment);
  await daemon.reaches(HEAD);
  const rotated = `ALTER ROLE rotated PASSWORD 'new-one';
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'`;
  await asAdmin(url, rotated);
  devnet.node.head.advance(1);
  await eventually(async () => {
    const reasons = JSON.stringify(await daemon.reasons());
    const named = ['password authentication failed', '28P01', 'PGPASSFILE', 'database_unreachable'];
    return named.every((each) => reasons.includes(each));
  });
  for (let at = 0; at < 5; at += 1) expect((await daemon.api('/v1/blocks?height=10')).status).toBe(503);
  role.hold('new-one');
  await daemon.reaches(HEAD + 1);
  await daemon.ready();
  expect((await daemon.api('/v1/blocks?height=10')).status).toBe(200);
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stdout + daemon.program.stderr).not.toMatch(/old-one|new-one/);
});
