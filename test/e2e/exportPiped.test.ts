import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { blocksOf, eventually, indexedHere, programPath, runCommand } from '../support/daemons.js';
import { scratchDirectory, seededRandom, storeFlags, writeReferenceStore } from '../support/daemons.js';
import { pageAt } from '../docs/files.js';
import { shellLines } from '../docs/shell.js';
import { inShell } from '../../src/runtime/index.js';

const KILLS = 2;
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

function withoutClosing(text: string): string {
  return text.trimEnd().split('\n').slice(0, -1).join('\n');
}

/** What the database has, as its program says. It is asked again once something was written: each look is a process. */
let known = { writtenAtMs: -1, newest: -1 };

async function newest(database: string): Promise<number> {
  const writtenAtMs = existsSync(database) ? statSync(database).mtimeMs : -1;
  if (writtenAtMs === known.writtenAtMs) return known.newest;
  const { stdout } = await run('python3', ['docs/examples/load.py', database, 'begin'], { cwd: root });
  known = { writtenAtMs, newest: Number(stdout.split(' ')[1] ?? -1) };
  return known.newest;
}

const reaches = (database: string, height: number) =>
  eventually(async () => (await newest(database)) >= height);

it.runIf(hasPython)(
  'a pipe into a database loads exactly what is indexed, through kills',
  async () => {
    let head = FIRST + STEP;
    const chain = { seed: 22, rootHeight: FIRST, startHead: head, profile: 'mixed' } as const;
    const { daemon, dataDir, devnet } = await indexedHere(chain);
    const database = join(scratchDirectory(), 'flow.db');
    const over = new AbortController();
    let said = '';
    let group = 0;
    // What a service manager does: again, whenever it ends.
    const supervised = (async () => {
      while (!over.signal.aborted) {
        const pipe = spawn('bash', ['-c', lineOf(dataDir, database)], { cwd: root, detached: true });
        group = pipe.pid!;
        pipe.stderr.on('data', (text: Buffer) => (said += text.toString()));
        await once(pipe, 'close');
      }
    })();
    const kill = (signal: NodeJS.Signals): void => {
      try {
        if (group > 0) process.kill(-group, signal);
      } catch {
        // It has just ended by itself.
      }
    };
    onTestFinished(() => {
      over.abort();
      kill('SIGKILL');
    });
    const random = seededRandom(9);
    for (let count = 0; count < KILLS; count += 1) {
      const until = head - STEP + Math.floor(random.next() * STEP);
      await reaches(database, until);
      kill('SIGKILL');
      head += STEP;
      devnet.node.head.set(head);
    }
    await reaches(database, head);

    over.abort();
    kill('SIGTERM');
    await supervised;
    await daemon.program.stop();
    const original = await runCommand(['export', '--quiet', ...storeFlags(dataDir)]);
    expect((await loaded(database)).join('\n') === withoutClosing(original.stdout)).toBe(true);
    expect(said).not.toContain('Traceback');
  },
  180_000,
);

it.runIf(hasPython)(
  'what was loaded is taken back, block by block, where the index has other blocks',
  async () => {
    const last = FIRST + 1;
    const stores = [22, 23].map((seed) => ({
      chain: new ChainGenerator({ seed, rootHeight: FIRST }),
      dataDir: scratchDirectory(),
    }));
    for (const { chain, dataDir } of stores) {
      await writeReferenceStore(dataDir, blocksOf(chain, FIRST, last), { chainId: chain.chainId });
    }
    const database = join(scratchDirectory(), 'flow.db');
    const load = (input: string): number | null =>
      spawnSync('python3', ['docs/examples/load.py', database], { cwd: root, input }).status;
    const exported = async (dataDir: string): Promise<string> => {
      const begin = execFileSync('python3', ['docs/examples/load.py', database, 'begin'], { cwd: root });
      const from = begin.toString().trim().split(' ').filter(Boolean);
      return (await runCommand(['export', '--quiet', ...from, ...storeFlags(dataDir)])).stdout;
    };
    const [before, after] = stores as [(typeof stores)[0], (typeof stores)[0]];
    const whole = await exported(before.dataDir);
    // Cut in the middle of a block, and of a line.
    expect(load(whole.slice(0, whole.length / 2))).toBe(0);
    expect(load(await exported(before.dataDir))).toBe(0);
    expect((await loaded(database)).join('\n') === withoutClosing(whole)).toBe(true);
    const replaced = await exported(after.dataDir);
    let runs = 0;
    for (let input = replaced; load(input) !== 0; runs += 1) input = await exported(after.dataDir);
    expect(runs).toBe(last - FIRST + 1);
    const wanted = (await runCommand(['export', '--quiet', ...storeFlags(after.dataDir)])).stdout;
    expect((await loaded(database)).join('\n') === withoutClosing(wanted)).toBe(true);
  },
);
