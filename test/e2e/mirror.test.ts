import { describe, expect, it } from 'vitest';
import { ChainGenerator, consecutiveSporks } from '../../src/devnet/index.js';
import { identifierBytes } from '../../src/flow/index.js';
import { blocksOf, daemonOn, devnetForTest, dumpStore, eventually } from '../support/daemons.js';
import { expectNoDamage, firstDifference, indexedHere, lastingPort, runCommand } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemon, startDaemonHere } from '../support/daemons.js';
import { storeFlags, type DaemonHere, type ScrapedMetrics } from '../support/daemons.js';
import { relayedPeer } from '../support/relayedPeer.js';

const HEAD = 120;
const chain = { seed: 31, startHead: HEAD, paused: true, hashedIds: true } as const;
const FROM_ROOT = ['--start-height', 'root'];
const NOBODY = { address: 'none' };

function mirrorOf(peer: string, dataDir: string, ...flags: string[]): Promise<DaemonHere> {
  return startDaemonHere(startArguments(NOBODY, dataDir, '--peer', peer, ...FROM_ROOT, ...flags));
}

async function stopAll(...daemons: DaemonHere[]): Promise<void> {
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
  /** To sign a block takes as long as all else with it. */
  const TOP = 24;
  const certified = { ...chain, startHead: TOP, certificatesEvery: 1 };

  it('has the store of its source and proves the same final, as does a mirror of the mirror; a copy of it is restored with every block proven, unless one is not what the checkpoint names', async () => {
    const node = await devnetForTest(certified);
    const [first, second, third] = [scratchDirectory(), scratchDirectory(), scratchDirectory()];
    const source = await startDaemonHere(startArguments(node, first, ...FROM_ROOT));
    await source.scrapeUntil((metrics) => metrics.value('proven_height') === TOP - 2);
    // Above the block of which the source keeps who signs.
    const { id } = node.chain.block(7);
    const strict = ['--proof-mode', 'required', '--proof-checkpoint', `7:${id}`];
    const mirror = await mirrorOf(source.grpcAddress, second, ...strict);
    await mirror.scrapeUntil((metrics) => metrics.value('proven_height') === TOP - 2);
    const far = await mirrorOf(mirror.grpcAddress, third, ...strict, '--proof-finality', 'proven');
    const proven = await far.scrapeUntil((metrics) => metrics.value('proven_height') === TOP - 2);
    expect(proven.value('unproven_heights')).toBe(0);
    const { endpoints, proof, sources } = await far.status();
    expect(proof).toMatchObject({ anchor: { kind: 'checkpoint', height: 7, id }, provenHeight: TOP - 2 });
    expect(endpoints).toMatchObject([{ name: mirror.grpcAddress, state: 'healthy' }]);
    expect(sources).toMatchObject({ edi: { state: 'off' }, peer: { endpoint: mirror.grpcAddress } });

    expect(proven.sum('upstream_requests_total', { method: 'GetFullCollectionByID' })).toBe(0);

    node.node.head.set(TOP + 8);
    await far.scrapeUntil((metrics) => metrics.value('proven_height') === TOP + 6);
    await stopAll(far, mirror, source);
    await expectSameStores(first, second, third);

    const restored = scratchDirectory();
    const restore = (checkpoint: string) =>
      runCommand([
        ...['restore', '--from', first, ...storeFlags(restored), '--proof-mode', 'required'],
        ...['--proof-checkpoint', `7:${checkpoint}`],
      ]);
    const false7 = node.chain.block(8).id;
    const refused = await restore(false7);
    expect(refused.code).toBe(74);
    expect(refused.stderr).toMatch(
      new RegExp(`nothing of it was taken: block of height 7: its id is .* proof.checkpoint names ${false7}`),
    );
    const done = await restore(id);
    expect(done).toMatchObject({ code: 0 });
    expect(done.stdout).toContain(`${TOP + 9} blocks proven, 0 on the word of nodes`);
    await expectSameStores(first, restored);
  });

  it('says what its source would have to do where that keeps nothing of who signs above the first block, and what a daemon does that takes its source for a node', async () => {
    const node = await devnetForTest(certified);
    const source = await daemonOn(node, ...FROM_ROOT);
    const from = ['--start-height', '7'];
    const mirror = await mirrorOf(source.grpcAddress, scratchDirectory(), ...from);
    await mirror.reaches(TOP);
    const { proof } = await mirror.statusUntil(
      (status) => status.proof.reason?.includes('forward such calls (api.forward)') === true,
    );
    expect(proof).toMatchObject({ provenHeight: null, unprovenHeights: 0 });
    await stopAll(mirror);

    // Whose access node is an indexer has to become a mirror, says so, and is one with the indexer as a peer too.
    const asNode = startArguments({ address: source.grpcAddress }, scratchDirectory(), ...from);
    const told = await startDaemonHere(asNode);
    await eventually(async () => {
      const { reasons } = await told.status();
      // At once, not after the minute in which nodes may name their spork.
      return JSON.stringify(reasons).includes('to feed an indexer, name this one as its --peer too');
    });
    await stopAll(told);
    const both = await startDaemonHere([...asNode, '--peer', source.grpcAddress]);
    const metrics = await both.reaches(TOP);
    expect(metrics.value('unproven_heights')).toBe(0);
    await stopAll(both, source);
  });

  it('goes with its source from one spork to the next, also while it follows', async () => {
    const ends = [{ lastHeight: 99, discarded: 0 }];
    const [ended, after] = consecutiveSporks({ seed: chain.seed, ends, common: { paused: true } });
    const old = await devnetForTest(ended);
    const port = await lastingPort();
    const [first, second, third] = [scratchDirectory(), scratchDirectory(), scratchDirectory()];
    const next = ['--access-node', `127.0.0.1:${port}`, '--access-spork-root', '100'];
    const source = await startDaemonHere(startArguments(old, first, ...FROM_ROOT, ...next));
    const follower = await mirrorOf(source.grpcAddress, second);
    await follower.reaches(99);
    const { node } = await devnetForTest({ ...after, port, startHead: HEAD });
    await source.reaches(HEAD);
    await follower.reaches(HEAD);
    const handshakes = (metrics: ScrapedMetrics): number =>
      metrics.sum('upstream_latency_seconds_count', { method: 'GetNodeVersionInfo' });
    const before = handshakes(await follower.scrape());
    await follower.scrapeUntil((metrics) => handshakes(metrics) > before);
    node.head.set(HEAD + 20);
    await follower.reaches(HEAD + 20);
    const late = await mirrorOf(follower.grpcAddress, third);
    await late.statusUntil((status) => status.firstIndexed === 0 && status.latestIndexed === HEAD + 20);
    await stopAll(late, follower, source);
    await expectSameStores(first, second);
    // Of sporks that ended before it began, a mirror has the blocks, and not their ids.
    await expectNoDamage(third);
  });

  it('begins where its source begins, says of peers what it says of nodes elsewhere, and goes on where it was when its source is killed, and when that was rewound', async () => {
    const node = await devnetForTest(chain);
    const [first, second] = [scratchDirectory(), scratchDirectory()];
    const port = await lastingPort();
    const mirror = await mirrorOf(`127.0.0.1:${port}`, second);
    await mirror.reason(/no peer has reported/);
    expect(JSON.stringify(await mirror.reasons())).not.toContain('access node');
    // The last one of a flag counts.
    const from = ['--start-height', '50', '--api-grpc-port', String(port)];
    const args = startArguments(node, first, ...from);
    const killed = await startDaemon(args);
    await mirror.reaches(HEAD);
    expect((await mirror.status()).firstIndexed).toBe(50);
    await killed.program.stop('SIGKILL');
    node.node.head.set(HEAD + 40);
    let source = await startDaemonHere(args);
    await mirror.reaches(HEAD + 40);

    await stopAll(source);
    const rewind = ['rewind', ...storeFlags(first), '--to', '70', '--yes'];
    expect((await runCommand(rewind)).code).toBe(0);
    source = await startDaemonHere(args);
    node.node.head.set(HEAD + 80);
    await mirror.reaches(HEAD + 80);
    await stopAll(mirror, source);
    await expectSameStores(first, second);
  });
});

/** In its bodies: the fault matrix (SubscribeIndexedBlocks/wrong_body). */
it('a peer that changes the ids of what it mirrors is refused and counted, and alone it gives nothing', async () => {
  const FROM = 20;
  const generator = new ChainGenerator({ seed: chain.seed, hashedIds: true });
  const ids = blocksOf(generator, FROM, HEAD).map(({ id }) => identifierBytes(id));
  const { daemon: source, dataDir: first } = await indexedHere(chain);
  const second = scratchDirectory();
  const liar = await relayedPeer(source.grpcAddress, (method, answer) => {
    if (!['GetProvableBlock', 'SubscribeProvableBlocks'].includes(method)) return answer;
    // A bit of each, wherever it is.
    for (const id of ids)
      for (let at = answer.indexOf(id); at >= 0; at = answer.indexOf(id, at + 1)) answer[at + 7]! ^= 4;
    return answer;
  });
  const mirror = await mirrorOf(liar.endpoint, second);
  const alone = await mirror.scrapeUntil((metrics) => metrics.sum('invalid_blocks_total') > 1);
  expect(alone.value('latest_indexed_height')).toBeLessThan(FROM);
  await stopAll(mirror);

  const both = await mirrorOf(liar.endpoint, second, '--peer', source.grpcAddress);
  await both.reaches(HEAD);
  await stopAll(both, source);
  await expectSameStores(first, second);
});
