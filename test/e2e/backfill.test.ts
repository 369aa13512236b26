import { expect, it } from 'vitest';
import type { BackfillStatus } from '../../src/api/index.js';
import { devnetForTest, dumpStore, firstDifference, runCommand, runDaemonHere } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, startDaemonHere } from '../support/daemons.js';
import { storeFlags } from '../support/daemons.js';

const HISTORY = 400;
const SEALED_LAG = 2;

it('is filled in while the tip is followed, through kill -9, to the store of a straight run', async () => {
  const devnet = await devnetForTest({
    ...{ seed: 11, profile: 'mainnet', startHead: HISTORY, sealedLag: SEALED_LAG, blockIntervalMs: 500 },
  });
  const dataDir = scratchDirectory();
  const start = (...flags: string[]): string[] =>
    startArguments(devnet, dataDir, '--backfill-window', '16', '--backfill-parallel-ranges', '3', ...flags);
  const first = await startDaemon(start());
  const begun = await first.statusUntil(({ latestIndexed }) => latestIndexed !== null);
  // The sealed head is finalized too, and may be told first.
  expect(begun.firstIndexed).toBeGreaterThanOrEqual(HISTORY - SEALED_LAG);

  const planned = await runCommand(['backfill', 'plan', '--everything', ...storeFlags(dataDir)]);
  expect(planned).toMatchObject({ code: 0, stderr: '' });
  expect(planned.stdout).toMatch(/^Plan 1: heights 0 to \d+, [\d,]+ in all, newest first\./);
  await first.statusUntil(({ backfill }) => backfill.ranges.some(({ next, from }) => next > from));
  await first.program.stop('SIGKILL');

  const second = await startDaemonHere(start());
  // Followed all the while.
  const there = await second.statusUntil(({ backfill }) => backfill.plans.length === 0);
  expect(there.coverage).toEqual([{ from: 0, to: there.latestIndexed }]);
  expect(there).toMatchObject({ firstIndexed: 0, backfill: { missingHeights: 0, ranges: [] } });
  const moved = await second.statusUntil(
    ({ latestIndexed }) => (latestIndexed ?? 0) > (there.latestIndexed ?? 0),
  );
  expect(await second.program.stop()).toBe(0);

  const verified = await runCommand(['verify', ...storeFlags(dataDir)]);
  expect(verified).toMatchObject({ code: 0 });
  const straight = scratchDirectory();
  const stop = String(moved.latestIndexed);
  const run = await runDaemonHere(
    startArguments(devnet, straight, '--start-height', '0', '--stop-height', stop),
  );
  expect(run).toMatchObject({ code: 0 });
  await runCommand(['rewind', '--to', stop, '--yes', ...storeFlags(dataDir)]);
  expect(firstDifference(await dumpStore(dataDir), await dumpStore(straight))).toBeUndefined();
});

it('is planned by the configuration once a node says where it begins', { timeout: 120_000 }, async () => {
  const devnet = await devnetForTest({ seed: 13, startHead: 60, paused: true });
  const root = { fault: 'error', code: 'UNAVAILABLE', fromHeight: 0, toHeight: 0 } as const;
  devnet.node.setFaults([
    { ...root, method: 'GetBlockByHeight' },
    { ...root, method: 'SubscribeBlocksFromStartHeight' },
  ]);
  const flags = ['--start-height', '50', '--backfill', 'root'];
  const daemon = await startDaemonHere(startArguments(devnet, scratchDirectory(), ...flags));
  await daemon.program.sees(/backfill.plan waits for a node/);
  devnet.node.setFaults([]);
  await daemon.statusUntil(({ coverage }) => coverage[0]?.from === 0);
});

it('is planned on a store at rest, paused, resumed, cancelled, and told of', async () => {
  const devnet = await devnetForTest({ ...{ seed: 12, profile: 'mainnet', startHead: 300, paused: true } });
  const dataDir = scratchDirectory();
  const backfill = async (...words: string[]) => runCommand(['backfill', ...words, ...storeFlags(dataDir)]);
  const flags = ['--start-height', '250', '--stop-height', '260'];
  expect((await runDaemonHere(startArguments(devnet, dataDir, ...flags))).code).toBe(0);

  expect(await backfill('plan', '--from', '270')).toMatchObject({ code: 64 });
  expect((await backfill('plan', '--from', 'root')).stdout).toMatch(/^Plan 1: heights 0 to 249,/);
  expect(await backfill('cancel', '1')).toMatchObject({ code: 0 });
  expect(await backfill('plan', '--from', '10', '--to', '40', '--oldest')).toMatchObject({ code: 0 });
  expect(await backfill('plan', '--from', '100', '--to', '120')).toMatchObject({ code: 0 });
  expect(await backfill('pause', '2')).toMatchObject({ code: 0, stdout: 'Plan 2 is paused.\n' });
  const status = JSON.parse((await backfill('status', '--json')).stdout) as BackfillStatus;
  expect(status).toMatchObject({
    missingHeights: 52,
    plans: [
      { id: 1, from: 10, to: 40, order: 'oldest', state: 'active', missingHeights: 31 },
      { id: 2, from: 100, to: 120, order: 'newest', state: 'paused', missingHeights: 21 },
    ],
  });
  const plannedWords = 'is history that plan 2 fills in, once it is resumed';
  expect((await runCommand(['explain', '110', ...storeFlags(dataDir)])).stdout).toContain(plannedWords);

  // The stop height is reached already: the daemon fills what is planned, and ends.
  expect((await runDaemonHere(startArguments(devnet, dataDir, ...flags))).code).toBe(0);
  const hole = await runCommand(['get', 'block', '60', ...storeFlags(dataDir)]);
  expect(hole).toMatchObject({ code: 66 });
  expect(hole.stderr).toContain('height 60 is not indexed: it is in a hole, heights 41..249');
  expect((await runCommand(['get', 'block', '20', ...storeFlags(dataDir)])).code).toBe(0);
  expect(await backfill('cancel')).toMatchObject({ code: 0 });
  expect(await runCommand(['verify', ...storeFlags(dataDir)])).toMatchObject({ code: 0 });

  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--backfill', '5..9'));
  const there = await daemon.statusUntil(
    ({ backfill: { plans }, coverage }) =>
      plans.length === 0 && coverage.length > 1 && coverage[0]?.from === 5,
  );
  expect(there.coverage[0]).toEqual({ from: 5, to: 40 });
  expect(await backfill('plan', '--from', '3')).toMatchObject({ code: 0 });
  await daemon.statusUntil(({ firstIndexed }) => firstIndexed === 3);
  expect(await daemon.program.stop()).toBe(0);
});
