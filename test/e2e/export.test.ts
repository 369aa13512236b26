import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { ChainGenerator } from '../../src/devnet/index.js';
import { blocksOf } from '../support/chainReference.js';
import { runCommand } from '../support/commandLine.js';
import { eventually, scratchDirectory, startProgram } from '../support/program.js';
import {
  devnetForTest,
  runDaemonHere,
  startArguments,
  startDaemon,
  startDaemonHere,
} from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';

const ROOT = 100;
const HEAD = 160;
const chainOptions = { seed: 11, rootHeight: ROOT, profile: 'mixed' } as const;

function nodeWith(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0, ...options });
}

/** The closing line of a file; it is what it says. */
function closingOf(text: string): Record<string, unknown> {
  const at = text.lastIndexOf('\n', text.length - 2) + 1;
  const closing = JSON.parse(text.slice(at)) as Record<string, unknown>;
  expect(closing['sha256']).toBe(createHash('sha256').update(text.slice(0, at)).digest('hex'));
  return closing;
}

const sizeOf = (path: string): number => (existsSync(path) ? statSync(path).size : 0);

describe('export', () => {
  it('that was killed is continued to what one in one go is; a daemon and its store give the same', async () => {
    const devnet = await nodeWith();
    const dataDir = scratchDirectory();
    const daemon = await startDaemonHere(startArguments(devnet, dataDir, '--start-height', 'root'));
    await daemon.reaches(HEAD);
    const path = join(scratchDirectory(), 'killed.ndjson');
    const follower = startProgram(['export', ...storeFlags(dataDir), '--follow', '--output', path]);
    await eventually(() => (readTo(path) >= HEAD ? true : undefined));
    // It follows, and is killed while it does.
    devnet.node.head.set(HEAD + 5);
    await daemon.reaches(HEAD + 5);
    expect(await follower.stop('SIGKILL')).toBe('SIGKILL');
    // And the machine has torn the last line, for good measure.
    truncateSync(path, sizeOf(path) - 7);

    const to = ['--to', String(HEAD + 5)];
    const resumed = await runCommand(['export', ...storeFlags(dataDir), ...to, '--output', path, '--resume']);
    expect(resumed).toMatchObject({ code: 0, stdout: '' });
    const fromDaemon = await runCommand(['export', ...storeFlags(dataDir), ...to, '--quiet']);
    expect(fromDaemon).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(path, 'utf8') === fromDaemon.stdout).toBe(true);
    expect(closingOf(fromDaemon.stdout)).toMatchObject({ from: ROOT, to: HEAD + 5, blocks: HEAD - ROOT + 6 });

    expect(await daemon.program.stop()).toBe(0);
    const fromStore = await runCommand(['export', ...storeFlags(dataDir), ...to, '--quiet']);
    expect(fromStore).toMatchObject({ code: 0, stderr: '' });
    expect(fromStore.stdout === fromDaemon.stdout).toBe(true);
  });

  it('follows the chain through a daemon that is killed and started again, and is closed by a signal', async () => {
    const devnet = await nodeWith();
    const dataDir = scratchDirectory();
    const args = startArguments(devnet, dataDir, '--start-height', 'root');
    const killed = await startDaemon(args);
    const path = join(scratchDirectory(), 'followed.ndjson');
    await killed.reaches(ROOT);
    const follower = startProgram(['export', ...storeFlags(dataDir), '--follow', '--output', path]);
    await eventually(() => (sizeOf(path) > 0 ? true : undefined));
    expect(await killed.program.stop('SIGKILL')).toBe('SIGKILL');
    await follower.sees(/The daemon does not answer; waiting for it\./);
    devnet.node.head.set(HEAD + 3);
    // Another port: it is found by its record.
    await startDaemonHere(args);
    await follower.sees(/The daemon answers again\./);
    await eventually(() => (readTo(path) >= HEAD + 3 ? true : undefined));
    expect(await follower.stop('SIGINT')).toBe(0);
    expect(closingOf(readFileSync(path, 'utf8'))).toMatchObject({
      ...{ chain_id: 'flow-localnet', from: ROOT, to: HEAD + 3 },
    });
  });

  it('that is stopped before it is done ends by the signal, without a closing line', async () => {
    const devnet = await nodeWith();
    const dataDir = scratchDirectory();
    expect(
      await runDaemonHere(
        startArguments(devnet, dataDir, '--start-height', 'root', '--stop-height', String(HEAD)),
      ),
    ).toMatchObject({ code: 0 });
    const stuck = startProgram(['export', ...storeFlags(dataDir), '--quiet']);
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
});

/** The highest height of whole lines in a file that is being written. */
function readTo(path: string): number {
  if (sizeOf(path) === 0) return 0;
  const text = readFileSync(path, 'utf8');
  const heights = [...text.matchAll(/^\{"kind":"block","height":(\d+),.*\n/gm)];
  return Number(heights.at(-1)?.[1] ?? 0);
}

describe('explain', () => {
  it('names the collection that no node has, the node that was asked, and what it said', async () => {
    const chain = new ChainGenerator(chainOptions);
    const held = blocksOf(chain, ROOT + 5, HEAD).find(({ collections }) => collections.length > 0)!;
    const [lost] = held.collections;
    const devnet = await nodeWith({
      // Either way of asking: on a slow machine there is time for both.
      faults: ['GetFullCollectionByID', 'GetCollectionByID'].map((method) => ({
        ...{ method, fault: 'error', code: 'NOT_FOUND' },
        ...{ fromHeight: held.height, toHeight: held.height },
      })),
    });
    const dataDir = scratchDirectory();
    const daemon = await startDaemonHere(
      startArguments(devnet, dataDir, '--start-height', 'root', '--no-edi'),
    );
    const explain = async (key: string): Promise<Record<string, unknown>> => {
      const { stdout, code } = await runCommand(['explain', '--json', key, ...storeFlags(dataDir)]);
      expect(code).toBe(0);
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    await daemon.reaches(held.height - 1);
    // Until it has been asked for, and refused.
    const explained = await eventually(async () => {
      const document = await explain(String(held.height));
      return JSON.stringify(document).includes('"failures":[{') ? document : undefined;
    });
    expect(explained).toMatchObject({
      ...{ stage: 'fetching', height: held.height, blockId: held.id, latestIndexed: held.height - 1 },
      holdingUp: { height: held.height },
      work: {
        missingCollections: expect.arrayContaining([
          expect.objectContaining({
            lastNode: devnet.address,
            failures: [
              expect.objectContaining({
                ...{
                  node: devnet.address,
                  lastError: expect.stringContaining(`${devnet.address}: NOT_FOUND: `) as string,
                },
              }),
            ],
          }),
        ]) as unknown,
      },
      sources: { nodes: [{ name: devnet.address, servesHeight: true }] },
    });
    expect(await explain(lost!.id)).toMatchObject({
      kind: 'collection',
      stage: 'fetching',
      height: held.height,
    });
    const page = await runCommand(['explain', String(held.height), ...storeFlags(dataDir)]);
    for (const part of [lost!.id, devnet.address, 'NOT_FOUND', `${held.height - 1}`]) {
      expect(page.stdout).toContain(part);
    }

    expect(await daemon.program.stop()).toBe(0);
    expect(await explain(String(held.height))).toMatchObject({ stage: 'not_indexed', sources: null });
    expect(await explain(String(ROOT))).toMatchObject({ stage: 'indexed' });
  });
});

describe('status --watch', () => {
  it('says when the daemon goes and comes back, and goes on', async () => {
    const devnet = await nodeWith();
    const dataDir = scratchDirectory();
    const args = startArguments(devnet, dataDir, '--start-height', 'root');
    const first = await startDaemon(args);
    await first.reaches(HEAD);
    const watch = startProgram(['status', '--watch', ...storeFlags(dataDir)]);
    await watch.sees(/indexed through 160; head 160, 0 behind/);
    expect(await first.program.stop('SIGKILL')).toBe('SIGKILL');
    await watch.sees(/The daemon does not answer any more; still asking\.\n/);
    await startDaemonHere(args);
    await watch.sees(/The daemon answers again\.\nindexed through 160;/);
    expect(await watch.stop('SIGINT')).toBe(0);
  });
});
