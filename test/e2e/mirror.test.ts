import { describe, expect, it } from 'vitest';
import { ChainGenerator } from '../../src/devnet/index.js';
import { identifierBytes } from '../../src/flow/index.js';
import { lastingPort } from '../support/lastingPort.js';
import { eventually, runProgram, scratchDirectory, startProgram } from '../support/program.js';
import { expectNoDamage } from '../support/provenStore.js';
import { relayedPeer } from '../support/relayedPeer.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import type { RunningDaemon } from '../support/runningDaemon.js';
import { dumpStore, firstDifference, storeFlags } from '../support/storeDump.js';

const HEAD = 120;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const FROM_ROOT = ['--start-height', 'root'];
const NOBODY = { address: 'none' };

function mirrorOf(peer: string, dataDir: string, ...flags: string[]): Promise<RunningDaemon> {
  return startDaemon(startArguments(NOBODY, dataDir, '--peer', peer, ...FROM_ROOT, ...flags));
}

async function stopAll(...daemons: RunningDaemon[]): Promise<void> {
  for (const { program } of daemons) expect(await program.stop(), program.stderr).toBe(0);
}

async function expectSameStores(first: string, ...others: string[]): Promise<void> {
  const original = await dumpStore(first);
  for (const other of others) {
    expect(firstDifference(await dumpStore(other), original)).toBeUndefined();
    await expectNoDamage(other);
  }
}

describe('a mirror', () => {
  it('has the store of its source and proves the same final, as does a mirror of the mirror', async () => {
    const node = await devnetForTest({ ...chain, certificatesEvery: 1 });
    const [first, second, third] = [scratchDirectory(), scratchDirectory(), scratchDirectory()];
    const source = await startDaemon(startArguments(node, first, ...FROM_ROOT, '--api-forward'));
    await source.reaches(HEAD);
    const { id } = node.chain.block(0);
    const strict = ['--proof-mode', 'required', '--proof-checkpoint', `0:${id}`];
    const mirror = await mirrorOf(source.grpcAddress, second, ...strict, '--api-forward');
    const far = await mirrorOf(mirror.grpcAddress, third, ...strict, '--proof-finality', 'proven');
    const proven = await far.scrapeUntil((metrics) => metrics.value('proven_height') === HEAD - 2);
    expect(proven.value('unproven_heights')).toBe(0);
    const { endpoints, proof, sources } = await far.status();
    expect(proof).toMatchObject({ anchor: { kind: 'checkpoint', height: 0, id }, provenHeight: HEAD - 2 });
    expect(endpoints).toMatchObject([{ name: mirror.grpcAddress, state: 'healthy' }]);
    expect(sources).toMatchObject({ edi: { state: 'off' }, peer: { endpoint: mirror.grpcAddress } });

    node.node.head.set(HEAD + 40);
    await far.scrapeUntil((metrics) => metrics.value('proven_height') === HEAD + 38);
    await stopAll(far, mirror, source);
    await expectSameStores(first, second, third);
  });

  it('says what its source would have to do where that does not forward, and proves no block final', async () => {
    const node = await devnetForTest({ ...chain, certificatesEvery: 1 });
    const source = await startDaemon(startArguments(node, scratchDirectory(), ...FROM_ROOT));
    const mirror = await mirrorOf(source.grpcAddress, scratchDirectory());
    await mirror.reaches(HEAD);
    const { proof } = await eventually(async () => {
      const status = await mirror.status();
      return status.proof.reason === null ? undefined : status;
    });
    expect(proof).toMatchObject({ provenHeight: null, unprovenHeights: 0 });
    expect(proof.reason).toContain('have the daemon forward such calls (api.forward)');
  });

  it('ends with 76 where the checkpoint is another block', async () => {
    const node = await devnetForTest(chain);
    const source = await startDaemon(startArguments(node, scratchDirectory(), ...FROM_ROOT));
    await source.reaches(HEAD);
    const checkpoint = ['--proof-checkpoint', `7:${node.chain.block(8).id}`];
    const peer = ['--peer', source.grpcAddress];
    const program = startProgram(
      startArguments(NOBODY, scratchDirectory(), ...peer, ...FROM_ROOT, ...checkpoint),
    );
    expect(await program.exited).toBe(76);
    expect(program.stdout + program.stderr).toContain('proof.checkpoint names');
  });

  it('goes on where it was when its source is killed, and when that was rewound', async () => {
    const node = await devnetForTest(chain);
    const [first, second] = [scratchDirectory(), scratchDirectory()];
    const port = await lastingPort();
    // The last one of a flag counts.
    const args = startArguments(node, first, ...FROM_ROOT, '--api-grpc-port', String(port));
    let source = await startDaemon(args);
    const mirror = await mirrorOf(source.grpcAddress, second);
    await mirror.reaches(HEAD);
    await source.program.stop('SIGKILL');
    node.node.head.set(HEAD + 40);
    source = await startDaemon(args);
    await mirror.reaches(HEAD + 40);

    await stopAll(source);
    const rewind = ['rewind', ...storeFlags(first), '--to', '30', '--yes'];
    expect((await runProgram(rewind)).code).toBe(0);
    source = await startDaemon(args);
    node.node.head.set(HEAD + 80);
    await mirror.reaches(HEAD + 80);
    await stopAll(mirror, source);
    await expectSameStores(first, second);
  });
});

describe('a copy from anywhere', () => {
  it('is restored with every block proven, unless a block is not the one that the checkpoint names', async () => {
    const node = await devnetForTest(chain);
    const [first, second] = [scratchDirectory(), scratchDirectory()];
    const source = await startDaemon(startArguments(node, first, ...FROM_ROOT));
    await source.reaches(HEAD);
    await stopAll(source);
    const restore = (id: string) =>
      runProgram([
        ...['restore', '--from', first, ...storeFlags(second), '--proof-mode', 'required'],
        ...['--proof-checkpoint', `7:${id}`],
      ]);
    const false7 = node.chain.block(8).id;
    const refused = await restore(false7);
    expect(refused.code).toBe(74);
    expect(refused.stderr).toMatch(
      new RegExp(`nothing of it was taken: block of height 7: its id is .* proof.checkpoint names ${false7}`),
    );
    const restored = await restore(node.chain.block(7).id);
    expect(restored).toMatchObject({ code: 0 });
    expect(restored.stdout).toContain(`${HEAD + 1} blocks proven, 0 on the word of nodes`);
    await expectSameStores(first, second);
  });

  it('is refused where a block is not proven and has to be', async () => {
    const node = await devnetForTest({ ...chain, hashedIds: false });
    const [first, second] = [scratchDirectory(), scratchDirectory()];
    const source = await startDaemon(startArguments(node, first, ...FROM_ROOT));
    await source.reaches(HEAD);
    await stopAll(source);
    const flags = ['--from', first, ...storeFlags(second), '--proof-mode'];
    const refused = await runProgram(['restore', ...flags, 'required']);
    expect(refused.code).toBe(74);
    expect(refused.stderr).toContain('block of height 0: nothing in it proves its id');
    expect((await runProgram(['restore', ...flags, 'auto'])).code).toBe(0);
  });
});

describe('a peer that changes what it mirrors', () => {
  const FROM = 20;
  const generator = new ChainGenerator({ seed: chain.seed, hashedIds: true });
  const blocks = Array.from({ length: HEAD + 1 }, (_, height) => generator.block(height)).filter(
    ({ collections, height }) => height >= FROM && collections.length > 0,
  );
  const BLOCKS = ['GetProvableBlock', 'SubscribeProvableBlocks'];
  const BODIES = ['SubscribeIndexedBlocks', 'GetFullCollectionByID', 'GetTransaction'];

  /** Flips a bit of these bytes, wherever they are. */
  const flipped = (answer: Buffer, bytes: Uint8Array): void => {
    for (let at = answer.indexOf(bytes); at >= 0; at = answer.indexOf(bytes, at + 1)) answer[at + 7]! ^= 4;
  };

  it.each<readonly [string, methods: readonly string[], counter: string, (answer: Buffer) => void]>([
    [
      'ids',
      BLOCKS,
      'invalid_blocks_total',
      (answer) => {
        for (const { id } of blocks) flipped(answer, identifierBytes(id));
      },
    ],
    [
      'guarantees',
      BLOCKS,
      'invalid_blocks_total',
      (answer) => {
        for (const { collections } of blocks) flipped(answer, identifierBytes(collections[0]!.id));
      },
    ],
    [
      'bodies',
      BODIES,
      'invalid_collections_total',
      (answer) => {
        for (const { collections } of blocks) flipped(answer, collections[0]!.transactions[0]!.subarray(2));
      },
    ],
  ])('in its %s is refused and counted, and alone it gives nothing', async (_, methods, counter, change) => {
    const node = await devnetForTest(chain);
    const [first, second] = [scratchDirectory(), scratchDirectory()];
    const source = await startDaemon(startArguments(node, first, ...FROM_ROOT));
    await source.reaches(HEAD);
    const liar = await relayedPeer(source.grpcAddress, (method, answer) => {
      if (methods.includes(method)) change(answer);
      return answer;
    });
    const mirror = await mirrorOf(liar.endpoint, second);
    const alone = await mirror.scrapeUntil((metrics) => metrics.sum(counter) > 1);
    expect(alone.value('latest_indexed_height')).toBeLessThan(blocks[0]!.height);
    await stopAll(mirror);

    const both = await mirrorOf(liar.endpoint, second, '--peer', source.grpcAddress);
    await both.reaches(HEAD);
    await stopAll(both, source);
    await expectSameStores(first, second);
  });
});
