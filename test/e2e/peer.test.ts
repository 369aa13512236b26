import { expect, it } from 'vitest';
import { ChainGenerator, type ChainOptions, type DevnetHandle } from '../../src/devnet/index.js';
import type { ExplainDocument, StatusDocument } from '../../src/api/index.js';
import { blocksOf, dumpStore, expectNoDamage, firstDifference } from '../support/daemons.js';
import { indexedHere, matching, runCommand, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemonHere, storeFlags, type DaemonHere, type ScrapedMetrics } from '../support/daemons.js';

const ROOT = 1_000;
const TOP = ROOT + 160;
const chainOptions: ChainOptions = { seed: 23, rootHeight: ROOT, profile: 'mixed' };
const blocks = blocksOf(new ChainGenerator(chainOptions), ROOT, TOP);
const withCollections = blocks.filter(({ collections }) => collections.length > 0);

const still = { ...chainOptions, startHead: TOP };

function follower(devnet: DevnetHandle, dataDir: string, peer: string, ...flags: string[]) {
  return startDaemonHere(startArguments(devnet, dataDir, '--peer', peer, ...flags));
}

const FROM_ROOT = ['--start-height', 'root'];

const collectionMethods = ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction'];

function collectionCalls({ node }: DevnetHandle): number {
  return collectionMethods.reduce((sum, method) => sum + node.requests.count(method), 0);
}

const won = (metrics: ScrapedMetrics, source: string): number =>
  metrics.value('heights_completed_total', { source });

const peerOf = async (daemon: DaemonHere): Promise<StatusDocument['sources']['peer']> =>
  (await daemon.status()).sources.peer;

it('catches up with next to no collection asked of the nodes, goes on by itself when that is gone, and has the same store', async () => {
  const top = ROOT + 300;
  const {
    daemon: source,
    dataDir: first,
    devnet,
  } = await indexedHere({ ...still, startHead: top }, '--no-edi');
  const second = scratchDirectory();
  const before = collectionCalls(devnet);
  expect(before).toBeGreaterThan(150);
  // Of two sources the quicker one is asked. A node without any way to it would be that.
  devnet.node.setFaults(
    collectionMethods.map((method) => ({ method, fault: 'latency', delayMs: 1_000 }) as const),
  );

  const fed = await follower(devnet, second, source.grpcAddress, '--no-edi', ...FROM_ROOT);
  const metrics = await fed.reaches(top);
  expect(collectionCalls(devnet) - before).toBeLessThan(before / 10);
  expect(won(metrics, 'peer')).toBeGreaterThan(5 * won(metrics, 'requester'));
  expect(metrics.value('collections_received_total', { source: 'peer' })).toBeGreaterThan(0);
  expect(await peerOf(fed)).toMatchObject({ state: 'following', endpoint: source.grpcAddress });
  const { endpoints } = await fed.status();
  expect(endpoints.map(({ name, origin }) => [name, origin])).toEqual([
    [devnet.address, 'configured'],
    [source.grpcAddress, 'peer'],
  ]);
  const { sources } = (await fed.api(`/explain/${top + 1}`)).body as ExplainDocument;
  expect(sources?.nodes.map(({ name }) => name)).toEqual([devnet.address]);
  expect((await source.scrape()).value('feed_followers', { kind: 'indexed_blocks' })).toBe(1);

  const stopped = async ({ program }: DaemonHere) =>
    expect([await program.stop(), program.stderr]).toEqual([0, '']);
  await stopped(source);
  devnet.node.setFaults([]);
  devnet.node.head.set(top + 5);
  await fed.reaches(top + 5);
  const isAway = { state: matching(/connecting|unavailable/), reason: matching(/peer/) };
  expect(await peerOf(fed)).toMatchObject(isAway);
  await stopped(fed);
  expect((await runCommand(['rewind', '--to', String(top), '--yes', ...storeFlags(second)])).code).toBe(0);
  expect(firstDifference(await dumpStore(second), await dumpStore(first))).toBeUndefined();
  await expectNoDamage(second);
});

it('fills in history from it too', async () => {
  const { daemon: source, devnet } = await indexedHere(still, '--no-edi');
  const before = collectionCalls(devnet);
  const args = startArguments(devnet, scratchDirectory(), '--start-height', String(TOP - 20), '--no-edi');
  const fed = await startDaemonHere([...args, '--peer', source.grpcAddress, '--backfill', String(ROOT)]);
  const metrics = await fed.scrapeUntil((now) => now.value('covered_heights') === TOP - ROOT + 1);
  expect(won(metrics, 'peer')).toBeGreaterThan(withCollections.length / 2);
  expect(collectionCalls(devnet) - before).toBeLessThan(before / 2);
});
