import { expect, it } from 'vitest';
import { runCommand } from '../support/commandLine.js';
import { scratchDirectory } from '../support/program.js';
import { stopAndProve } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';

it('takes back a false block that was complete above a gap before it was found out', async () => {
  // The first height that has collections keeps the watermark down for a while. The head is exchanged, once, for a block
  // off the chain that has no collections, so that it is complete at once, and told as the head; its child, which comes later,
  // gives it away.
  const devnet = await devnetForTest({ seed: 7, startHead: 200, paused: true, profile: 'mainnet' });
  const collectionsAt = (height: number): number => devnet.chain.block(height).collections.length;
  let gap = 20;
  while (collectionsAt(gap) === 0) gap += 1;
  let lie = gap + 10;
  while (devnet.chain.block(lie, 'orphan').collections.length > 0) lie += 1;
  devnet.node.head.set(lie);
  const atGap = { fromHeight: gap, toHeight: gap };
  const atLie = { fromHeight: lie, toHeight: lie };
  devnet.node.setFaults([
    { method: 'GetFullCollectionByID', ...atGap, fault: 'error', code: 'UNAVAILABLE' },
    { method: 'SubscribeBlocksFromStartHeight', ...atLie, times: 1, fault: 'orphaned' },
    { method: 'SubscribeBlockDigestsFromLatest', ...atLie, fault: 'orphaned' },
    { method: 'GetLatestBlockHeader', ...atLie, fault: 'orphaned' },
  ]);
  const dataDir = scratchDirectory();
  const daemon = await startDaemonHere(
    startArguments(devnet, dataDir, '--no-edi', '--start-height', '1', '--requester-backoff-max-ms', '1000'),
  );
  // All but the gap is durable, the lie included.
  await daemon.scrapeUntil(
    (metrics) =>
      metrics.value('latest_indexed_height') === gap - 1 &&
      metrics.value('in_flight_heights') === 1 &&
      metrics.sum('heights_completed_total') === lie - 1,
  );
  expect(devnet.node.faults.fired()[1]).toBe(1);

  devnet.node.head.set(200);
  await daemon.program.sees(/indexing restarts from the watermark/);
  devnet.node.setFaults([]);
  await stopAndProve(daemon, dataDir, { firstHeight: 1, latestHeight: 200, chainAt: () => devnet.chain });
  const stored = await runCommand(['get', 'block', String(lie), ...storeFlags(dataDir)]);
  expect(JSON.parse(stored.stdout)).toMatchObject({ id: devnet.chain.blockId(lie) });
});
