import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { devnetForTest, proveStore, runDaemonHere, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemon } from '../support/daemons.js';

/** More than the write buffer of the store holds: LevelDB is at its next log long before. */
const HEAD = 1_000;
/** So soon: every fourth block has a large collection. */
const profile = { base: 'dense', odd: { bigCollection: 4 }, bigCollectionBytes: 1_000_000 } as const;
/** Indexed after the restart, beyond what was durable. */
const FURTHER_HEIGHTS = 4;
/** File numbers ahead of LevelDB's own: its next log is one of them. */
const TRAPS = 60;

/** A disk that hangs: LevelDB's next log is a pipe that nobody reads. Not before the store is open: it would take them for logs. */
function trap(store: string): string[] {
  const numbers = readdirSync(store).map((name) => Number.parseInt(name, 10) || 0);
  const next = Math.max(...numbers) + 1;
  const traps = Array.from({ length: TRAPS }, (_, index) =>
    join(store, `${String(next + index).padStart(6, '0')}.log`),
  );
  execFileSync('mkfifo', traps);
  return traps;
}

it('a disk that hangs does not hold the stop up: the unfinished batch is abandoned, and fetched again', async () => {
  const devnet = await devnetForTest({ profile, startHead: HEAD, endHeight: HEAD, seed: 5 });
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', '0', '--no-edi');
  const daemon = await startDaemon(args);
  await daemon.reaches(1);
  const traps = trap(join(dataDir, 'index'));
  await daemon.reason('store_stalled');
  const stillAt = (await daemon.scrape()).value('latest_indexed_height');
  expect(stillAt).toBeLessThan(HEAD);

  // As a process that a signal has ended: it cannot exit with a code while a thread hangs in the disk.
  expect(await daemon.program.stop()).toBe('SIGTERM');
  expect(daemon.program.logs().map(({ msg }) => msg)).toEqual(
    expect.arrayContaining(['part did not close in time', 'stopped']),
  );
  expect(daemon.program.stderr).toContain('Ended although');

  for (const path of traps) rmSync(path, { force: true });
  const latestHeight = stillAt + FURTHER_HEIGHTS;
  expect(await runDaemonHere([...args, '--stop-height', String(latestHeight)])).toMatchObject({ code: 0 });
  await proveStore(dataDir, { firstHeight: 0, latestHeight, chainAt: () => devnet.chain });
});
