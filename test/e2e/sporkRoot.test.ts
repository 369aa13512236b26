import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { consecutiveSporks } from '../../src/devnet/index.js';
import { lastingPort } from '../support/lastingPort.js';
import { programPath, scratchDirectory, startProgram, type Program } from '../support/program.js';
import { daemonOn, devnetForTest, indexedHere, listening, startArguments } from '../support/runningDaemon.js';

const ROOT = 100;
const HEAD = ROOT + 20;

/** The built program with a spork table of its own, in which the simulated network has a spork with this root. */
function programWithRoot(rootParentId: string, rootId: string): string {
  const home = scratchDirectory();
  const root = dirname(dirname(programPath));
  for (const part of ['dist', 'proto', 'package.json'])
    cpSync(join(root, part), join(home, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'));
  mkdirSync(join(home, 'config'));
  const spork = { name: 'devnet1', rootHeight: ROOT, endHeightExclusive: null, rootParentId, rootId };
  const table = { devnet: [{ ...spork, accessNodes: ['127.0.0.1:1'] }] };
  writeFileSync(join(home, 'config', 'sporks.json'), JSON.stringify(table));
  cpSync(join(root, 'config', 'devnet.json'), join(home, 'config', 'devnet.json'));
  return join(home, 'dist', 'main.js');
}

it('a chain with another root than the spork table names is refused, and the right one rests on it', async () => {
  const node = await devnetForTest({
    ...{ seed: 31, rootHeight: ROOT, startHead: HEAD, paused: true },
    ...{ hashedIds: true, certificatesEvery: 1 },
  });
  const { id, parentId } = node.chain.block(ROOT);
  const start = (path: string, dataDir: string): Program =>
    startProgram(startArguments(node, dataDir, '--start-height', 'root'), {}, { script: [path] });

  const dataDir = scratchDirectory();
  const sound = await listening(start(programWithRoot(parentId, id), dataDir));
  await sound.scrapeUntil((metrics) => metrics.value('proven_height') === HEAD - 2);
  expect((await sound.status()).proof).toMatchObject({ anchor: { kind: 'spork_root', height: ROOT, id } });
  expect(await sound.program.stop()).toBe(0);

  // The same store, and an empty one.
  const other = node.chain.block(ROOT + 1).id;
  const wrong = programWithRoot(parentId, other);
  await Promise.all(
    [dataDir, scratchDirectory()].map(async (directory) => {
      const refused = start(wrong, directory);
      expect(await refused.exited).toBe(76);
      expect(refused.stderr).toContain(`Block ${ROOT} has the id ${id}, but`);
      expect(refused.stderr).toContain(other);
    }),
  );
});

it('a node that moves to a spork of which there is only the root fails no proof', async () => {
  const common = { hashedIds: true, certificatesEvery: 1, paused: true };
  const [ended, next] = consecutiveSporks({ ends: [{ lastHeight: 20 }], common });
  const port = await lastingPort();
  const before = await devnetForTest({ ...ended, port });
  const daemon = await daemonOn(before, '--start-height', 'root');
  await daemon.scrapeUntil((metrics) => metrics.value('proven_height') === 18);
  await before.kill();
  await devnetForTest({ ...next, port, startHead: 21 });
  const { proof } = await daemon.statusUntil((status) => status.proof.anchor?.height === 21);
  expect(proof).toMatchObject({ anchor: { kind: 'first_use' }, reason: null });
  expect(daemon.program.stdout).not.toContain('a certificate of the chain is invalid');
});

it('a question about a height of an earlier spork dials nobody', async () => {
  // The real table of mainnet, whose historic nodes are not to be reached from a test.
  const chain = { seed: 31, chainId: 'flow-mainnet', rootHeight: 200_000_000, startHead: 200_000_010 };
  const { daemon, devnet: node } = await indexedHere(chain, '--network', 'mainnet');
  for (const height of [7_601_063, 40_171_634, 137_390_145])
    expect((await daemon.api(`/explain/${height}`)).body).toMatchObject({ stage: 'below_first_indexed' });
  expect((await daemon.status()).endpoints.map(({ name }) => name)).toEqual([node.address]);
});
