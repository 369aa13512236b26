import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { answered, asAdmin, devnetForTest, eventually, refused, runCommand } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemonHere, storeFlags, until } from '../support/daemons.js';
import { usePostgres } from '../support/daemons.js';

const HEIGHTS = 60;

const postgres = usePostgres();

const begin = async () => {
  const devnet = await devnetForTest({ seed: 7, startHead: HEIGHTS - 1, paused: true, sealedLag: 0 });
  const { url } = await postgres.home({ isEmpty: true });
  const dataDir = scratchDirectory();
  const run = (...args: string[]) => runCommand([...args, ...storeFlags(dataDir, url)]);
  return { devnet, url, dataDir, store: ['--store', url], run };
};

it('indexes, answers, never tells a password, and is served by every command', async () => {
  const { devnet, dataDir, run, store, url } = await begin();
  const named = new URL(url);
  // This server takes any password.
  named.password = 'hush-hush';
  const environment = { FCI_STORE: named.href, FCI_API_STORE: named.href };
  const start = startArguments(devnet, dataDir, '--start-height', '0', '--index-accounts');
  const daemon = await startDaemonHere([...start, '--log-level', 'debug'], environment);
  await daemon.reaches(HEIGHTS - 1);
  // The API reads the database for itself, and follows what is written there.
  await until(async () => (await daemon.api(`/v1/blocks?height=${HEIGHTS - 1}`)).status === 200);
  const block = await daemon.api('/v1/blocks?height=30&expand=payload');
  expect(block.status).toBe(200);
  expect((await daemon.health('/readyz')).status).toBe(200);
  const one = `SELECT encode(id, 'hex') AS id, encode(payer, 'hex') AS payer FROM flow.transaction LIMIT 1`;
  const first = await asAdmin(url, one);
  const { id, payer } = first.rows[0] as { id: string; payer: string };
  expect((await daemon.api(`/v1/transactions/${id}`)).status).toBe(200);
  const account = await daemon.api(`/accounts/${payer}/transactions`);
  expect(account.status).toBe(200);
  const metrics = await fetch(`${daemon.metricsUrl}/metrics`);
  const told = [
    JSON.stringify((await daemon.api('/status')).body),
    JSON.stringify((await daemon.health('/readyz')).body),
    await metrics.text(),
    await readFile(join(dataDir, 'daemon.json'), 'utf8'),
  ];
  const asked = ['status', ...storeFlags(dataDir)];
  const found = await runCommand(asked, environment);
  expect(found.code).toBe(0);
  expect((await runCommand([...asked, '--store', 'postgres://localhost/other'])).code).toBe(69);
  await daemon.program.stop();
  for (const text of [...told, daemon.program.stdout, daemon.program.stderr, found.stdout])
    expect(text).not.toContain('hush');
  expect((await run('get', 'transaction', id)).stdout).toContain(id);
  expect((await run('explain', '30')).code).toBe(0);
  expect(await run('verify')).toMatchObject(answered('no damage'));
  const out = join(dataDir, 'export.ndjson');
  expect((await run('export', '--from', '10', '--to', '19', '--output', out)).code).toBe(0);
  expect((await readFile(out, 'utf8')).trim().split('\n').length).toBeGreaterThan(9);
  expect((await run('rewind', '--to', '40', '--yes')).code).toBe(0);
  expect((await run('get', 'block', '41')).code).toBe(66);
  expect(await run('forget', 'accounts', '--yes')).toMatchObject(refused(64, 'the index is in a database'));
  const again = await startDaemonHere([...start, ...store]);
  await again.reaches(HEIGHTS - 1);

  const copy = scratchDirectory();
  const migrate = ['migrate', '--network', 'devnet', '--from', url, '--to', copy];
  expect(await runCommand(migrate)).toMatchObject({
    code: 0,
    stdout: `Copied ${HEIGHTS} heights. The target holds heights 0 to ${HEIGHTS - 1}.\n`,
  });
  const copied = await startDaemonHere(startArguments(devnet, copy));
  await copied.reaches(HEIGHTS - 1);
  expect(await runCommand(migrate)).toMatchObject(refused(74, 'in use'));
  await copied.program.stop();
  expect((await runCommand(migrate)).stdout).toContain(
    `Copied 0 heights; ${HEIGHTS} heights were there already`,
  );
  await again.program.stop();
});

it('is repaired: damaged heights become holes, which it fills in again, and nothing above is lost', async () => {
  const { devnet, dataDir, run, store, url } = await begin();
  const start = startArguments(devnet, dataDir, ...store, '--start-height', '0');
  const daemon = await startDaemonHere(start);
  await daemon.reaches(HEIGHTS - 1);
  const exported = async (name: string): Promise<string> => {
    const out = join(dataDir, name);
    expect((await run('export', '--from', '0', '--to', String(HEIGHTS - 1), '--output', out)).code).toBe(0);
    return readFile(out, 'utf8');
  };
  const before = await exported('before.ndjson');
  expect((await run('repair')).stdout).toBe('No damage: nothing to repair.\n');
  const isLed = refused(74, 'Stop all processes with the role live first');
  expect(await run('repair', '--yes')).toMatchObject(isLed);
  await daemon.program.stop();
  const damage = `UPDATE flow_store.body SET value = set_byte(value, 9, 255) WHERE height IN (SELECT min(height) FROM flow_store.body WHERE height > 9);
       DELETE FROM flow_store.block WHERE height BETWEEN 30 AND 32;
       DELETE FROM flow_store.transaction WHERE height > 39`;
  await asAdmin(url, damage);
  const [, damaged] = /height (\d+) \(block\)/.exec((await run('verify')).stdout) ?? [];
  expect(Number(damaged)).toBeGreaterThan(9);
  const plan = /^Can be kept: heights 0 to .* and 33 to 59\. Lost below that: 4 heights/;
  expect(await run('repair')).toMatchObject(answered(plan, 65));
  const done =
    `Repaired. Kept: heights 0 to ${Number(damaged) - 1}, ${Number(damaged) + 1} to 29 and 33 to 59. ` +
    `Lost below that: 4 heights, ${damaged} and 30 to 32. The daemon goes on at 60, and fills those in again.\n`;
  expect(await run('repair', '--yes')).toMatchObject({ code: 0, stdout: done });
  expect((await run('verify')).code).toBe(0);
  expect((await run('get', 'block', '40')).code).toBe(0);
  const again = await startDaemonHere(start);
  await eventually(async () => {
    const { rows } = await asAdmin(url, 'SELECT from_height, to_height FROM flow.coverage');
    return rows.length === 1;
  });
  await again.program.stop();
  expect(await exported('after.ndjson')).toBe(before);
  expect((await run('verify')).code).toBe(0);
});
