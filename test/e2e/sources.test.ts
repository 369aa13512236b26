import { expect, it } from 'vitest';
import { dumpStore, expectNoDamage, filledDirectory } from '../support/daemons.js';
import { firstDifference, indexedHere, oddChain } from '../support/daemons.js';

const ROOT = 1_000;
const TOP = ROOT + 140;

const { options: chainOptions, chain, blocks } = oddChain(11, ROOT, TOP);
const withCollections = blocks.filter(({ collections }) => collections.length > 0).length;

// Nodes of the first days, or that grant few streams, other windows and budgets: the simulation.
it('execution data alone, from a node that leaves out the root block and system chunks, in little room', async () => {
  const node = {
    executionDataSubscriptions: 'deprecated',
    executionDataAtRoot: false,
    systemChunk: false,
  } as const;
  const { daemon, dataDir, devnet } = await indexedHere(
    { ...chainOptions, startHead: TOP, ...node },
    ...['--edi-only', '--window', '7', '--max-in-flight-bytes', '1MiB'],
  );
  const metrics = await daemon.scrapeUntil((scraped) => scraped.value('in_flight_heights') === 0);
  expect([await daemon.program.stop(), daemon.program.stderr]).toEqual([0, '']);

  for (const [source, heights] of [
    ['none', blocks.length - withCollections],
    ['requester', 0],
    ['edi', withCollections],
  ] as const)
    expect(metrics.value('heights_completed_total', { source }), source).toBe(heights);
  const calls = [
    'GetFullCollectionByID',
    'GetCollectionByID',
    'GetTransaction',
    'GetTransactionsByBlockID',
  ] as const;
  expect(calls.map((method) => devnet.node.requests.count(method))).toEqual([0, 0, 0, 0]);
  expect(metrics.value('collections_requested_total')).toBe(0);
  expect(metrics.value('stream_age_seconds', { stream: 'execution_data' })).toBeLessThan(60);

  // The store is what the chain says, key by key and byte for byte, and `verify` agrees.
  const reference = await filledDirectory({ chain, from: ROOT, to: TOP });
  const stored = await dumpStore(dataDir);
  expect(stored.length).toBeGreaterThan(blocks.length * 3);
  expect(firstDifference(stored, await dumpStore(reference))).toBeUndefined();
  expect(await expectNoDamage(dataDir)).toMatchObject({ range: { from: ROOT, to: TOP } });
});
