import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chmodSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readDaemonRecord } from '../../src/app/index.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { expectNoDamage } from '../support/provenStore.js';

const root = join(import.meta.dirname, '../..');
/** The quickstart's own, made anew by each run. */
const dataDir = join(root, 'data', 'quickstart');

interface Quickstart {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly exited: Promise<number | string>;
  /** True while it, or anything that it started, still runs. */
  readonly hasProcesses: () => boolean;
}

/** Runs the quickstart as the leader of a process group of its own, so that whatever it leaves behind is found. */
function startQuickstart(...flags: string[]): Quickstart {
  return startGroup(process.execPath, ['scripts/quickstart.mjs', ...flags]);
}

function startGroup(program: string, args: readonly string[], environment: object = {}): Quickstart {
  const env = { ...process.env, ...environment };
  const child = spawn(program, args, { cwd: root, detached: true, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const group = child.pid;
  if (group === undefined) throw new Error('the quickstart did not start');
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
  const signalGroup = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(-group, signal);
    } catch {
      return false;
    }
  };
  onTestFinished(() => void signalGroup('SIGKILL'));
  const exited = new Promise<number | string>((resolve) => {
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown'));
  });
  return { child, output: () => output, exited, hasProcesses: () => signalGroup(0) };
}

async function sees(quickstart: Quickstart, text: string): Promise<void> {
  let ended = false;
  void quickstart.exited.then(() => (ended = true));
  await eventually(() => quickstart.output().includes(text) || ended);
  if (!quickstart.output().includes(text))
    throw new Error(`ended without "${text}":\n${quickstart.output()}`);
}

/** That it catches up and, with --once, ends: test/packaging/checkout.test.ts. */
describe('the quickstart', () => {
  it('follows the tip, and ends with the npm that runs it, although npm ends only its own shell', async () => {
    const quickstart = startGroup('npm', ['run', 'quickstart', '--', '--blocks', '50']);
    await sees(quickstart, 'Following the tip');
    const [, url = ''] = /status\s+(http:\S+)/.exec(quickstart.output()) ?? [];
    const heightOf = async (): Promise<number> => {
      const body = (await (await fetch(url)).json()) as { readonly latestIndexed: number };
      return body.latestIndexed;
    };
    const before = await heightOf();
    await eventually(async () => (await heightOf()) > before);

    // A second one must not touch what the first one has.
    const second = startQuickstart('--blocks', '100');
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain('A quickstart runs already');

    quickstart.child.kill('SIGTERM');
    await eventually(() => (quickstart.hasProcesses() ? undefined : true));
    // Gracefully, that is: the daemon said so itself.
    expect(quickstart.output()).toMatch(/"msg":"stopped"/);
    expect(quickstart.output()).toContain('Everything is stopped.');
    await expectNoDamage(dataDir);
  });

  it('goes on when whoever read it has gone, and stops everything when it is told to', async () => {
    const quickstart = startQuickstart('--blocks', '50');
    await sees(quickstart, 'Building');
    quickstart.child.stdout?.destroy();
    const daemon = await eventually(() => readDaemonRecord(dataDir));
    const status = `http://127.0.0.1:${daemon.api?.port}/status`;
    await eventually(async () => {
      const { ready } = (await (await fetch(status)).json()) as { readonly ready: boolean };
      return ready;
    });
    quickstart.child.kill('SIGINT');
    expect(await quickstart.exited, quickstart.output()).toBe(0);
    // Init may not have reaped the last of them yet.
    await eventually(() => !quickstart.hasProcesses());
  });

  it('leaves nothing behind where the database cannot be started, or is being started when it is told to stop', async () => {
    const cluster = ['scripts/quickstart.mjs', '--cluster', '--blocks', '50'];
    const failing = startGroup(process.execPath, cluster, { TMPDIR: '/nowhere' });
    expect(await failing.exited).toBe(1);
    await eventually(() => !failing.hasProcesses());
    const TMPDIR = scratchDirectory();
    chmodSync(TMPDIR, 0o755);
    const stopped = startGroup(process.execPath, cluster, { TMPDIR });
    // The database is in a group of its own. Its files go after it.
    await eventually(() => readdirSync(TMPDIR).length > 0);
    stopped.child.kill('SIGTERM');
    expect([await stopped.exited, readdirSync(TMPDIR)]).toEqual([0, []]);
  });

  it('says what it takes, and what of that it does not know', async () => {
    const said = async (...flags: string[]): Promise<readonly [number | string, string]> => {
      const quickstart = startQuickstart(...flags);
      return [await quickstart.exited, quickstart.output()];
    };
    expect(await Promise.all([said('--help'), said('--bloks', '5'), said('--blocks', 'many')])).toEqual([
      [0, expect.stringMatching(/^usage: .*--blocks N/)],
      [64, expect.stringMatching(/'--bloks'.*\nusage: .*\n$/)],
      [64, '--blocks needs a number of blocks, such as 5000.\n'],
    ]);
  });
});
