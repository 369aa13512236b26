import { expect, it } from 'vitest';
import { cellNamed, cells, demandOf } from '../matrix/cells.js';
import { isDisturbed, play, type CellResult } from '../matrix/play.js';

/** One cell of each demand at least; `npm run test:matrix` plays all of them (docs/fault-matrix.md). */
const sample: readonly string[] = [
  // Had another way: another call, another node, another source.
  'GetFullCollectionByID/wrong_body/tip/requester/call',
  '*/UNAVAILABLE/tip/hybrid/node',
  'SubscribeIndexedBlocks/wrong_body/tip/peer/node',
  // Not to be had: the cause.
  'SubscribeBlockDigestsFromLatest/stall/tip/hybrid/none',
  'GetNetworkParameters/UNAVAILABLE/start/hybrid/none',
  'GetNetworkParameters/other_chain/start/hybrid/none',
  'GetNodeVersionInfo/false_spork/start/hybrid/none',
  'GetLatestBlockHeader/other_chain/tip/hybrid/none',
  'GetLatestBlockHeader/head_backwards/tip/hybrid/none',
  'SubscribeBlocksFromStartHeight/wrong_parent/catching-up/hybrid/none',
  'GetFullCollectionByID/other_body/tip/requester/none',
  'GetFullCollectionByID/RESOURCE_EXHAUSTED/catching-up/requester/none',
  'SubscribeExecutionDataFromStartBlockHeight/cut-end/catching-up/ediOnly/none',
  'SubscribeExecutionDataFromStartBlockHeight/INTERNAL/tip/ediOnly/none',
  'SubscribeExecutionDataFromStartBlockHeight/stall/tip/ediOnly/none',
  'SubscribeExecutionDataFromStartBlockHeight/wrong_body/tip/ediOnly/none',
];
/** They mostly wait; their starts are what costs. */
const AT_ONCE = 8;
/** The whole suite runs beside them. */
const PATIENCE = 3;

it('has a cell of each demand in its sample', () => {
  const covered = sample.map((name) => demandOf(cellNamed(name)));
  expect(new Set(covered)).toEqual(new Set(cells.map(demandOf)));
});

it('goes on another way, or tells the right cause, and is well again after the fault', async () => {
  const queue = [...sample];
  const results: CellResult[] = [];
  const played = new Map<string, number>();
  const work = async (): Promise<void> => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      const result = await play(cellNamed(name), { patience: PATIENCE });
      if (isDisturbed(result, played)) queue.push(name);
      else results.push(result);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  expect(results.filter(({ failures }) => failures.length > 0)).toEqual([]);
  expect(results).toHaveLength(sample.length);
}, 420_000);
