import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { devnetForTest, eventually, filledDirectory, runCommand } from '../support/daemons.js';
import { seededRandom, startArguments, startDaemon, startDaemonHere } from '../support/daemons.js';
import { scratchDirectory, startProgram, storeFlags } from '../support/daemons.js';

const ROOT = 100;
const HEAD = 160;
const LAST = 300;
const chainOptions = { seed: 11, rootHeight: ROOT, profile: 'mixed' } as const;
const KILLS = 4;

const filled = () => filledDirectory({ chain: new ChainGenerator(chainOptions), from: ROOT, to: LAST });
const within = (name: string): string => join(scratchDirectory(), name);

const sha256 = (of: string | Buffer): string => createHash('sha256').update(of).digest('hex');

/** The closing line of a file; it is what it says. */
function closingOf(text: string): Record<string, unknown> {
  const at = text.lastIndexOf('\n', text.length - 2) + 1;
  const closing = JSON.parse(text.slice(at)) as Record<string, unknown>;
  expect(closing['sha256']).toBe(sha256(text.slice(0, at)));
  return closing;
}

/** The highest height of whole lines in a file that is being written; none where it is empty. */
function readTo(path: string): number {
  if (!existsSync(path) || statSync(path).size === 0) return 0;
  const text = readFileSync(path, 'utf8');
  const heights = [...text.matchAll(/^\{"kind":"block","height":(\d+),.*\n/gm)];
  return Number(heights.at(-1)?.[1] ?? 0);
}

function partitionedTo(directory: string): number {
  const path = join(directory, 'manifest.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { to: number }).to : 0;
}

function digests(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(paths.map((path) => [path.slice(directory.length), sha256(readFileSync(path))]));
}

it('follows the chain through a daemon that is killed and started again, and is closed by a signal', async () => {
  const devnet = await devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const args = startArguments(devnet, dataDir, '--start-height', 'root');
  const killed = await startDaemon(args);
  await killed.reaches(HEAD);
  const [path, parts, atRest] = [within('followed.ndjson'), within('followed'), within('at-rest')];
  const run = ['export', ...storeFlags(dataDir)];
  const partitioned = [...run, '--format', 'csv', '--partition', '25', '--output'];
  const follower = startProgram([...run, '--follow', '--output', path]);
  const byPartition = startProgram([...partitioned, parts, '--follow']);
  // A partition is written once it is whole.
  await eventually(() => readTo(path) > 0 && partitionedTo(parts) === 149);
  expect(await killed.program.stop('SIGKILL')).toBe('SIGKILL');
  await follower.sees(/The daemon does not answer; waiting for it\./);
  devnet.node.head.set(HEAD + 20);
  // Another port: it is found by its record.
  const daemon = await startDaemonHere(args);
  await follower.sees(/The daemon answers again\./);
  await eventually(() => readTo(path) >= HEAD + 20 && partitionedTo(parts) >= 174);
  for (const each of [follower, byPartition]) expect(await each.stop('SIGINT')).toBe(0);
  expect(closingOf(readFileSync(path, 'utf8'))).toMatchObject({
    ...{ chain_id: 'flow-localnet', from: ROOT, to: HEAD + 20 },
  });
  // The store gives the same files.
  expect(await daemon.program.stop()).toBe(0);
  expect(await runCommand([...partitioned, atRest, '--to', '174'])).toMatchObject({ code: 0 });
  expect(digests(parts)).toEqual(digests(atRest));
});

it('that is stopped before it is done ends by the signal, without a closing line', async () => {
  const stuck = startProgram(['export', ...storeFlags(await filled()), '--quiet']);
  const { child } = stuck;
  await once(child.stdout!, 'data');
  // Nobody takes the rest, which is more than a pipe holds.
  child.stdout!.pause();
  child.kill('SIGTERM');
  await once(child, 'exit');
  child.stdout!.resume();
  expect(await stuck.exited).toBe('SIGTERM');
  expect(stuck.stdout).not.toContain('"kind":"end"');
  expect(stuck.stderr).toBe('');
});

it('that is killed at any instant, and resumed, leaves what one in one go leaves', async () => {
  const [whole, killed] = [within('whole'), within('killed')];
  const flags = ['--format', 'parquet', '--partition', '10', '--to', String(LAST), '--quiet'];
  const run = ['export', ...storeFlags(await filled()), ...flags, '--output'];
  expect(await runCommand([...run, whole])).toMatchObject({ code: 0, stderr: '' });

  const filesIn = (directory: string): number =>
    existsSync(directory) ? readdirSync(directory, { recursive: true }).length : 0;
  const random = seededRandom(5);
  let survived = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const begun = filesIn(killed);
    const program = startProgram([...run, killed, '--resume']);
    let ended = false;
    void program.exited.then(() => (ended = true));
    // Some way into its work, wherever that happens to be.
    const target = begun + 1 + Math.floor(random.next() * 20);
    await eventually(() => ended || filesIn(killed) >= target);
    if ((await program.stop('SIGKILL')) !== 'SIGKILL') survived += 1;
  }
  expect(survived).toBeLessThan(KILLS);
  expect(await runCommand([...run, killed, '--resume'])).toMatchObject({ code: 0 });
  expect(digests(killed)).toEqual(digests(whole));
});
