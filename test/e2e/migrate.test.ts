import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { scratchDirectory } from '../support/program.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import { dumpStore, firstDifference, storeFlags } from '../support/storeDump.js';
import { usePostgres } from '../support/storeKinds.js';

const HEIGHTS = 900;

/** SHA-256 of the lines of an export, without the closing one. */
async function exportDigest(...flags: string[]): Promise<string> {
  const output = join(scratchDirectory(), 'export.ndjson');
  const where = ['--network', 'devnet', ...flags];
  expect(await runCommand(['export', '--output', output, '--quiet', ...where])).toMatchObject({ code: 0 });
  const lines = (await readFile(output, 'utf8')).trimEnd().split('\n');
  return createHash('sha256').update(lines.slice(0, -1).join('\n')).digest('hex');
}

/** Cut off after any of its writes: test/integration/storage/migrate.test.ts. */
describe('migrate', () => {
  const postgres = usePostgres();
  const migrate = (from: string, to: string): string[] => [
    ...['migrate', '--network', 'devnet', '--from', from, '--to', to],
  ];

  it('copies a store to a database and back, to the same store', async () => {
    const devnet = await devnetForTest({ seed: 7, startHead: HEIGHTS - 1, paused: true, sealedLag: 0 });
    const dataDir = scratchDirectory();
    const { url } = await postgres.home({ isEmpty: true });
    const stop = ['--stop-height', String(HEIGHTS - 1)];
    const indexed = await runDaemonHere(startArguments(devnet, dataDir, '--start-height', '400', ...stop));
    expect(indexed).toMatchObject({ code: 0 });
    const plan = ['backfill', 'plan', '--from', '100', '--to', '199', ...storeFlags(dataDir)];
    expect(await runCommand(plan)).toMatchObject({ code: 0 });
    expect(await runDaemonHere(startArguments(devnet, dataDir, ...stop))).toMatchObject({ code: 0 });
    const later = ['backfill', 'plan', '--from', '250', '--to', '260', ...storeFlags(dataDir)];
    expect(await runCommand(later)).toMatchObject({ code: 0 });

    expect(await runCommand(migrate(dataDir, url))).toMatchObject({
      code: 0,
      stdout: 'Copied 600 heights, 1 plan. The target holds heights 100 to 199 and 400 to 899.\n',
    });
    expect(await runCommand(migrate(dataDir, url))).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Copied 0 heights; 600 heights were there already') as string,
    });
    const database = ['--data-dir', scratchDirectory(), '--store', url];
    expect(await runCommand(['verify', '--network', 'devnet', ...database])).toMatchObject({ code: 0 });
    const live = ['--from', '400'];
    expect(await exportDigest(...database, ...live)).toBe(await exportDigest('--data-dir', dataDir, ...live));

    const back = scratchDirectory();
    expect(await runCommand(migrate(url, back))).toMatchObject({ code: 0 });
    expect(firstDifference(await dumpStore(back), await dumpStore(dataDir))).toBeUndefined();

    // The daemon goes on with the copy: what is planned there is filled in.
    const daemon = await startDaemonHere(startArguments(devnet, back));
    await daemon.statusUntil(({ coverage }) => coverage.length === 3);
    const refused = await runCommand(migrate(url, back));
    expect(refused).toMatchObject({ code: 74, stderr: expect.stringContaining('in use') as string });
    await daemon.program.stop();
  });
});
