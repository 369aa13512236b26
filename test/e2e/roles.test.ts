import { expect, it } from 'vitest';
import { devnetForTest, refused, rowsOfBlocks, runCommand, runDaemonHere } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemonHere, storeFlags } from '../support/daemons.js';
import { usePostgres, type DaemonHere } from '../support/daemons.js';

/** A leader that is lost is followed by another within so long; one that stops hands over in less. */
const TAKEOVER_MS = 12_000;
const SLACK_MS = 3_000;

const postgres = usePostgres();

const begin = async () => {
  const devnet = await devnetForTest({ seed: 7, startHead: 40, paused: true, sealedLag: 0 });
  const { url } = await postgres.home({ isEmpty: true });
  const on = (dataDir: string, ...flags: string[]): string[] =>
    startArguments(devnet, dataDir, '--store', url, '--start-height', '0', ...flags);
  const start = (...flags: string[]): Promise<DaemonHere> =>
    startDaemonHere(on(scratchDirectory(), ...flags));
  return { devnet, url, on, start };
};

it('one follows the chain, the others serve what it indexes, are ready, and take over at once when it stops', async () => {
  const { devnet, on, start, url } = await begin();
  const dataDir = scratchDirectory();
  // Not two in one data directory, also where they start at once.
  const both = [1, 2].map(() => runDaemonHere(on(dataDir, '--stop-height', '30')));
  expect((await Promise.all(both)).map(({ code }) => code).sort()).toEqual([0, 74]);
  const first = await startDaemonHere(on(dataDir));
  await first.reaches(40);
  expect(await runDaemonHere(on(dataDir))).toMatchObject(refused(74, 'in use by another daemon'));
  const second = await start();
  await second.reaches(40);
  await second.ready();
  devnet.node.head.advance(5);
  await second.reaches(45);
  expect((await second.api('/v1/blocks?height=45')).status).toBe(200);
  const statuses = [await first.api('/status'), await second.api('/status')];
  const all = ['live', 'backfill', 'api'];
  expect(statuses.map(({ body }) => (body as { cluster: unknown }).cluster)).toMatchObject([
    { roles: all, leads: true },
    { roles: all, leads: false, leader: { worker: expect.any(String) as string } },
  ]);
  expect((await first.scrape()).value('leads')).toBe(1);
  expect((await second.scrape()).value('leads')).toBe(0);
  const rewind = () => runCommand(['rewind', '--to', '20', '--yes', ...storeFlags(scratchDirectory(), url)]);
  expect(await rewind()).toMatchObject(refused(74, 'leads'));

  const stoppedAtMs = performance.now();
  expect(await first.program.stop()).toBe(0);
  devnet.node.head.advance(3);
  await second.reaches(48);
  expect(performance.now() - stoppedAtMs).toBeLessThan(TAKEOVER_MS / 2 + SLACK_MS);
  expect(await second.program.stop()).toBe(0);
  expect((await rewind()).code).toBe(0);
  expect(await rowsOfBlocks(url)).toEqual([{ blocks: 21, heights: 21 }]);
});

it('each does what its roles say, and says so when nobody leads', async () => {
  const { devnet, start } = await begin();
  const leader = await start('--roles', 'live');
  await leader.reaches(40);
  expect(leader.program.stdout).not.toMatch(/"msg":"listening".*"api"/);
  const reader = await start('--roles', 'api');
  await reader.reaches(40);
  expect((await reader.api('/v1/blocks?height=40')).status).toBe(200);
  devnet.node.head.advance(1);
  await reader.reaches(41);
  expect(await leader.program.stop()).toBe(0);
  const { message } = await reader.reason('leader_lost');
  expect(message).toContain('start a process with the role live');
  expect((await reader.api('/v1/blocks?height=41')).status).toBe(200);
  devnet.node.head.advance(1);
  // Whatever the leader has left undone, no access node is blamed for it.
  expect(JSON.stringify(await reader.reasons())).not.toContain('upstream');
  const again = await start('--roles', 'live');
  await reader.reaches(42);
  await reader.ready();
  expect(await again.program.stop()).toBe(0);
});
