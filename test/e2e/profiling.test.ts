import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { pageAt } from '../docs/files.js';
import { devnetForTest, eventually, programPath, scratchDirectory } from '../support/daemons.js';
import { startArguments, startProgram } from '../support/daemons.js';

const page = pageAt('docs/profiling.md');
const from = async (): Promise<string[]> =>
  startArguments(
    await devnetForTest({ seed: 6, startHead: 20, paused: true }),
    scratchDirectory(),
    ...['--start-height', '0'],
  );

function functionsIn(path: string): string[] {
  const { nodes } = JSON.parse(readFileSync(path, 'utf8')) as {
    nodes: { callFrame: { functionName: string } }[];
  };
  return nodes.map(({ callFrame }) => callFrame.functionName);
}

function options(flag: string, directory: string): string[] {
  const row = page.codeSpans().find(({ text }) => text.startsWith(flag) && text.includes('DIR'));
  return row!.text.replaceAll('DIR', directory).split(' ');
}

it('the tools of Node.js, as docs/profiling.md shows them, write a profile of each thread when the daemon ends, and a heap snapshot at a signal', async () => {
  const [profiles, snapshots] = [scratchDirectory(), scratchDirectory()];
  const flags = [...options('--cpu-prof', profiles), ...options('--heapsnapshot-signal', snapshots)];
  const daemon = startProgram(await from(), {}, { script: [...flags, programPath] });
  await daemon.sees(/"msg":"reached the head"/);
  daemon.child.kill('SIGUSR2');
  await eventually(() => readdirSync(snapshots).length > 0);
  expect(await daemon.stop()).toBe(0);
  const [main, readers, ...more] = readdirSync(profiles).sort();
  expect(more).toEqual([]);
  expect([main, readers]).toEqual([
    expect.stringMatching(/\.0\.001\.cpuprofile$/),
    expect.stringMatching(/\.1\.002\.cpuprofile$/),
  ]);
  for (const name of [main!, readers!]) expect(functionsIn(join(profiles, name))).toContain('(root)');
  const [snapshot] = readdirSync(snapshots);
  expect(snapshot).toMatch(/\.heapsnapshot$/);
  expect(readFileSync(join(snapshots, snapshot!), 'utf8').startsWith('{"snapshot":')).toBe(true);
});
