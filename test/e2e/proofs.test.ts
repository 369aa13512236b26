import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StatusDocument } from '../../src/api/index.js';
import type { DevnetHandle, FaultRule } from '../../src/devnet/index.js';
import { runProgram, scratchDirectory } from '../support/program.js';
import { stopAndProve } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';

const HEAD = 120;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const STREAM = 'SubscribeBlocksFromStartHeight';

const forged = (method: string): FaultRule => ({ method, fault: 'wrong_body', fromHeight: 5 });
const whole = (node: DevnetHandle) => ({
  ...{ firstHeight: 0, latestHeight: HEAD },
  chainAt: () => node.chain,
});

const proofOf = async (daemon: RunningDaemon) => ((await daemon.api('/status')).body as StatusDocument).proof;

describe('a daemon on a chain whose blocks can be proven', () => {
  it('proves every block, and says so', async () => {
    const node = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(
      startArguments(node, dataDir, '--start-height', 'root', '--proof-mode', 'required'),
    );
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.value('unproven_heights')).toBe(0);
    expect(await proofOf(daemon)).toMatchObject({
      ...{ mode: 'required', form: 'H8P8', unprovenHeights: 0 },
    });
    const store = whole(node);
    await stopAndProve(daemon, dataDir, store);
  });

  it('refuses forged guarantees as they arrive, by stream and by call, and takes the other node', async () => {
    const liar = await devnetForTest({ ...chain, faults: [forged(STREAM), forged('GetBlockByHeight')] });
    const honest = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const flags = ['--start-height', 'root', '--access-node', honest.address];
    const daemon = await startDaemon(startArguments(liar, dataDir, ...flags));
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.sum('invalid_blocks_total', { endpoint: honest.address })).toBe(0);
    expect(metrics.value('unproven_heights')).toBe(0);
    await stopAndProve(daemon, dataDir, whole(honest));
  });

  it('counts what it takes on the word of a node whose ids are made up, and warns once', async () => {
    const node = await devnetForTest({ ...chain, hashedIds: false });
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(startArguments(node, dataDir, '--start-height', 'root'));
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.value('unproven_heights')).toBe(HEAD + 1);
    expect(await proofOf(daemon)).toMatchObject({
      ...{ mode: 'auto', form: null },
      reason: expect.stringContaining('does not know') as string,
    });
    await stopAndProve(daemon, dataDir, whole(node));
    const warnings = daemon.program.stdout.match(/blocks are taken on the word of the nodes/g);
    expect(warnings).toHaveLength(1);
  });

  it('gives documents from which another program proves a transaction, with and without a daemon', async () => {
    const node = await devnetForTest(chain);
    const dataDir = scratchDirectory();
    const daemon = await startDaemon(startArguments(node, dataDir, '--start-height', 'root'));
    await daemon.reaches(HEAD);
    const filled = Array.from({ length: HEAD }, (_, height) => node.chain.block(height)).find(
      ({ collections }) => collections.some(({ transactions }) => transactions.length > 1),
    )!;
    const collection = filled.collections.find(({ transactions }) => transactions.length > 1)!;
    const looked = (await daemon.api(`/lookup/collection/${collection.id}`)).body as {
      readonly collection: { readonly transactions: readonly { readonly id: string }[] };
    };
    const { id } = looked.collection.transactions.at(-1)!;
    const served = await daemon.api(`/proof/transactions/${id}?to=${HEAD}`);
    expect(served.status).toBe(200);
    const ask = () => runProgram(['prove', 'transaction', id, '--to', String(HEAD), ...storeFlags(dataDir)]);
    const running = await ask();
    await stopAndProve(daemon, dataDir, whole(node));
    const stopped = await ask();
    for (const { code, stdout } of [running, stopped]) {
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toEqual(served.body);
    }
    const file = join(dataDir, 'proof.json');
    writeFileSync(file, stopped.stdout);
    const anchor = `${HEAD}:${node.chain.block(HEAD).id}`;
    const proven = execFileSync(process.execPath, ['docs/examples/check-proof.mjs', file, anchor], {
      encoding: 'utf8',
    });
    expect(proven).toContain(`block ${filled.height}:${filled.id}`);
    expect(proven).toContain(`transaction ${id}`);
    const beyond = await runProgram(['prove', 'block', '1', '--to', '900', ...storeFlags(dataDir)]);
    expect(beyond).toMatchObject({ code: 66, stdout: '' });
  });
});
