import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { exitCodeOf } from '../../src/app/index.js';
import { ChainGenerator } from '../../src/devnet/index.js';
import { pageAt } from '../docs/files.js';
import { shellLines } from '../docs/shell.js';
import { blocksOf, filledDirectory, matching, runInProcess, runProgram } from '../support/index.js';
import { scratchDirectory, ServedChain, smallChain } from '../support/index.js';
import { devnetForTest } from '../support/runningDaemon.js';

/** The lines of the page, each with its exit code and text: `flow-collection-indexer ARGUMENTS # EXIT: TEXT`. */
const examples = shellLines(pageAt('docs/command-line.md'))
  .filter((line) => !line.isInline && line.text.startsWith('flow-collection-indexer '))
  .map(({ text: command, comment }) => {
    const [, code = '', text = ''] = /^(\d+): (.*)$/.exec(comment) ?? [];
    return { line: `${command} # ${comment}`, args: command.split(' ').slice(1), code: Number(code), text };
  });

const FIRST = 100;
const HEIGHT = 120;
const LAST = 140;
const options = { seed: 3, rootHeight: FIRST, profile: 'mixed' } as const;
const chain = new ChainGenerator(options);
const rich = blocksOf(chain, FIRST, LAST).find(({ collections }) => collections.length > 1)!;
const [collection] = rich.collections;

const named: Readonly<Record<string, string>> = {
  HEIGHT: String(HEIGHT),
  BLOCK_ID: rich.id,
  COLLECTION_ID: collection!.id,
  TRANSACTION_ID: collection!.transactionIds.toString('hex', 0, 32),
};

/** Lines that go on until they are stopped. */
const isEndless = (args: readonly string[]): boolean =>
  args[0] === 'devnet' || args.includes('--watch') || args.includes('--follow');

/** What each line needs beside what stands there, and what it may write to. */
async function surroundings(args: readonly string[]): Promise<readonly string[]> {
  const [command] = args;
  if (['devnet', 'config', 'completion', 'help', 'version'].includes(command ?? '')) return [];
  if (command === 'start') {
    const dataDir = scratchDirectory();
    return [
      ...['--network', 'devnet', '--data-dir', dataDir, '--log-format', 'pretty'],
      ...['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0'],
    ];
  }
  // Names its stores itself.
  if (command === 'migrate') return ['--network', 'devnet'];
  const dataDir = await filledDirectory({ chain, from: FIRST, to: LAST });
  if (command === 'status' || args.includes('--follow')) {
    const { port } = await ServedChain.start(smallChain(HEIGHT, [[], []]), { sealed: null });
    const address = { host: '127.0.0.1', port };
    const record = { pid: 1, instance: 'one', api: address, metrics: address };
    writeFileSync(join(dataDir, 'daemon.json'), JSON.stringify(record));
  }
  return ['--network', 'devnet', '--data-dir', dataDir];
}

async function argumentsOf(args: readonly string[], file: string): Promise<string[]> {
  const filled: string[] = [];
  for (const arg of args) {
    if (arg === 'NODE') filled.push((await devnetForTest({ ...options, startHead: LAST })).address);
    else filled.push(arg === 'FILE' ? file : (named[arg] ?? arg));
  }
  return [...filled, ...(await surroundings(args))];
}

/** What the file holds before the line is run: some lines go on with what another one left. */
async function prepare(args: readonly string[], code: number, file: string): Promise<void> {
  if (args[0] !== 'export' || args.includes('--follow')) return;
  if (!args.includes('--resume') && code !== 64) return;
  const made = await argumentsOf(['export', '--output', 'FILE'], file);
  expect((await runInProcess(made)).exit).toBe('done');
}

it('shows every command', async () => {
  const { out } = await runInProcess(['--help']);
  const commands = [...out.matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name]) => name);
  expect(commands.length).toBeGreaterThan(8);
  const shown = new Set(examples.map(({ args }) => args[0]));
  expect(commands.filter((name) => !shown.has(name))).toEqual([]);
});

it.each(examples.map((example) => [example.line, example] as const))('%s', async (_, example) => {
  const { args, code, text } = example;
  const file = join(scratchDirectory(), 'file.ndjson');
  await prepare(args, code, file);
  if (args[0] === 'start') {
    // Its reader thread runs the built program.
    const { code: ended, stdout, stderr } = await runProgram(await argumentsOf(args, file));
    expect({ all: stdout + stderr, code: ended }).toEqual({ all: matching(text), code });
    return;
  }
  const ending = new AbortController();
  let printed = '';
  const see = (piece: string): void => {
    printed += piece;
    // Following is told to end once there is something to be seen of it.
    if (isEndless(args) && (args.includes('--follow') || printed.includes(text))) ending.abort();
  };
  if (args.includes('--follow')) {
    const growth = setInterval(() => {
      if (readFileSync(file, { flag: 'a+' }).length > 0) see('');
    }, 20);
    ending.signal.addEventListener('abort', () => clearInterval(growth));
  }
  const write = (bytes: Uint8Array): Promise<boolean> => {
    see(Buffer.from(bytes).toString());
    return Promise.resolve(true);
  };
  const change = { signal: ending.signal, out: see, err: see, write };
  const ran = await runInProcess(await argumentsOf(args, file), change);
  const all = printed + ran.message;
  expect({ all, code: exitCodeOf(ran.exit) }).toEqual({ all: matching(text), code });
});
