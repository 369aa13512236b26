import { describe, expect, it } from 'vitest';
import type { DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import { startDevnet } from '../../src/devnet/index.js';
import { lastingPort } from '../support/lastingPort.js';
import { eventually, scratchDirectory } from '../support/program.js';
import { stopAndProve } from '../support/provenStore.js';
import { devnetForTest, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';
import type { StatusDocument } from '../../src/api/index.js';

/** One chain for all: nodes of one test serve the same blocks. Execution data reaches the head. */
const HEAD = 150;
const chain = {
  ...{ seed: 21, startHead: HEAD, paused: true, executionDataLag: -4 },
  // Nodes of one chain that start at different heads have the same ids without certificates.
  ...{ hashedIds: true, certificatesEvery: 0 },
} satisfies DevnetOptions;

/**
 * Makes a node the last one that is asked: nodes are asked in the order of their latency. So long that no machine is busy
 * enough to make the others slower; `onceFoundOut` takes it away.
 */
const slow: FaultRule = { method: 'Get*', fault: 'latency', delayMs: 1_500 };

/** On a busy machine the honest node's stream may be chosen first: it is given up for a liar's. */
const silent = (method: FaultRule['method']): FaultRule => ({ method, fault: 'latency', delayMs: 60_000 });

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

async function status(daemon: DaemonHere): Promise<StatusDocument> {
  return await daemon.status();
}

function statusOnce(
  daemon: DaemonHere,
  condition: (document: StatusDocument) => boolean,
): Promise<StatusDocument> {
  return eventually(async () => {
    const document = await status(daemon);
    return condition(document) ? document : undefined;
  });
}

function endpointState(document: StatusDocument, devnet: { readonly address: string }): string | undefined {
  return document.endpoints.find(({ name }) => name === devnet.address)?.state;
}

/** The nodes that the daemon set aside for a lie, as it said in its log. */
function liars(daemon: DaemonHere): Set<unknown> {
  return new Set(
    daemon.program
      .logs()
      .filter((line) => line['msg'] === 'access node penalized' && line['fault'] === 'lied')
      .map((line) => line['endpoint']),
  );
}

/** What the daemon told of nodes' calls while it was watched: the reasons given, by node and call. */
type Told = ReadonlyMap<string, string>;

/**
 * Waits until each of the others has lied, or the status has named one of its calls as one that fails, and lets the honest one
 * answer at once from then on.
 */
async function onceFoundOut(
  daemon: DaemonHere,
  others: readonly DevnetHandle[],
  honest: DevnetHandle,
): Promise<Told> {
  const told = new Map<string, string>();
  const failing = new Set<string>();
  await eventually(async () => {
    for (const { name, calls } of (await status(daemon)).endpoints) {
      for (const { method, reason } of calls) told.set(`${name} ${method}`, reason);
      if (calls.length > 0) failing.add(name);
    }
    const lied = liars(daemon);
    return others.every(({ address }) => lied.has(address) || failing.has(address)) ? true : undefined;
  });
  honest.node.setFaults([]);
  return told;
}

describe('a liar beside an honest node', () => {
  it('gives collections that are refused by reason, and the honest one makes the progress', async () => {
    const methods = ['GetFullCollectionByID', 'GetCollectionByID'] as const;
    const lies = ['wrong_body', 'other_body', 'truncated', 'oversized'] as const;
    const all = await nodes(
      ...lies.map((fault) => ({ faults: methods.map((method): FaultRule => ({ method, fault })) })),
      { faults: [slow] },
    );
    const [garbler, confuser, cutter, bloater, honest] = all as [
      DevnetHandle,
      DevnetHandle,
      DevnetHandle,
      DevnetHandle,
      DevnetHandle,
    ];
    const { daemon, dataDir } = await daemonOn(all, '--no-edi', '--access-max-message-bytes', '4MiB');

    const told = await onceFoundOut(daemon, [garbler, confuser, cutter, bloater], honest);
    const metrics = await daemon.reaches(HEAD);
    const refused = (reason: string): number =>
      metrics.sum('invalid_collections_total', { source: 'requester', reason });
    expect(refused('id_mismatch')).toBeGreaterThanOrEqual(2);
    expect(refused('malformed')).toBeGreaterThanOrEqual(1);
    expect(refused('too_large')).toBeGreaterThanOrEqual(1);
    expect(liars(daemon)).toEqual(new Set([garbler, confuser].map((node) => node.address)));
    // Bytes that cannot be read, or are too many, are held against the call alone.
    expect(told.get(`${cutter.address} GetFullCollectionByID`)).toMatch(/malformed answer/);
    expect(told.get(`${bloater.address} GetFullCollectionByID`)).toMatch(/larger than max/);
    const received = metrics.value('collections_received_total', { source: 'requester' });
    const { requests } = honest.node;
    expect(
      requests.count('GetFullCollectionByID') + requests.count('GetCollectionByID'),
    ).toBeGreaterThanOrEqual(received);
    await stopAndProve(daemon, dataDir, whole(honest));
  });

  it('gives execution data that is refused by reason, and the honest one makes the progress', async () => {
    const method = 'SubscribeExecutionData*';
    const lies: readonly FaultRule[] = [
      { method, fault: 'swapped_chunks' },
      { method, fault: 'missing_chunk' },
      { method, fault: 'extra_chunk' },
      { method, fault: 'wrong_body' },
      { method, fault: 'other_body' },
      { method, fault: 'truncated' },
    ];
    const profile = { base: 'dense', transactionsPerCollection: { min: 2, max: 2 } } as const;
    const lying = lies.map((lie) => ({ faults: [lie], profile }));
    const all = await nodes(...lying, { faults: [slow, silent(method)], profile });
    const honest = all.at(-1) as DevnetHandle;
    const { daemon, dataDir } = await daemonOn(all, '--edi-only');

    // Who lied is decided once the honest one has given the block.
    const call = 'SubscribeExecutionDataFromStartBlockHeight';
    const areAsked = () => all.every(({ node }) => node === honest.node || node.requests.count(call) > 0);
    await eventually(() => areAsked() || undefined);
    honest.node.setFaults([slow]);
    const told = await onceFoundOut(daemon, all.slice(0, -1), honest);
    const metrics = await daemon.reaches(HEAD);
    const refused = (reason: string): number =>
      metrics.sum('invalid_collections_total', { source: 'edi', reason });
    expect(refused('wrong_order')).toBeGreaterThanOrEqual(1);
    expect(refused('wrong_count')).toBeGreaterThanOrEqual(2);
    expect(refused('id_mismatch')).toBeGreaterThanOrEqual(1);
    expect(refused('wrong_block')).toBeGreaterThanOrEqual(1);
    expect(refused('malformed')).toBeGreaterThanOrEqual(1);
    const cutter = all[5] as DevnetHandle;
    expect(liars(daemon)).toEqual(new Set(all.slice(0, 5).map((node) => node.address)));
    // Bytes that cannot be read are held against the call alone.
    expect(told.get(`${cutter.address} SubscribeExecutionDataFromStartBlockHeight`)).toMatch(/malformed/);
    expect(metrics.value('heights_completed_total', { source: 'edi' })).toBe(HEAD);
    expect(metrics.value('collections_requested_total')).toBe(0);
    await stopAndProve(daemon, dataDir, whole(honest));
  });

  it.each([
    ['wrong_parent', 'copy'],
    ['other_body', 'wrong_height'],
    ['truncated', 'malformed'],
  ] as const)('streams blocks that are refused (%s as %s), and the index grows', async (fault, reason) => {
    const method = 'SubscribeBlocksFromStartHeight';
    const lie: FaultRule = { method, fromHeight: 5, fault };
    const [liar, honest] = (await nodes({ faults: [lie] }, { faults: [slow, silent(method)] })) as [
      DevnetHandle,
      DevnetHandle,
    ];
    const { daemon, dataDir } = await daemonOn([liar, honest]);

    await daemon.scrapeUntil((metrics) => metrics.sum('invalid_blocks_total', { reason }) >= 1);
    honest.node.setFaults([]);
    await daemon.reaches(HEAD);
    // Bytes that cannot be read are held against the call alone.
    expect(liars(daemon)).toEqual(new Set(fault === 'truncated' ? [] : [liar.address]));
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

  it('answers with orphaned blocks and wrong parents where blocks are polled', async () => {
    const old = { streams: false, executionData: false };
    const method = 'GetBlockByHeight';
    const all = await nodes(
      { ...old, faults: [{ method, fromHeight: 5, fault: 'orphaned' }] },
      { ...old, faults: [{ method, fromHeight: 5, fault: 'wrong_parent' }] },
      { ...old, faults: [slow] },
    );
    const honest = all.at(-1) as DevnetHandle;
    const { daemon, dataDir } = await daemonOn(all);

    await onceFoundOut(daemon, all.slice(0, -1), honest);
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.sum('invalid_blocks_total', { reason: 'orphaned' })).toBeGreaterThanOrEqual(1);
    expect(metrics.sum('invalid_blocks_total', { reason: 'copy' })).toBeGreaterThanOrEqual(1);
    expect(liars(daemon)).toEqual(new Set(all.slice(0, -1).map((node) => node.address)));
    await stopAndProve(daemon, dataDir, whole(honest));
  });
});

describe('a node of another chain', () => {
  it('is left out, logged and counted while a good one serves', async () => {
    const [good] = (await nodes({})) as [DevnetHandle];
    const foreign = await devnetForTest({ ...chain, chainId: 'flow-testnet' });
    const { daemon, dataDir } = await daemonOn([foreign, good]);

    const document = await statusOnce(daemon, ({ latestIndexed }) => latestIndexed === HEAD);
    expect(endpointState(document, foreign)).toBe('foreign');
    expect(endpointState(document, good)).toBe('healthy');
    const metrics = await daemon.scrape();
    expect(metrics.sum('foreign_nodes_total', { reason: 'chain' })).toBe(1);
    expect(metrics.value('endpoint_state', { endpoint: foreign.address, state: 'foreign' })).toBe(1);
    expect(daemon.program.logs()).toContainEqual(
      expect.objectContaining({
        msg: 'access node is foreign and left out',
        endpoint: foreign.address,
        reason: 'chain',
        expected: 'flow-localnet',
        found: 'flow-testnet',
      }),
    );
    for (const method of ['GetFullCollectionByID', 'SubscribeBlocksFromStartHeight'])
      expect(foreign.node.requests.count(method)).toBe(0);
    await stopAndProve(daemon, dataDir, whole(good));
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

describe('without execution data in ediOnly', () => {
  it('is not ready with edi_unavailable, and heals when a node with it appears', async () => {
    const [without, spare] = (await nodes({ executionData: false }, { port: await lastingPort() })) as [
      DevnetHandle,
      DevnetHandle,
    ];
    await spare.close();
    const { daemon, dataDir } = await daemonOn([without, spare], '--edi-only');
    const { reasons } = await statusOnce(daemon, (document) =>
      document.reasons.some(({ code }) => code === 'edi_unavailable'),
    );
    expect(reasons.find(({ code }) => code === 'edi_unavailable')?.message).toMatch(/execution data/);
    expect((await daemon.health('/readyz')).status).toBe(503);
    expect((await status(daemon)).sources).toMatchObject({
      requester: { state: 'off' },
      edi: { state: 'unavailable' },
    });

    await devnetForTest({ ...chain, port: spare.port });
    const metrics = await daemon.reaches(HEAD);
    expect(metrics.value('collections_requested_total')).toBe(0);
    await eventually(async () => ((await daemon.health('/readyz')).status === 200 ? true : undefined));
    await stopAndProve(daemon, dataDir, whole(without));
  });
});

describe('outages', () => {
  it('at the start are waited for', async () => {
    const late = await startDevnet({ ...chain, port: await lastingPort() });
    await late.close();
    const { daemon, dataDir } = await daemonOn([late]);
    await daemon.program.sees(/access node does not answer/);
    const document = await status(daemon);
    expect(document).toMatchObject({ head: null, latestIndexed: null, ready: false });
    // After some seconds, the nodes that do not answer are a reason of their own.
    expect(document.reasons[0]?.code).toBe('starting');

    await devnetForTest({ ...chain, port: late.port });
    await stopAndProve(daemon, dataDir, whole(late));
  });
});

describe('a collection that nobody has', () => {
  it('is reported with id, reason and age while the window fills, until it comes', async () => {
    const [node] = (await nodes({ executionData: false })) as [DevnetHandle];
    let height = 60;
    const ids = () => node.chain.block(height).collections.map(({ id }) => id);
    // Its own collections, not those of the block below once more.
    while (new Set(ids()).size < 2 || node.chain.block(height).odd.length > 0) height += 1;
    node.node.setFaults([
      {
        method: 'GetFullCollectionByID',
        fromHeight: height,
        toHeight: height,
        fault: 'error',
        code: 'NOT_FOUND',
      },
    ]);
    const window = 40;
    const { daemon, dataDir } = await daemonOn(
      [node],
      ...['--window', String(window), '--requester-unresolvable-after-ms', '1000'],
    );

    const stuck = await statusOnce(daemon, ({ reasons, window: { inFlight } }) => {
      return inFlight === 1 && reasons.some(({ code }) => code === 'unresolvable');
    });
    const reason = stuck.reasons.find(({ code }) => code === 'unresolvable');
    expect(reason?.height).toBe(height);
    for (const id of ids()) expect(reason?.message).toContain(id);
    expect(reason?.message).toMatch(
      /for \d+s \(waiting for \d+ of \d+ collections of height \d+: Get\w+ at \S+: NOT_FOUND: /,
    );
    expect(stuck).toMatchObject({ latestIndexed: height - 1, ready: false });
    expect(stuck.oldestMissing).toMatchObject({ height, missing: ids().length });
    expect(stuck.oldestMissing?.ageSeconds).toBeGreaterThan(1);
    const ready = await daemon.health('/readyz');
    expect(ready.status).toBe(503);
    expect(ready.body).toMatchObject({ reasons: [{ code: 'unresolvable', height }] });
    const metrics = await daemon.scrape();
    expect(metrics.value('unresolvable_heights')).toBe(1);
    const asked = node.node.requests.idsAsked('GetFullCollectionByID');
    const heights = asked.map((id) => node.node.chain.findCollection(Buffer.from(id, 'hex'))?.block.height);
    expect(Math.max(...heights.map((found) => found ?? Infinity))).toBeLessThanOrEqual(height - 1 + window);

    node.node.setFaults([]);
    const healed = await daemon.reaches(HEAD);
    expect(healed.value('unresolvable_heights')).toBe(0);
    expect((await status(daemon)).reasons).toEqual([]);
    await stopAndProve(daemon, dataDir, whole(node));
  });
});
