import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { create } from 'tar';
import { expect, it } from 'vitest';
import { answered, devnetForTest, dumpStore, firstDifference, refused } from '../support/daemons.js';
import { RestNode, runCommand, runDaemonHere, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemonHere, storeFlags, storePath } from '../support/daemons.js';

const HEIGHTS = 700;

it('copies of a store are made under a running daemon, hold whole blocks, grow on, and become a store again', async () => {
  const devnet = await devnetForTest({ seed: 11, startHead: HEIGHTS - 1, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--start-height', '0'));
  const backup = async (to: string) => runCommand(['backup', '--to', to, ...storeFlags(dataDir)]);
  const first = join(scratchDirectory(), 'first');
  const last = join(scratchDirectory(), "one user's last");
  expect(await backup(first)).toMatchObject({ code: 0, stderr: '' });
  await daemon.reaches(HEIGHTS - 1);
  await daemon.program.stop();
  const told = `Heights 0 to ${HEIGHTS - 1}; \\d+ tables, [\\d.]+ .iB as hard links, [\\d.]+ \\w+ copied`;
  const done = await backup(last);
  expect(done).toMatchObject(answered(new RegExp(told)));
  // As a shell takes it.
  const [, words = ''] = /"flow-collection-indexer (verify .*)" checks every block/.exec(done.stdout) ?? [];
  const typed = execFileSync('sh', ['-c', `printf '%s\\n' ${words}`], { encoding: 'utf8' });
  for (const verify of [['verify', ...storeFlags(first)], typed.trimEnd().split('\n')])
    expect(await runCommand(verify)).toMatchObject(answered('no damage'));
  // Tables are shared with the store: a copy costs hardly any space.
  const tables = readdirSync(storePath(last)).filter((name) => name.endsWith('.ldb'));
  expect(tables.some((name) => statSync(join(storePath(last), name)).nlink > 1)).toBe(true);
  const whole = await dumpStore(dataDir);
  const isTheSame = async (other: string) =>
    expect(firstDifference(await dumpStore(other), whole)).toBeUndefined();
  const stop = ['--stop-height', String(HEIGHTS - 1)];
  const grown = startArguments(devnet, first, '--start-height', '0', ...stop);
  expect(await runDaemonHere(grown)).toMatchObject({ code: 0 });
  await isTheSame(first);

  const restored = scratchDirectory();
  const restore = () => runCommand(['restore', '--from', last, ...storeFlags(restored)]);
  expect(await restore()).toMatchObject(answered(`Restored and verified: heights 0 to ${HEIGHTS - 1}`));
  await isTheSame(restored);
  expect(await restore()).toMatchObject(refused(74, 'already, and nothing is ever replaced'));

  const archive = await create({ cwd: last, gzip: true }, ['.']).concat();
  const server = await RestNode.start((_request, response) => {
    response.writeHead(200, { 'content-length': archive.length }).end(archive);
  });
  const seeded = scratchDirectory();
  const start = startArguments(devnet, seeded, ...stop, '--from-snapshot', `${server.url}/snapshot.tar`);
  expect(await runDaemonHere(start)).toMatchObject({ code: 0 });
  await isTheSame(seeded);
  // The second time there is a store, and the address may be gone.
  await server.stop();
  expect(await runDaemonHere(start)).toMatchObject({ code: 0 });
});
