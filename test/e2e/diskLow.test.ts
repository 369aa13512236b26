import { statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { devnetForTest, proveStore, runDaemonHere, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemonHere } from '../support/daemons.js';

const LOW = 30;
const HEAD = 90;

/** Free space is what it is: the watermark is put above it, and below it again. */
function configFile(minFreeBytes: number, path = join(scratchDirectory(), 'config.json')): string {
  writeFileSync(path, JSON.stringify({ disk: { minFreeBytes } }));
  return path;
}

function moreThanFree(): number {
  const { bavail, bsize } = statfsSync(scratchDirectory());
  return bavail * bsize + 1024 ** 3;
}

it('a disk that is nearly full pauses the live range and history alike, says so everywhere, serves what is there, stops in good order, and goes on by itself', async () => {
  const devnet = await devnetForTest({
    ...{ seed: 12, profile: 'mixed', startHead: LOW, paused: true, sealedLag: 0 },
  });
  const dataDir = scratchDirectory();
  const bounds = ['--start-height', String(LOW - 5), '--stop-height', String(LOW)];
  expect(await runDaemonHere(startArguments(devnet, dataDir, ...bounds))).toMatchObject({ code: 0 });

  const needed = moreThanFree();
  const file = configFile(needed);
  devnet.node.head.set(HEAD);
  const args = startArguments(devnet, dataDir, '--config', file, '--backfill', '0');
  const stopped = await startDaemonHere(args);
  await stopped.scrapeUntil(
    (metrics) => metrics.value('indexing_paused') === 1 && metrics.value('in_flight_heights') > 0,
  );
  expect(await stopped.program.stop('SIGTERM')).toBe(0);
  const daemon = await startDaemonHere(args);
  const paused = await daemon.scrapeUntil(
    (metrics) =>
      metrics.value('indexing_paused') === 1 &&
      metrics.value('in_flight_heights') > 0 &&
      metrics.value('backfill_held_up_ranges') > 0,
  );
  expect(paused.value('disk_min_free_bytes')).toBe(needed);
  expect(paused.value('disk_free_bytes')).toBeLessThan(needed);
  expect(paused.value('latest_indexed_height'), 'nothing is written').toBe(LOW);
  const reasons = await daemon.reasons();
  const reason = reasons.find(({ code }) => code === 'disk_low');
  const pausedWords = /^indexing is paused: \d+ MiB are free on the disk of .*, and \d+ MiB are needed/;
  expect(reason?.message).toMatch(pausedWords);
  expect(reasons.map(({ code }) => code).filter((code) => code !== 'behind')).toEqual(['disk_low']);
  const status = await daemon.status();
  expect(status.backfill.ranges[0]?.waitingFor?.message).toContain('indexing is paused');
  const explained = (await daemon.api(`/explain/${LOW + 1}`)).body as { readonly stage: string };
  expect(explained.stage).toBe('committing');
  expect((await daemon.api(`/v1/blocks?height=${LOW}`)).status).toBe(200);

  configFile(0, file);
  daemon.program.reload();
  await daemon.scrapeUntil(
    (metrics) =>
      metrics.value('latest_indexed_height') === HEAD && metrics.value('covered_heights') === HEAD + 1,
  );
  expect((await daemon.scrape()).value('indexing_paused')).toBe(0);
  expect(await daemon.program.stop('SIGTERM')).toBe(0);
  await proveStore(dataDir, { firstHeight: 0, latestHeight: HEAD, chainAt: () => devnet.chain });
});
