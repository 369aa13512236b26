import { chmodSync, cpSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readDaemonRecord } from '../../src/app/index.js';
import { atEnd, eventually, expectNoDamage, scratchDirectory, startProgram } from '../support/daemons.js';

/** The quickstart's own, made anew by each run. */
const dataDir = join(import.meta.dirname, '../../data/quickstart');
/** What stands in the place of its command line, and of the flags behind it. */
const byNpm = ['sh', '-c', 'shift; exec npm run quickstart -- "$@"', 'sh'];

/** Leads a process group of its own, so that whatever it leaves behind is found. */
function startQuickstart(
  flags: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  wrapper: readonly string[] = [],
) {
  const script = wrapper.length === 0 ? ['scripts/quickstart.mjs'] : [];
  const program = startProgram(flags, environment, { script, wrapper, detached: true });
  const group = program.child.pid ?? expect.unreachable('it has not started');
  const signalGroup = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(-group, signal);
    } catch {
      return false;
    }
  };
  atEnd(() => void signalGroup('SIGKILL'));
  /** True while it, or anything that it started, still runs. */
  const hasProcesses = () => signalGroup(0);
  const output = () => program.stdout + program.stderr;
  return { program, output, hasProcesses };
}

it('follows the tip, and ends with the npm that runs it, although npm ends only its own shell', async () => {
  // For a daemon of production: it would ask for a token, and end soon.
  const foreign = { FCI_API_TOKENS_FILE: import.meta.filename, FCI_STOP_HEIGHT: '9' };
  const quickstart = startQuickstart(['--blocks', '50'], foreign, byNpm);
  // A second one must not touch what the first one has, from before it has a daemon.
  await quickstart.program.sees(/Building/);
  const second = startQuickstart(['--blocks', '100']);
  expect(await second.program.exited).toBe(1);
  expect(second.output()).toMatch(/^A quickstart runs already/);
  await quickstart.program.sees(/Following the tip/);
  expect(quickstart.output()).not.toContain('\x1b');
  const ignored = 'Ignoring FCI_API_TOKENS_FILE, FCI_STOP_HEIGHT from the environment.';
  expect(quickstart.output()).toContain(ignored);
  const [, url = ''] = await quickstart.program.sees(/status\s+(http:\S+)\s/);
  const heightOf = async (): Promise<number> => {
    const body = (await (await fetch(url)).json()) as { readonly latestIndexed: number };
    return body.latestIndexed;
  };
  const before = await heightOf();
  await eventually(async () => (await heightOf()) > before);

  quickstart.program.child.kill('SIGTERM');
  await eventually(() => !quickstart.hasProcesses());
  // Gracefully, that is: the daemon said so itself.
  expect(quickstart.output()).toMatch(/"msg":"stopped"/);
  expect(quickstart.output()).toContain('Everything is stopped.');
  await expectNoDamage(dataDir);
});

it('goes on when whoever read it has gone, and stops everything when it is told to', async () => {
  const quickstart = startQuickstart(['--blocks', '50']);
  await quickstart.program.sees(/Building/);
  quickstart.program.child.stdout?.destroy();
  const daemon = await eventually(() => readDaemonRecord(dataDir));
  const status = `http://127.0.0.1:${daemon.api?.port}/status`;
  await eventually(async () => {
    const { ready } = (await (await fetch(status)).json()) as { readonly ready: boolean };
    return ready;
  });
  quickstart.program.child.kill('SIGINT');
  expect(await quickstart.program.exited, quickstart.output()).toBe(0);
  // Init may not have reaped the last of them yet.
  await eventually(() => !quickstart.hasProcesses());
});

it('leaves nothing behind where the database cannot be started, or is being started when it is told to stop', async () => {
  const cluster = ['--cluster', '--blocks', '50'];
  const TMPDIR = scratchDirectory();
  // It is closed to the user as whom root runs the server.
  const failing = startQuickstart(cluster, { TMPDIR: process.getuid?.() === 0 ? TMPDIR : '/nowhere' });
  expect(await failing.program.exited).toBe(1);
  await eventually(() => !failing.hasProcesses());
  expect(readdirSync(TMPDIR)).toEqual([]);
  chmodSync(TMPDIR, 0o755);
  const stopped = startQuickstart(cluster, { TMPDIR });
  // The database is in a group of its own. Its files go after it.
  await eventually(() => readdirSync(TMPDIR).length > 0);
  stopped.program.child.kill('SIGTERM');
  expect([await stopped.program.exited, readdirSync(TMPDIR)]).toEqual([0, []]);
});

it('leaves no npm behind when it is told to stop while that installs', async () => {
  const folder = scratchDirectory();
  for (const file of ['scripts/ensure-installed.mjs', 'package-lock.json'])
    cpSync(join(import.meta.dirname, '../..', file), join(folder, file));
  const npm_execpath = join(folder, 'npm-cli.js');
  writeFileSync(npm_execpath, 'setInterval(console.log, 1_000);');
  const install = [process.execPath, join(folder, 'scripts/ensure-installed.mjs')];
  const installing = startQuickstart([], { npm_execpath }, install);
  await installing.program.sees(/Installing[^]+\n\n/);
  installing.program.child.kill('SIGINT');
  expect(await installing.program.exited).toBe(130);
  await eventually(() => !installing.hasProcesses());
});

it('says what it takes, and what of that it does not know', async () => {
  const said = async (...flags: string[]): Promise<readonly [number | string, string]> => {
    const { output, program } = startQuickstart(flags);
    return [await program.exited, output()];
  };
  expect(await Promise.all([said('--help'), said('--bloks', '5'), said('--blocks', 'many')])).toEqual([
    [0, expect.stringMatching(/^usage: .*--blocks N/)],
    [64, expect.stringMatching(/'--bloks'.*\nusage: .*\n$/)],
    [64, '--blocks needs a number of blocks, such as 5000.\n'],
  ]);
});
