import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { asAdmin } from '../support/postgresServer.js';
import { scratchDirectory } from '../support/program.js';
import {
  daemonOn,
  devnetForTest,
  runDaemonHere,
  startArguments,
  startDaemonHere,
} from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import { usePostgres } from '../support/storeKinds.js';

/** A leader that is lost is followed by another within so long; one that stops hands over in less. */
const TAKEOVER_MS = 12_000;
/** What a busy machine may add to it. */
const SLACK_MS = 3_000;

describe('several daemons on one database', { timeout: 120_000 }, () => {
  const postgres = usePostgres();

  const begin = async () => {
    const devnet = await devnetForTest({ seed: 7, startHead: 40, paused: true, sealedLag: 0 });
    const { url } = await postgres.home({ isEmpty: true });
    const start = (...flags: string[]): Promise<DaemonHere> =>
      daemonOn(devnet, '--store', url, '--start-height', '0', ...flags);
    /** Two of them, of which the first leads. */
    const two = async (...flags: string[]) => {
      const first = await start(...flags);
      await first.reaches(40);
      const second = await start(...flags);
      await second.reaches(40);
      return { first, second };
    };
    return { devnet, url, start, two };
  };

  it('one follows the chain, the others serve what it indexes, are ready, and take over at once when it stops', async () => {
    const { devnet, two } = await begin();
    const { first, second } = await two();
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

    const stoppedAtMs = performance.now();
    expect(await first.program.stop()).toBe(0);
    devnet.node.head.advance(3);
    await second.reaches(48);
    expect(performance.now() - stoppedAtMs).toBeLessThan(TAKEOVER_MS / 2 + SLACK_MS);
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

  it('are not rewound while one of them leads, and not two in one data directory', async () => {
    const { devnet, url } = await begin();
    const dataDir = scratchDirectory();
    const where = ['--network', 'devnet', '--data-dir', dataDir, '--store', url];
    const args = startArguments(devnet, dataDir, '--store', url, '--start-height', '0');
    const daemon = await startDaemonHere(args);
    await daemon.reaches(40);
    const second = await runDaemonHere(args);
    expect([second.code, second.stderr]).toEqual([74, expect.stringContaining('in use by another daemon')]);
    const refused = await runCommand(['rewind', '--to', '20', '--yes', ...where]);
    expect([refused.code, refused.stderr]).toEqual([74, expect.stringContaining('leads')]);
    expect(await daemon.program.stop()).toBe(0);
    expect((await runCommand(['rewind', '--to', '20', '--yes', ...where])).code).toBe(0);
    expect(await rowsOf(url)).toEqual({ blocks: 21, heights: 21 });
  });
});

async function rowsOf(url: string): Promise<{ blocks: number; heights: number }> {
  const { rows } = await asAdmin(
    url,
    'SELECT count(*)::integer AS blocks, count(DISTINCT height)::integer AS heights FROM flow_store.block',
  );
  return rows[0] as { blocks: number; heights: number };
}
