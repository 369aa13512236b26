import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { atEnd } from '../support/cleanup.js';
import { startSharingPooler } from '../support/poolers.js';
import { asAdmin } from '../support/postgresServer.js';
import { eventually, scratchDirectory } from '../support/program.js';
import {
  devnetForTest,
  runDaemonHere,
  startArguments,
  startDaemon,
  startDaemonHere,
} from '../support/runningDaemon.js';
import type { DaemonHere, RunningDaemon } from '../support/runningDaemon.js';
import { usePostgres } from '../support/storeKinds.js';
import { TcpFaults } from '../support/tcpFaults.js';

/**
 * Makes a superuser who signs in with a password, until the end of the test, at the server of `url`, which must be one of
 * ours: somebody else's keeps its rules. `url`: with the user and without the password, which `passwordFile` holds, for
 * PGPASSFILE; `hold` puts another one there.
 */
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

/** Waited for at the start, or silent: test/integration/storage/postgresFaults.test.ts. */
describe('a database that says something else than what is asked', { timeout: 180_000 }, () => {
  const postgres = usePostgres({ isOwn: true });

  const begin = async () => {
    const devnet = await devnetForTest({ seed: 7, startHead: HEAD, paused: true, sealedLag: 0 });
    const { url } = await postgres.home();
    const faults = await TcpFaults.before(url);
    atEnd(() => faults.close());
    const start = (...flags: string[]): string[] =>
      startArguments(devnet, scratchDirectory(), '--start-height', '0', ...flags);
    return { devnet, faults, start, url };
  };

  const reasonsOf = async (daemon: DaemonHere | RunningDaemon): Promise<string> =>
    JSON.stringify(await daemon.reasons());

  const names = (daemon: DaemonHere | RunningDaemon, ...words: readonly string[]) =>
    eventually(async () => {
      const reasons = await reasonsOf(daemon);
      return [...words, 'database_unreachable'].every((each) => reasons.includes(each));
    });

  it('ends neither the process that leads nor one that follows, and readers are told to come again', async () => {
    const { devnet, faults, start } = await begin();
    const daemons = [
      await startDaemonHere(start('--store', faults.url)),
      await startDaemonHere(start('--store', faults.url)),
    ];
    for (const daemon of daemons) await daemon.reaches(HEAD);
    let head = HEAD;
    // Any other one as well: test/integration/storage/postgresFaults.test.ts.
    for (const code of ['XX000', '28P01', '23505']) {
      faults.script = ({ kind }) =>
        kind === 'statements' ? { code, message: `this is ${code}` } : undefined;
      for (const daemon of daemons) {
        await names(daemon, `this is ${code} [SQLSTATE ${code}]`);
        const answer = await daemon.api('/v1/blocks?height=10');
        expect([answer.status, answer.body]).toMatchObject([503, { reason: 'storage' }]);
        expect((await daemon.health('/livez')).status).toBe(200);
      }
      devnet.node.head.advance(1);
      head += 1;
      faults.script = () => undefined;
      for (const daemon of daemons) await daemon.reaches(head);
    }
    for (const daemon of daemons) {
      await daemon.ready();
      expect((await daemon.api('/v1/blocks?height=10')).status).toBe(200);
      expect(await daemon.program.stop()).toBe(0);
    }
  });

  it('is quoted by every command, which ends with 74', async () => {
    const { faults, start, url } = await begin();
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

  it('is not the same as a bug or a fence: what a commit expects keeps its meaning', async () => {
    const { devnet, faults, start, url } = await begin();
    const daemon = await startDaemonHere(start('--store', faults.url));
    await daemon.reaches(HEAD);
    await asAdmin(
      url,
      `INSERT INTO flow_store.block SELECT ${HEAD + 1}, id, parent_id, time, collections, transactions, record
        FROM flow_store.block WHERE height = ${HEAD}`,
    );
    devnet.node.head.advance(1);
    expect(await daemon.program.exited).toBe(74);
    expect(daemon.program.stderr).toMatch(/duplicate key .*Run "verify"/);
  });

  it('because the password has changed, is asked again with that of the file', async () => {
    const { devnet, start, url } = await begin();
    if (postgres.server().machine === undefined) {
      // Somebody else's server keeps its rules.
      expect(process.env['PGURL']).toBeDefined();
      return;
    }
    const role = await passwordRole(url, 'rotated', 'old-one');
    const daemon = await startDaemon(start('--store', role.url), { PGPASSFILE: role.passwordFile });
    await daemon.reaches(HEAD);
    await asAdmin(
      url,
      `ALTER ROLE rotated PASSWORD 'new-one';
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'`,
    );
    devnet.node.head.advance(1);
    await names(daemon, 'password authentication failed', '28P01', 'PGPASSFILE');
    for (let at = 0; at < 5; at += 1) expect((await daemon.api('/v1/blocks?height=10')).status).toBe(503);
    role.hold('new-one');
    await daemon.reaches(HEAD + 1);
    await daemon.ready();
    expect((await daemon.api('/v1/blocks?height=10')).status).toBe(200);
    expect(await daemon.program.stop()).toBe(0);
    expect(daemon.program.stdout + daemon.program.stderr).not.toMatch(/old-one|new-one/);
  });

  describe('behind a pooler', () => {
    // PgBouncer, as it is shipped and in transaction mode: test/integration/storage/postgresPoolers.test.ts.
    it('that shares its sessions out, is refused by name', async () => {
      const { start, url } = await begin();
      const pooler = await startSharingPooler(url, { sessions: 2, choice: 'first' });
      atEnd(() => pooler.close());
      const where = ['--network', 'devnet', '--data-dir', scratchDirectory(), '--store', pooler.url];
      const doctor = ['doctor', ...start('--store', pooler.url).slice(1)];
      for (const command of [
        start('--store', pooler.url),
        doctor,
        ['get', 'block', '5', ...where],
        ['workers', ...where],
      ]) {
        const ran = await (command[0] === 'start' ? runDaemonHere(command) : runCommand(command));
        const { code, stderr, stdout } = ran;
        expect([code, stdout + stderr], command[0]).toEqual([
          78,
          expect.stringMatching(/There is a pooler .*pool_mode = session/),
        ]);
      }
    });
  });
});
