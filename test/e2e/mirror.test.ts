import { describe, expect, it } from 'vitest';
import { scratchDirectory } from '../support/program.js';
import { expectNoDamage } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import { dumpStore, firstDifference } from '../support/storeDump.js';

const HEAD = 120;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const FROM_ROOT = ['--start-height', 'root'];
const NOBODY = { address: 'none' };

function mirrorOf(source: RunningDaemon, dataDir: string, ...flags: string[]): Promise<RunningDaemon> {
  return startDaemon(startArguments(NOBODY, dataDir, '--peer', source.grpcAddress, ...flags));
}

describe('a mirror', () => {
  it('has the same store as its source, as has a mirror of the mirror', async () => {
    const node = await devnetForTest(chain);
    const [first, second, third] = [scratchDirectory(), scratchDirectory(), scratchDirectory()];
    const source = await startDaemon(startArguments(node, first, ...FROM_ROOT));
    await source.reaches(HEAD);
    const mirror = await mirrorOf(source, second, ...FROM_ROOT, '--proof-mode', 'required');
    await mirror.reaches(HEAD);
    const far = await mirrorOf(mirror, third, ...FROM_ROOT, '--proof-mode', 'required');
    const metrics = await far.reaches(HEAD);
    expect(metrics.value('unproven_heights')).toBe(0);
    for (const daemon of [far, mirror, source]) expect(await daemon.program.stop()).toBe(0);
    const original = await dumpStore(first);
    for (const copy of [second, third]) {
      expect(firstDifference(await dumpStore(copy), original)).toBeUndefined();
      await expectNoDamage(copy);
    }
  });
});
