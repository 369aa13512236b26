import { expect, it } from 'vitest';
import { ChainGenerator, consecutiveSporks, startDevnet } from '../../src/devnet/index.js';
import type { DevnetOptions } from '../../src/devnet/index.js';
import { lastingPort } from '../support/lastingPort.js';
import { scratchDirectory } from '../support/program.js';
import { proveStore, stopAndProve, type ExpectedStore } from '../support/provenStore.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const LAST = 99;
const ROOT = LAST + 1;
const HEAD = 160;
const common = { paused: true, executionDataLag: -4 } satisfies DevnetOptions;

/** The options of two sporks: the first ends at `LAST`. Blocks that the second one discarded: test/unit/finality/forks.test.ts. */
function sporks(): readonly [DevnetOptions, DevnetOptions] {
  const [before, after] = consecutiveSporks({ seed: 31, ends: [{ lastHeight: LAST, discarded: 0 }], common });
  if (before === undefined || after === undefined) throw new Error('one end makes two sporks');
  return [before, { ...after, startHead: HEAD }];
}

function chainsOf(before: DevnetOptions, after: DevnetOptions): ExpectedStore {
  const [lower, upper] = [new ChainGenerator(before), new ChainGenerator(after)];
  return { firstHeight: 0, latestHeight: HEAD, chainAt: (height) => (height < ROOT ? lower : upper) };
}

function sporkRecords(before: DevnetOptions, after: DevnetOptions): object[] {
  return [
    { rootHeight: 0, sporkId: new ChainGenerator(before).sporkId },
    { rootHeight: ROOT, sporkId: new ChainGenerator(after).sporkId },
  ];
}

function argumentsFor(
  nodes: readonly { readonly address: string }[],
  dataDir: string,
  ...flags: string[]
): string[] {
  const [first, ...others] = nodes;
  if (first === undefined) throw new Error('a daemon needs a node');
  const named = others.flatMap(({ address }) => ['--access-node', address]);
  return startArguments(first, dataDir, ...named, '--requester-backoff-max-ms', '1000', ...flags);
}

/** What a node is asked last when it is asked who it is, unless it has a block at our watermark. */
const LAST_QUESTION = { method: 'GetNodeVersionInfo' };

it('a store that grows through a spork goes on at one address that moves to the next spork', async () => {
  const [before, after] = sporks();
  const old = await startDevnet({ ...before, port: await lastingPort() });
  const dataDir = scratchDirectory();
  const daemon = await startDaemonHere(argumentsFor([old], dataDir, '--start-height', '0'));
  await daemon.reaches(LAST);
  await old.close();

  const identified = (await daemon.reaches(LAST)).sum('upstream_latency_seconds_count', LAST_QUESTION);
  await devnetForTest({ ...after, port: old.port });
  // It may deliver before it has said who it is; the record is complete once it has.
  await daemon.scrapeUntil(
    (metrics) => metrics.sum('upstream_latency_seconds_count', LAST_QUESTION) > identified,
  );
  const recorded = await stopAndProve(daemon, dataDir, chainsOf(before, after));
  expect(recorded).toEqual(sporkRecords(before, after));
});

it('a node of a foreign spork is left out beside a good one, and alone ends the start with exit code 76', async () => {
  const [before] = sporks();
  const good = await devnetForTest(before);
  const foreign = await devnetForTest({ ...before, seed: 99 });
  const dataDir = scratchDirectory();
  const first = await startDaemonHere(
    argumentsFor([good], dataDir, '--start-height', '0', '--stop-height', '40'),
  );
  expect(await first.program.exited).toBe(0);

  const refused = await runDaemonHere(argumentsFor([foreign], dataDir));
  expect(refused.code).toBe(76);
  expect(refused.stderr).toMatch(
    /gives spork [0-9a-f]{64} for root height 0, where the index has [0-9a-f]{64}/,
  );

  const daemon = await startDaemonHere(argumentsFor([foreign, good], dataDir));
  const metrics = await daemon.reaches(LAST);
  expect(metrics.value('foreign_nodes_total', { reason: 'spork' })).toBe(1);
  expect(metrics.value('endpoint_state', { endpoint: foreign.address, state: 'foreign' })).toBe(1);
  expect(await daemon.program.stop()).toBe(0);
  await proveStore(dataDir, { ...chainsOf(before, before), latestHeight: LAST });
});
