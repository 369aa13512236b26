import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { eventually, filledDirectory, indexedHere, programPath, runCommand } from '../support/daemons.js';
import { scratchDirectory, startProgram, storeFlags } from '../support/daemons.js';
import { pageAt } from '../docs/files.js';
import { shellLines } from '../docs/shell.js';
import { inShell } from '../../src/runtime/index.js';

const STEP = 40;
const FIRST = 100;
const root = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
const hasPython = spawnSync('python3', ['--version']).status === 0;

function lineOf(dataDir: string, database: string): string {
  const lines = shellLines(pageAt('docs/export.md')).map(({ text }) => text);
  const line = lines.find((text) => text.includes('| python3'))!.replaceAll('DATABASE', database);
  const program = `${inShell(process.execPath)} ${inShell(programPath)} "$@" ${storeFlags(dataDir).join(' ')}`;
  return `flow-collection-indexer() { ${program}; }; ${line}`;
}

async function loaded(database: string): Promise<string[]> {
  const query =
    'SELECT height, -1 AS at, line FROM block UNION ALL SELECT height, place, line FROM placed ORDER BY 1, 2';
  const script =
    'import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(row[2], end="")';
  const { stdout } = await run('python3', ['-c', script, database, query], { maxBuffer: 2 ** 26 });
  return stdout.trimEnd().split('\n');
}

const withoutClosing = (text: string): string => text.trimEnd().split('\n').slice(0, -1).join('\n');

async function newest(database: string): Promise<number> {
  const { stdout } = await run('python3', ['docs/examples/load.py', database, 'begin'], { cwd: root });
  return Number(stdout.split(' ')[1] ?? -1);
}

it.runIf(hasPython)('a pipe into a database loads exactly what is indexed, though it is killed', async () => {
  const chain = { seed: 22, rootHeight: FIRST, startHead: FIRST + STEP, profile: 'mixed' } as const;
  const { daemon, dataDir, devnet } = await indexedHere(chain);
  const database = join(scratchDirectory(), 'flow.db');
  const play = async (until: number, signal: NodeJS.Signals): Promise<void> => {
    const wrapper = ['bash', '-c', lineOf(dataDir, database)];
    const pipe = startProgram([], {}, { wrapper, detached: true });
    await eventually(async () => (await newest(database)) >= until);
    process.kill(-pipe.child.pid!, signal);
    await pipe.exited;
    expect(pipe.stderr).not.toContain('Traceback');
  };
  await play(FIRST + STEP / 2, 'SIGKILL');
  devnet.node.head.set(FIRST + 2 * STEP);
  await play(FIRST + 2 * STEP, 'SIGTERM');
  await daemon.program.stop();
  const original = await runCommand(['export', '--quiet', ...storeFlags(dataDir)]);
  expect((await loaded(database)).join('\n') === withoutClosing(original.stdout)).toBe(true);
});

it.runIf(hasPython)('what was loaded is taken back where the index has other blocks', async () => {
  const last = FIRST + 100;
  const chains = [22, 23].map((seed) => new ChainGenerator({ seed, rootHeight: FIRST }));
  const filled = chains.map((chain) => filledDirectory({ chain, from: FIRST, to: last }));
  const [before = '', after = ''] = await Promise.all(filled);
  const database = join(scratchDirectory(), 'flow.db');
  const load = (input: string): number | null =>
    spawnSync('python3', ['docs/examples/load.py', database], { cwd: root, input }).status;
  const exported = async (dataDir: string): Promise<string> => {
    const begin = execFileSync('python3', ['docs/examples/load.py', database, 'begin'], { cwd: root });
    const from = begin.toString().trim().split(' ').filter(Boolean);
    return (await runCommand(['export', '--quiet', ...from, ...storeFlags(dataDir)])).stdout;
  };
  const whole = await exported(before);
  // Cut in the middle of a block, and of a line.
  expect(load(whole.slice(0, whole.length / 2))).toBe(0);
  expect(load(await exported(before))).toBe(0);
  expect((await loaded(database)).join('\n') === withoutClosing(whole)).toBe(true);
  const replaced = await exported(after);
  let runs = 0;
  for (let input = replaced; load(input) !== 0; runs += 1) input = await exported(after);
  expect(runs).toBe(2);
  const wanted = (await runCommand(['export', '--quiet', ...storeFlags(after)])).stdout;
  expect((await loaded(database)).join('\n') === withoutClosing(wanted)).toBe(true);
});
