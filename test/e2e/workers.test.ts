import { expect, it, vi } from 'vitest';
import type { WorkerState } from '../../src/ranges/index.js';
import { answered, devnetForTest, eventually, rowsOfBlocks, runCommand } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, startDaemonHere } from '../support/daemons.js';
import { storeFlags, usePostgres } from '../support/daemons.js';

const HISTORY = 2_300;
/** A range of a worker that died runs again within so long. */
const TAKEOVER_MS = 12_000;
const SLACK_MS = 5_000;

vi.setConfig({ testTimeout: 300_000 });
const postgres = usePostgres();

it('fill it once, though one is killed; and end when they are told to', async () => {
  // Of the heights their number counts, which makes three ranges, and not what is in them.
  const profile = { base: 'mainnet', emptyShare: 0.9 } as const;
  const devnet = await devnetForTest({ seed: 13, profile, startHead: HISTORY, sealedLag: 0, paused: true });
  const { url } = await postgres.home();
  const flags = ['--store', url, '--start-height', String(HISTORY), '--backfill-parallel-ranges', '1'];
  const args = () => startArguments(devnet, scratchDirectory(), ...flags, '--backfill-window', '16');
  const command = (...words: string[]) => runCommand([...words, ...storeFlags(scratchDirectory(), url)]);
  const workers = async (): Promise<readonly WorkerState[]> =>
    JSON.parse((await command('workers', '--json')).stdout) as WorkerState[];

  const first = await startDaemonHere(args());
  await first.reaches(HISTORY);
  const second = await startDaemon(args());
  // Slowly, so that those that are killed have something in hand.
  devnet.node.setFaults([{ method: '*', fault: 'latency', delayMs: 400 }]);
  const planned = await command('backfill', 'plan', '--from', '0');
  expect(planned).toMatchObject(answered(/^Plan 1: heights 0 to 2299/));
  const killed = await eventually(async () => {
    const busy = (await workers()).filter(({ busyWith }) => busyWith.length === 1);
    return busy.length === 2 ? busy.find(({ pid }) => pid === second.program.child.pid) : undefined;
  });
  await second.program.stop('SIGKILL');
  const killedAtMs = performance.now();
  const [lost] = killed.busyWith;
  await eventually(async () => {
    const one = (await workers()).find(({ id }) => id === killed.id);
    return one?.busyWith.length === 0;
  });
  expect(performance.now() - killedAtMs).toBeLessThan(TAKEOVER_MS + SLACK_MS);
  const { program } = await startDaemon(args());
  const busy = await eventually(async () => {
    const one = (await workers()).find(({ pid }) => pid === program.child.pid);
    return one?.busyWith.length === 1 ? one : undefined;
  });
  expect((await command('backfill', 'kill', busy.id.slice(0, 8))).code).toBe(0);
  expect(await program.exited).toBe(0);
  devnet.node.setFaults([]);
  const done = await first.statusUntil(
    (status) => status.backfill.plans.length === 0 && status.firstIndexed === 0,
  );
  expect(done.coverage).toEqual([{ from: 0, to: HISTORY }]);
  expect(lost).toBeDefined();
  expect(await rowsOfBlocks(url)).toEqual([{ blocks: HISTORY + 1, heights: HISTORY + 1 }]);
  expect(await command('verify')).toMatchObject({ code: 0 });

  const alive = (await workers()).filter(({ isAlive }) => isAlive);
  expect(alive).toHaveLength(1);
  expect((await command('backfill', 'kill', killed.id)).code).toBe(64);
  expect((await command('backfill', 'kill', 'all')).code).toBe(0);
  expect(await first.program.exited).toBe(0);
  const text = (await command('workers')).stdout;
  expect(text.match(/, stopped, /g)).toHaveLength(2);
  expect(text.match(/, dead, /g)).toHaveLength(1);
});
