import { describe, expect, it } from 'vitest';
import type { DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { scratchDirectory } from '../support/program.js';
import { stopAndProve } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';

/** One chain for all: nodes of one test serve the same blocks. Execution data reaches the head. */
const HEAD = 150;
const chain = {
  ...{ seed: 21, startHead: HEAD, paused: true, executionDataLag: -4 },
  // Nodes of one chain that start at different heads have the same ids without certificates.
  ...{ hashedIds: true, certificatesEvery: 0 },
} satisfies DevnetOptions;

/**
 * Makes a node the last one that is asked: nodes are asked in the order of their latency. So long that no machine is busy
 * enough to make the others slower.
 */
const slow: FaultRule = { method: 'Get*', fault: 'latency', delayMs: 1_500 };

/** Nodes of one chain. Each has made its blocks already: a devnet finds collections of blocks that it has made. */
function nodes(...all: readonly DevnetOptions[]): Promise<DevnetHandle[]> {
  return Promise.all(all.map((options) => knowing(devnetForTest({ ...chain, ...options }))));
}

async function knowing(starting: Promise<DevnetHandle>): Promise<DevnetHandle> {
  const devnet = await starting;
  for (let height = 0; height <= HEAD; height += 1) devnet.node.chain.block(height);
  return devnet;
}

async function daemonOn(
  devnets: readonly { readonly address: string }[],
  ...flags: string[]
): Promise<{ readonly daemon: DaemonHere; readonly dataDir: string }> {
  const dataDir = scratchDirectory();
  const [first, ...others] = devnets;
  if (first === undefined) throw new Error('a daemon needs a node');
  const named = others.flatMap(({ address }) => ['--access-node', address]);
  const args = startArguments(first, dataDir, '--start-height', '0', ...quick, ...named, ...flags);
  return { daemon: await startDaemonHere(args), dataDir };
}

/** Retries soon, so that no scenario waits longer than it must. */
const quick = ['--requester-backoff-max-ms', '1000'];

function whole(devnet: DevnetHandle, latestHeight: number = HEAD) {
  return { firstHeight: 0, latestHeight, chainAt: () => devnet.chain };
}

describe('a liar beside an honest node', () => {
  it('streams blocks that are refused, and the index grows', async () => {
    const method = 'SubscribeBlocksFromStartHeight';
    const lie: FaultRule = { method, fromHeight: 5, fault: 'wrong_parent' };
    // On a busy machine the honest node's stream may be chosen first: it is given up for the liar's.
    const silent: FaultRule = { method, fault: 'latency', delayMs: 60_000 };
    const [liar, honest] = (await nodes({ faults: [lie] }, { faults: [slow, silent] })) as [
      DevnetHandle,
      DevnetHandle,
    ];
    const { daemon, dataDir } = await daemonOn([liar, honest]);

    await daemon.scrapeUntil((metrics) => metrics.sum('invalid_blocks_total', { reason: 'copy' }) >= 1);
    honest.node.setFaults([]);
    await daemon.reaches(HEAD);
    expect(daemon.program.logs()).toContainEqual(
      expect.objectContaining({ msg: 'access node penalized', fault: 'lied', endpoint: liar.address }),
    );
    await stopAndProve(daemon, dataDir, whole(honest));
  });

  it('streams a block off the chain, which is found out before it is stored', async () => {
    const method = 'SubscribeBlocksFromStartHeight';
    const [node] = (await nodes({})) as [DevnetHandle];
    // It links, and is complete as soon as it is seen; what gives it away comes half a second later.
    let height = 60;
    while (node.chain.block(height, 'orphan').collections.length > 0) height += 1;
    node.node.setFaults([
      { method, fromHeight: height, toHeight: height, fault: 'orphaned', times: 1 },
      { method, fromHeight: height + 1, toHeight: height + 1, fault: 'latency', delayMs: 500, times: 1 },
    ]);
    const { daemon, dataDir } = await daemonOn([node]);

    const metrics = await daemon.reaches(HEAD);
    expect(metrics.sum('invalid_blocks_total', { reason: 'parent_mismatch' })).toBe(1);
    expect(metrics.sum('foreign_nodes_total')).toBe(0);
    await stopAndProve(daemon, dataDir, whole(node));
  });
});

describe('answers that are not yet there', () => {
  it('are asked for again at the tip', async () => {
    const [node] = (await nodes({
      startHead: 100,
      blockIntervalMs: 20,
      endHeight: HEAD,
      collectionLagMs: 150,
      faults: [{ method: 'GetFullCollectionByID', fault: 'error', code: 'NOT_FOUND', times: 20 }],
    })) as [DevnetHandle];
    const { daemon, dataDir } = await daemonOn([node], '--no-edi');
    await daemon.reaches(100);
    node.node.head.resume();

    const metrics = await daemon.reaches(HEAD);
    const errors = (kind: string): number =>
      metrics.sum('upstream_errors_total', { method: 'GetFullCollectionByID', kind });
    expect(errors('not_found')).toBe(20);
    expect(errors('not_yet')).toBeGreaterThanOrEqual(1);
    expect(metrics.sum('invalid_collections_total')).toBe(0);
    expect(metrics.sum('endpoint_state', { state: 'healthy' })).toBe(1);
    await stopAndProve(daemon, dataDir, whole(node));
  });

  it('slow down a rate-limited node alone', async () => {
    const method = 'GetFullCollectionByID';
    const [limited, free] = (await nodes(
      { ratePerSecond: 10 },
      { faults: [{ method, fault: 'latency', delayMs: 20 }] },
    )) as [DevnetHandle, DevnetHandle];
    const { daemon, dataDir } = await daemonOn([limited, free], '--no-edi');

    const metrics = await daemon.reaches(HEAD);
    const errors = (node: DevnetHandle): number =>
      metrics.sum('upstream_errors_total', { endpoint: node.address, method, kind: 'rate_limited' });
    expect(errors(limited)).toBeGreaterThanOrEqual(1);
    expect(errors(free)).toBe(0);
    expect(free.node.requests.count(method)).toBeGreaterThan(limited.node.requests.count(method));
    expect(metrics.sum('endpoint_state', { state: 'healthy' })).toBe(2);
    await stopAndProve(daemon, dataDir, whole(free));
  });
});

describe('execution data in hybrid mode', () => {
  const method = 'SubscribeExecutionData*';
  it('that starts late is taken up when it comes', async () => {
    const [node] = (await nodes({
      startHead: 100,
      blockIntervalMs: 20,
      faults: [{ method, fault: 'execution_data_lag', blocks: 1000 }],
    })) as [DevnetHandle];
    const { daemon, dataDir } = await daemonOn([node]);
    const before = await daemon.reaches(100);
    expect(before.value('collections_received_total', { source: 'edi' })).toBe(0);

    const { head } = node.node;
    node.node.setFaults([]);
    head.resume();
    await daemon.scrapeUntil((metrics) => metrics.value('collections_received_total', { source: 'edi' }) > 0);
    head.pause();
    await stopAndProve(daemon, dataDir, whole(node, head.finalized));
  });
});

describe('streams', () => {
  it('that fall silent are opened again, all of them', async () => {
    const silence = { fault: 'stall', times: 1 } as const;
    const [node] = (await nodes({
      startHead: 140,
      faults: [
        { method: 'SubscribeBlocksFromStartHeight', fromHeight: 60, ...silence },
        { method: 'SubscribeExecutionData*', fromHeight: 30, ...silence },
        { method: 'SubscribeBlockDigestsFromLatest', fault: 'stall', times: 2, skip: 2 },
      ],
    })) as [DevnetHandle];
    const { daemon, dataDir } = await daemonOn([node], '--edi-only');
    await daemon.reaches(20);
    node.node.head.advance(HEAD - 140);

    const metrics = await daemon.reaches(HEAD);
    const reopened = (stream: string, reason: string): number =>
      metrics.sum('stream_reopens_total', { stream, reason });
    expect(reopened('blocks', 'stale')).toBe(1);
    expect(reopened('execution_data', 'silent')).toBe(1);
    expect(metrics.value('heights_completed_total', { source: 'requester' })).toBe(0);
    await daemon.scrapeUntil(
      (now) => now.sum('stream_reopens_total', { stream: 'finalized', reason: 'stale' }) === 1,
    );
    await stopAndProve(daemon, dataDir, whole(node));
  });
});
