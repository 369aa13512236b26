import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pageAt } from '../docs/files.js';
import { devnetForTest, eventually, lastingPort, programPath, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemon, startProgram } from '../support/daemons.js';

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

describe('the tools of Node.js, as docs/profiling.md shows them', () => {
  it('profile a running daemon through the inspector, which is closed again', async () => {
    const port = await lastingPort();
    const folder = scratchDirectory();
    const daemon = await startDaemon(await from(), { NODE_OPTIONS: `--inspect-port=127.0.0.1:${port}` });
    const listens = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/json/list`).then(
        ({ ok }) => ok,
        () => false,
      );
    expect(await listens()).toBe(false);
    daemon.program.child.kill('SIGUSR1');
    await eventually(async () => await listens());
    const lines = page.fences
      .flatMap(({ text }) => text.split('\n'))
      .filter((line) => line.startsWith('debug> '))
      .map((line) => line.slice('debug> '.length));
    const inspector = startProgram([`127.0.0.1:${port}`], {}, { script: ['inspect'], stdin: 'pipe' });
    for (const [index, line] of lines.entries()) {
      await inspector.sees(new RegExp(`(debug>[^]*){${index + 1}}`));
      inspector.type(`${line.replace("'main.cpuprofile'", `'${join(folder, 'main.cpuprofile')}'`)}\n`);
    }
    expect(await inspector.exited).toBe(0);
    expect(functionsIn(join(folder, 'main.cpuprofile'))).toContain('(root)');
    await eventually(async () => ((await listens()) ? undefined : true));
    expect(await daemon.health('/livez')).toMatchObject({ status: 200 });
    expect(await daemon.program.stop()).toBe(0);
  });

  it('write a profile of each thread when the daemon ends, and a heap snapshot at a signal', async () => {
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
});
