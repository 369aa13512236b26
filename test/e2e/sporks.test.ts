import { describe, expect, it } from 'vitest';
import { ChainGenerator, consecutiveSporks, startDevnet } from '../../src/devnet/index.js';
import type { DevnetHandle, DevnetOptions } from '../../src/devnet/index.js';
import { runCommand } from '../support/commandLine.js';
import { lastingPort } from '../support/lastingPort.js';
import { scratchDirectory } from '../support/program.js';
import { proveStore, stopAndProve } from '../support/provenStore.js';
import type { ExpectedStore } from '../support/provenStore.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';

const LAST = 99;
const ROOT = LAST + 1;
const HEAD = 160;
const common = { paused: true, executionDataLag: -4 } satisfies DevnetOptions;

/** The options of two sporks: the first ends at `LAST`, with blocks above it that the second one discarded. */
function sporks(discarded = 0): readonly [DevnetOptions, DevnetOptions] {
  const [before, after] = consecutiveSporks({ seed: 31, ends: [{ lastHeight: LAST, discarded }], common });
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

/** The command line of a daemon on several nodes. */
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

/**
 * Confirms the second spork, as its entry in the spork table would. Without it the daemon watches for half a minute
 * whether the old chain goes on: the tests of a spork that appears later still wait for that.
 */
const CONFIRMED = ['--access-spork-root', String(ROOT)];

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

describe('a start below the root of the live spork', () => {
  it('is a configuration error that names the lowest height when none is', async () => {
    const [, after] = sporks();
    const node = await devnetForTest(after);
    const { code, stderr } = await runDaemonHere(
      argumentsFor([node], scratchDirectory(), '--start-height', '80'),
    );
    expect(code).toBe(78);
    expect(stderr).toContain(`--start-height ${ROOT}`);
  });

  it('begins at the live root with `root`', async () => {
    const [before, after] = sporks();
    const nodes = [await devnetForTest(after), await devnetForTest(before)];
    const dataDir = scratchDirectory();
    const daemon = await startDaemonHere(
      argumentsFor(nodes, dataDir, '--start-height', 'root', ...CONFIRMED),
    );
    await stopAndProve(daemon, dataDir, { ...chainsOf(before, after), firstHeight: ROOT });
  });
});

describe('finalized blocks that a spork discarded', () => {
  const DISCARDED = 5;

  /** Waits for the mismatch and gives back the arguments of the command that it names. */
  async function namedCommand(daemon: DaemonHere): Promise<string[]> {
    await daemon.program.sees(/no access node confirms the latest stored block/);
    const { message } = await daemon.reason('parent_mismatch');
    const command = /"flow-collection-indexer ([^"]*)"/.exec(message)?.[1];
    expect(command, message).toBeDefined();
    expect(daemon.program.logs()).toContainEqual(
      expect.objectContaining({
        level: 'error',
        msg: 'no access node confirms the latest stored block',
        fix: expect.stringContaining(command ?? '') as string,
      }),
    );
    return command?.split(' ') ?? [];
  }

  async function mends(command: readonly string[], dataDir: string): Promise<void> {
    const rewound = await runCommand([...command, '--network', 'devnet', '--data-dir', dataDir]);
    expect(rewound, rewound.stderr).toMatchObject({ code: 0 });
  }

  it('are named with the command that mends it when the old spork is gone', async () => {
    const [before, after] = sporks(DISCARDED);
    const old: DevnetHandle = await startDevnet({ ...before, port: await lastingPort() });
    const dataDir = scratchDirectory();
    const first = await startDaemonHere(argumentsFor([old], dataDir, '--start-height', '0'));
    await first.reaches(LAST + DISCARDED);
    expect(await first.program.stop()).toBe(0);
    await old.close();

    const node = await devnetForTest({ ...after, port: old.port });
    const daemon = await startDaemonHere(argumentsFor([node], dataDir));
    const command = await namedCommand(daemon);
    expect(command).toEqual(['rewind', '--to', String(LAST), '--yes']);
    expect(await daemon.program.stop()).toBe(0);
    await mends(command, dataDir);
    const again = await startDaemonHere(argumentsFor([node], dataDir));
    await stopAndProve(again, dataDir, chainsOf(before, after));
  });
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
    /gives spork [0-9a-f]{64} for root height 0, where this data directory has [0-9a-f]{64}/,
  );

  const daemon = await startDaemonHere(argumentsFor([foreign, good], dataDir));
  const metrics = await daemon.reaches(LAST);
  expect(metrics.value('foreign_nodes_total', { reason: 'spork' })).toBe(1);
  expect(metrics.value('endpoint_state', { endpoint: foreign.address, state: 'foreign' })).toBe(1);
  expect(await daemon.program.stop()).toBe(0);
  await proveStore(dataDir, { ...chainsOf(before, before), latestHeight: LAST });
});

it('a question about a height of an earlier spork dials nobody', async () => {
  // The real table of mainnet, whose historic nodes are not to be reached from a test.
  const node = await devnetForTest({
    ...{ seed: 31, chainId: 'flow-mainnet', paused: true },
    ...{ rootHeight: 200_000_000, startHead: 200_000_010 },
  });
  const mainnet = ['--network', 'mainnet', '--start-height', 'root'];
  const daemon = await startDaemonHere(argumentsFor([node], scratchDirectory(), ...mainnet));
  await daemon.reaches(200_000_010);
  const endpoints = async (): Promise<string[]> => {
    const { endpoints: known } = await daemon.status();
    return known.map(({ name }) => name);
  };
  expect(await endpoints()).toEqual([node.address]);
  for (const height of [7_601_063, 40_171_634, 137_390_145]) {
    expect((await daemon.api(`/explain/${height}`)).body).toMatchObject({ stage: 'below_first_indexed' });
  }
  expect(await endpoints()).toEqual([node.address]);
});
