import { expect, it } from 'vitest';
import type { DevnetOptions } from '../../src/devnet/index.js';
import { devnetForTest, expectNoDamage, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemon, type RunningDaemon } from '../support/daemons.js';

const WINDOW = 64;
const MAX_RESIDENT_BYTES = 300 * 1024 ** 2;

/** A sample; `npm run test:catchup` makes it 100,000. */
const HEIGHTS = Number(process.env['CATCH_UP_HEIGHTS'] ?? 500);
/** Five times what a busy machine was seen to take. */
const PATIENCE_MS_PER_HEIGHT = 10;

/** A process, whose memory is its own, from height 0 on a node with so much history. */
async function behind(dataDir: string, history: number, options: DevnetOptions): Promise<RunningDaemon> {
  const devnet = await devnetForTest({ profile: 'mainnet', startHead: history, paused: true, ...options });
  const from = ['--start-height', '0', '--window', String(WINDOW)];
  return startDaemon(startArguments(devnet, dataDir, ...from));
}

it('in hybrid mode stays under 300 MB', { timeout: 180_000 + HEIGHTS * PATIENCE_MS_PER_HEIGHT }, async () => {
  const dataDir = scratchDirectory();
  // Nobody can tell who wins a race: execution data ends below the head, and the last heights are the requester's alone.
  const daemon = await behind(dataDir, HEIGHTS, { sealedLag: WINDOW, hashedIds: true });
  const metrics = await daemon.reaches(HEIGHTS);
  expect(metrics.value('heights_completed_total', { source: 'edi' })).toBeGreaterThan(0);
  expect(metrics.value('heights_completed_total', { source: 'requester' })).toBeGreaterThan(0);
  expect(metrics.sum('heights_completed_total')).toBe(HEIGHTS + 1);
  expect(await daemon.peakMemoryBytes()).toBeLessThan(MAX_RESIDENT_BYTES);
  expect(await daemon.program.stop()).toBe(0);
  expect(await expectNoDamage(dataDir)).toMatchObject({ heights: HEIGHTS + 1 });
});

it('costs no memory and no time to begin a hundred million heights behind the head', async () => {
  const daemon = await behind(scratchDirectory(), 100_000_000, { hashedIds: false });
  const metrics = await daemon.reaches(200);
  expect(metrics.value('head_height')).toBe(100_000_000);
  expect(metrics.value('in_flight_heights')).toBeLessThanOrEqual(WINDOW);
  expect(await daemon.peakMemoryBytes()).toBeLessThan(MAX_RESIDENT_BYTES);
  expect(await daemon.reasons()).toMatchObject([{ code: 'behind' }]);
  expect(await daemon.program.stop()).toBe(0);
});
