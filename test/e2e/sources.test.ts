import { daemonSettings } from '../../src/config/index.js';
import { expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import type { DevnetOptions } from '../../src/devnet/index.js';
import { dumpStore, expectNoDamage, firstDifference, indexedHere, oddChain } from '../support/daemons.js';
import { scratchDirectory, writeReferenceStore, type ScrapedMetrics } from '../support/daemons.js';

const ROOT = 1_000;
const TOP = ROOT + 140;

const { options: chainOptions, chain, blocks } = oddChain(11, ROOT, TOP);
const withCollections = blocks.filter(({ collections }) => collections.length > 0);
const idsByHeight = new Map(
  blocks.map(({ height, collections }) => [height, collections.map(({ id }) => id)]),
);
const distinctIds = new Set([...idsByHeight.values()].flat());

/** Indexes the whole chain with one daemon, and stops it in good order. */
async function indexAll(options: DevnetOptions, ...flags: readonly string[]) {
  const chain = { ...chainOptions, startHead: TOP, ...options };
  const { daemon, dataDir, devnet } = await indexedHere(chain, ...flags);
  const metrics = await daemon.scrapeUntil((scraped) => scraped.value('in_flight_heights') === 0);
  expect([await daemon.program.stop(), daemon.program.stderr]).toEqual([0, '']);
  return { dataDir, metrics, requests: devnet.node.requests };
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

// Nodes that grant few streams, execution data that lags, other windows and budgets: the simulation.
it('the requester alone with a node of the first days: no streams, no full collections, no version', async () => {
  const { dataDir, metrics, requests } = await indexAll({
    ...{ streams: false, fullCollections: false, nodeVersionInfo: false, executionData: false },
  });

  expect(completed(metrics)).toEqual({ requester: withCollections.length, edi: 0 });
  // Those that were under way together when the first of them was answered UNIMPLEMENTED.
  expect(requests.count('GetFullCollectionByID')).toBeLessThanOrEqual(
    daemonSettings['requester.concurrency'].default,
  );
  expect(requests.count('GetCollectionByID')).toBeGreaterThanOrEqual(distinctIds.size);
  expect(requests.count('SubscribeBlocksFromStartHeight')).toBeLessThan(3);
  expect(requests.highestHeightAsked()).toBeLessThanOrEqual(TOP);
  // Such a node does not tell its spork id; all else is the same.
  await expectTheStore(dataDir, '');
});

it('execution data alone, from a node that leaves out the root block and system chunks, in little room', async () => {
  const { dataDir, metrics, requests } = await indexAll(
    { executionDataSubscriptions: 'deprecated', executionDataAtRoot: false, systemChunk: false },
    ...['--edi-only', '--window', '7', '--max-in-flight-bytes', '1MiB'],
  );

  expect(completed(metrics)).toEqual({ requester: 0, edi: withCollections.length });
  for (const method of [
    'GetFullCollectionByID',
    'GetCollectionByID',
    'GetTransaction',
    'GetTransactionsByBlockID',
  ])
    expect(requests.count(method)).toBe(0);
  expect(metrics.value('collections_requested_total')).toBe(0);
  expect(metrics.value('stream_age_seconds', { stream: 'execution_data' })).toBeLessThan(60);
  await expectTheStore(dataDir);
});
