import { daemonSettings } from '../../src/config/index.js';
import { expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { devnetForTest, dumpStore, expectNoDamage, firstDifference, oddChain } from '../support/daemons.js';
import { scratchDirectory, startArguments, startDaemonHere } from '../support/daemons.js';
import { writeReferenceStore, type ScrapedMetrics } from '../support/daemons.js';

const ROOT = 1_000;
const TOP = ROOT + 140;

const { options: chainOptions, chain, blocks } = oddChain(11, ROOT, TOP);
const withCollections = blocks.filter(({ collections }) => collections.length > 0);
const idsByHeight = new Map(
  blocks.map(({ height, collections }) => [height, collections.map(({ id }) => id)]),
);
const distinctIds = new Set([...idsByHeight.values()].flat());

function nodeWith(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({ ...chainOptions, startHead: TOP, paused: true, sealedLag: 0, ...options });
}

/** Indexes the whole chain with one daemon and stops it in good order; answers with its last metrics. */
async function indexAll(
  devnet: DevnetHandle,
  dataDir: string,
  flags: readonly string[],
): Promise<ScrapedMetrics> {
  const args = startArguments(devnet, dataDir, '--start-height', 'root', ...flags);
  const daemon = await startDaemonHere(args);
  await daemon.reaches(TOP);
  const metrics = await daemon.scrapeUntil((scraped) => scraped.value('in_flight_heights') === 0);
  expect(await daemon.program.stop()).toBe(0);
  expect(daemon.program.stderr).toBe('');
  return metrics;
}

/** The store is what the chain says, key by key and byte for byte, and `verify` agrees. */
async function expectTheStore(dataDir: string, sporkId: string = chain.sporkId): Promise<void> {
  const reference = scratchDirectory();
  await writeReferenceStore(reference, blocks, {
    chainId: chain.chainId,
    createdBy: `flow-collection-indexer ${programVersion()}`,
    sporks: [{ rootHeight: ROOT, sporkId }],
  });
  const stored = await dumpStore(dataDir);
  expect(stored.length).toBeGreaterThan(blocks.length * 3);
  expect(firstDifference(stored, await dumpStore(reference))).toBeUndefined();
  expect(await expectNoDamage(dataDir)).toMatchObject({ range: { from: ROOT, to: TOP } });
}

/** Heights by the source of their last missing collection; all of them together are the chain. */
function completed(metrics: ScrapedMetrics): { readonly requester: number; readonly edi: number } {
  const by = (source: string): number => metrics.value('heights_completed_total', { source });
  expect(by('none')).toBe(blocks.length - withCollections.length);
  expect(by('requester') + by('edi')).toBe(withCollections.length);
  return { requester: by('requester'), edi: by('edi') };
}

function collectionCalls({ node }: DevnetHandle): number {
  return ['GetFullCollectionByID', 'GetCollectionByID', 'GetTransaction', 'GetTransactionsByBlockID'].reduce(
    (sum, method) => sum + node.requests.count(method),
    0,
  );
}

// Nodes that grant few streams, execution data that lags, other windows and budgets: the simulation.
it('the requester alone with a node of the first days: no streams, no full collections, no version', async () => {
  const devnet = await nodeWith({
    streams: false,
    fullCollections: false,
    nodeVersionInfo: false,
    executionData: false,
  });
  const dataDir = scratchDirectory();
  const metrics = await indexAll(devnet, dataDir, []);

  expect(completed(metrics)).toEqual({ requester: withCollections.length, edi: 0 });
  // Those that were under way together when the first of them was answered UNIMPLEMENTED.
  expect(devnet.node.requests.count('GetFullCollectionByID')).toBeLessThanOrEqual(
    daemonSettings['requester.concurrency'].default,
  );
  expect(devnet.node.requests.count('GetCollectionByID')).toBeGreaterThanOrEqual(distinctIds.size);
  expect(devnet.node.requests.count('SubscribeBlocksFromStartHeight')).toBeLessThan(3);
  expect(devnet.node.requests.highestHeightAsked()).toBeLessThanOrEqual(TOP);
  // Such a node does not tell its spork id; all else is the same.
  await expectTheStore(dataDir, '');
});

it('execution data alone, from a node that leaves out the root block and system chunks, in little room', async () => {
  const devnet = await nodeWith({
    ...{ executionDataSubscriptions: 'deprecated', executionDataAtRoot: false, systemChunk: false },
  });
  const dataDir = scratchDirectory();
  const flags = ['--edi-only', '--window', '7', '--max-in-flight-bytes', '1MiB'];
  const metrics = await indexAll(devnet, dataDir, flags);

  expect(completed(metrics)).toEqual({ requester: 0, edi: withCollections.length });
  expect(collectionCalls(devnet)).toBe(0);
  expect(metrics.value('collections_requested_total')).toBe(0);
  expect(metrics.value('stream_age_seconds', { stream: 'execution_data' })).toBeLessThan(60);
  await expectTheStore(dataDir);
});
