import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { seededRandom } from '../../src/runtime/random.js';
import { runCommand } from '../support/commandLine.js';
import { blocksOf, writeReferenceStore } from '../support/chainReference.js';
import { eventually, scratchDirectory, startProgram } from '../support/program.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';

const FIRST = 100;
const LAST = 300;
const options = { seed: 11, rootHeight: FIRST, profile: 'mixed' } as const;
const flags = ['--format', 'parquet', '--partition', '10', '--to', String(LAST), '--quiet'];
const KILLS = 4;

/** All files below a directory, with their digests. */
function digests(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(
    files
      .sort()
      .map((path) => [
        path.slice(directory.length),
        createHash('sha256').update(readFileSync(path)).digest('hex'),
      ]),
  );
}

const filesIn = (directory: string): number =>
  existsSync(directory) ? readdirSync(directory, { recursive: true }).length : 0;

it('an export that is killed at any instant, and resumed, leaves what one in one go leaves', async () => {
  const dataDir = scratchDirectory();
  const chain = new ChainGenerator(options);
  await writeReferenceStore(dataDir, blocksOf(chain, FIRST, LAST), { chainId: chain.chainId });
  const [whole, killed] = ['whole', 'killed'].map((name) => join(scratchDirectory(), name)) as [
    string,
    string,
  ];
  const run = ['export', ...storeFlags(dataDir), ...flags, '--output'];
  expect(await runCommand([...run, whole])).toMatchObject({ code: 0, stderr: '' });

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

it('a running daemon and its store give the same files; following, a partition is written once it is whole', async () => {
  const devnet = await devnetForTest({ ...options, startHead: 160, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--start-height', 'root'));
  await daemon.reaches(160);
  const [followed, atRest] = ['followed', 'at-rest'].map((name) => join(scratchDirectory(), name)) as [
    string,
    string,
  ];
  const run = ['export', ...storeFlags(dataDir), '--format', 'csv', '--partition', '25', '--output'];
  const follower = startProgram([...run, followed, '--follow']);
  const reaches = (height: number) => () => {
    const path = join(followed, 'manifest.json');
    if (!existsSync(path)) return undefined;
    return (JSON.parse(readFileSync(path, 'utf8')) as { to: number }).to >= height ? true : undefined;
  };
  await eventually(reaches(149));
  devnet.node.head.set(180);
  await eventually(reaches(174));
  expect(await follower.stop('SIGINT')).toBe(0);
  expect(await daemon.program.stop()).toBe(0);
  expect(await runCommand([...run, atRest, '--to', '174'])).toMatchObject({ code: 0 });
  expect(digests(followed)).toEqual(digests(atRest));
});
