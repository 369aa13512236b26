import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
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
  it('follows the chain through a daemon that is killed and started again, and is closed by a signal', async () => {
    const devnet = await nodeWith();
    const dataDir = scratchDirectory();
    const args = startArguments(devnet, dataDir, '--start-height', 'root');
    const killed = await startDaemon(args);
    const path = join(scratchDirectory(), 'followed.ndjson');
    await killed.reaches(ROOT);
    const follower = startProgram(['export', ...storeFlags(dataDir), '--follow', '--output', path]);
    await eventually(() => sizeOf(path) > 0);
    expect(await killed.program.stop('SIGKILL')).toBe('SIGKILL');
    await follower.sees(/The daemon does not answer; waiting for it\./);
    devnet.node.head.set(HEAD + 3);
    // Another port: it is found by its record.
    await startDaemonHere(args);
    await follower.sees(/The daemon answers again\./);
    await eventually(() => readTo(path) >= HEAD + 3);
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
