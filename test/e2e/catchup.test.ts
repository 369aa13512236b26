import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scratchDirectory, startProgram } from '../support/program.js';
import type { Program } from '../support/program.js';
import { expectNoDamage } from '../support/provenStore.js';
import { startArguments, startDaemon } from '../support/runningDaemon.js';

const MIB = 1024 * 1024;
const WINDOW = 64;
const MAX_RESIDENT_BYTES = 300 * MIB;

/** The most memory that a process ever held, as the kernel counted it; where it does not, what Node.js says it holds now. */
async function peakResidentBytes(program: Program, metricsUrl: string): Promise<number> {
  try {
    const text = readFileSync(`/proc/${program.child.pid ?? 0}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1]) * 1024;
  } catch {
    const text = await (await fetch(`${metricsUrl}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1]);
  }
}

/** A sample; `npm run test:catchup` makes it 100,000. */
const HEIGHTS = Number(process.env['CATCH_UP_HEIGHTS'] ?? 1_000);
/** Five times what a busy machine was seen to take. */
const PATIENCE_MS_PER_HEIGHT = 10;

describe('catching up', () => {
  it(
    'in hybrid mode stays under 300 MB',
    { timeout: 180_000 + HEIGHTS * PATIENCE_MS_PER_HEIGHT },
    async () => {
      // A process of its own, lest its memory and its work be counted as the daemon's.
      const devnet = startProgram([
        ...['devnet', '--port', '0', '--profile', 'mainnet', '--history', String(HEIGHTS)],
        // Nobody can tell who wins a race: execution data ends below the head, and the last heights are the requester's alone.
        ...['--sealed-lag', String(WINDOW), '--block-interval-ms', '3600000'],
      ]);
      const [, address = ''] = await devnet.sees(/grpc:\/\/(\S+:\d+)/);
      const dataDir = scratchDirectory();
      const daemon = await startDaemon(
        startArguments({ address }, dataDir, '--start-height', '0', '--window', String(WINDOW)),
      );
      const metrics = await daemon.reaches(HEIGHTS);
      expect(metrics.value('heights_completed_total', { source: 'edi' })).toBeGreaterThan(0);
      expect(metrics.value('heights_completed_total', { source: 'requester' })).toBeGreaterThan(0);
      expect(metrics.sum('heights_completed_total')).toBe(HEIGHTS + 1);
      expect(await peakResidentBytes(daemon.program, daemon.metricsUrl)).toBeLessThan(MAX_RESIDENT_BYTES);
      expect(await daemon.program.stop()).toBe(0);
      expect(await expectNoDamage(dataDir)).toMatchObject({ heights: HEIGHTS + 1 });
    },
  );

  it('costs no memory and no time to begin a hundred million heights behind the head', async () => {
    const devnet = startProgram([
      ...['devnet', '--port', '0', '--profile', 'mainnet', '--history', '100000000', '--no-hashed-ids'],
      ...['--block-interval-ms', '3600000'],
    ]);
    const [, address = ''] = await devnet.sees(/grpc:\/\/(\S+:\d+)/);
    const daemon = await startDaemon(
      startArguments({ address }, scratchDirectory(), '--start-height', '0', '--window', String(WINDOW)),
    );
    const metrics = await daemon.reaches(500);
    expect(metrics.value('head_height')).toBe(100_000_000);
    expect(metrics.value('in_flight_heights')).toBeLessThanOrEqual(WINDOW);
    expect(await peakResidentBytes(daemon.program, daemon.metricsUrl)).toBeLessThan(MAX_RESIDENT_BYTES);
    const { body } = await daemon.health('/readyz');
    expect(body).toMatchObject({ ready: false, reasons: [{ code: 'behind' }] });
    expect(await daemon.program.stop()).toBe(0);
  });
});
