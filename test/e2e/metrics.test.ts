import { expect, it } from 'vitest';
import { programVersion } from '../../src/app/index.js';
import { ChainGenerator, methodNames, profiles } from '../../src/devnet/index.js';
import type { ChainOptions, DevnetHandle, DevnetOptions, FaultRule } from '../../src/devnet/index.js';
import type { StatusDocument } from '../../src/api/index.js';
import { blocksOf, devnetForTest, scratchDirectory, startArguments } from '../support/daemons.js';
import { startDaemonHere, type DaemonHere, type ScrapedMetrics } from '../support/daemons.js';
import { violations, type JsonSchema } from '../support/schemaCheck.js';

const ROOT = 100;
const HEAD = 190;
const SEALED_LAG = 4;

/** Repeated ids of every kind are frequent, and no collection is large. */
const chainOptions: ChainOptions = {
  seed: 8,
  rootHeight: ROOT,
  profile: { base: 'mixed', odd: { ...profiles.mixed.odd, twinCollection: 23, bigCollection: 0 } },
};
const chain = new ChainGenerator(chainOptions);
const blocks = blocksOf(chain, ROOT, HEAD);
const full = blocks.filter(({ collections }) => collections.length > 0);
const empty = blocks.filter(({ collections }) => collections.length === 0);
const collections = blocks.flatMap((block) => block.collections);
const idsPerBlock = sum(blocks.map((block) => new Set(block.collections.map(({ id }) => id)).size));
const distinctIds = new Set(collections.map(({ id }) => id)).size;

/** How long a condition that must come true may take: the machine may be busy. */
const patience = { timeout: 30_000 };

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function nodeWith(options: DevnetOptions = {}): Promise<DevnetHandle> {
  return devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: SEALED_LAG, ...options });
}

function daemonOn(devnet: DevnetHandle, ...flags: string[]): Promise<DaemonHere> {
  const patient = ['--requester-timeout-ms', '600000', '--requester-backoff-min-ms', '20'];
  const soon = ['--requester-backoff-max-ms', '100', '--start-height', 'root'];
  return startDaemonHere(startArguments(devnet, scratchDirectory(), ...patient, ...soon, ...flags));
}

async function schemaFaults(daemon: DaemonHere, status: StatusDocument): Promise<string[]> {
  const { components } = (await daemon.api('/openapi.json')).body as {
    readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
  };
  return violations({ $ref: '#/components/schemas/Status' }, status, components.schemas);
}

function settled(daemon: DaemonHere, height = HEAD): Promise<ScrapedMetrics> {
  return daemon.scrapeUntil(
    (metrics) =>
      metrics.value('latest_indexed_height') === height && metrics.value('in_flight_heights') === 0,
  );
}

function expectValues(metrics: ScrapedMetrics, expected: Readonly<Record<string, number>>): void {
  const found = Object.fromEntries(Object.keys(expected).map((name) => [name, metrics.value(name)]));
  expect(found).toEqual(expected);
}

/** The series of a metric as `label=value,… → number`; those at 0 are left out. */
function seriesOf(metrics: ScrapedMetrics, name: string): Record<string, number> {
  const shown = metrics
    .series(name)
    .filter(({ value }) => value !== 0)
    .map(({ labels, value }) => [Object.values(labels).join(' '), value] as const);
  return Object.fromEntries(shown);
}

/** Every call that the node has seen is counted, and each answered one has its latency. Calls go on while one looks. */
async function expectCallsCounted(
  daemon: DaemonHere,
  devnet: DevnetHandle,
  failures: Readonly<Record<string, number | 'some'>> = {},
): Promise<void> {
  const endpoint = devnet.address;
  const miscounted = async (): Promise<object[]> => {
    const metrics = await daemon.scrape();
    return methodNames.flatMap((method) => {
      const seen = devnet.node.requests.count(method);
      const sent = metrics.sum('upstream_requests_total', { endpoint, method });
      const answered = metrics.sum('upstream_latency_seconds_count', { endpoint, method });
      const failed = failures[method] ?? 0;
      const expected = method.startsWith('Subscribe') ? 0 : failed === 'some' ? answered : seen - failed;
      return seen === sent && answered === expected ? [] : [{ method, seen, sent, answered, expected }];
    });
  };
  await expect.poll(miscounted, patience).toEqual([]);
}

it('the requester alone, at the head counts what was asked, received and made durable, and is ready', async () => {
  const devnet = await nodeWith();
  const daemon = await daemonOn(devnet, '--no-edi', '--window', '40', '--max-in-flight-bytes', '7MiB');
  const metrics = await settled(daemon);
  const asked = devnet.node.requests.count('GetFullCollectionByID');

  expectValues(metrics, {
    ...{ latest_indexed_height: HEAD, first_indexed_height: ROOT, head_height: HEAD },
    ...{ sealed_height: HEAD - SEALED_LAG, lag_heights: 0, oldest_missing_age_seconds: 0 },
    ...{ in_flight_heights: 0, collections_missing: 0, window_heights: 40, unresolvable_heights: 0 },
    ...{ in_flight_bytes: 0, in_flight_bytes_limit: 7 * 1024 * 1024, collection_requests_in_flight: 0 },
    ...{ collections_requested_total: asked, collection_requests_cancelled_total: 0 },
    ...{ collection_requests_held_back_total: 0, execution_data_skipped_total: 0 },
    height_queue_to_complete_seconds_count: blocks.length,
    collection_request_to_receive_seconds_count: asked,
    commit_heights_sum: blocks.length,
    commit_bytes_sum: sum(collections.map(({ encoded }) => encoded.byteLength)),
  });
  expect(metrics.value('build_info', { version: programVersion, node: process.version })).toBe(1);
  expect(metrics.value('network_info', { network: 'devnet', chain: 'flow-localnet' })).toBe(1);
  expect(metrics.value('store_scrub_bytes_per_second')).toBe(2 * 1024 * 1024);
  expect(metrics.series('workers')).toEqual([]);
  expect(metrics.value('connections_cut_total', { port: 'grpc', reason: 'unread' })).toBe(0);
  expect(seriesOf(metrics, 'collections_received_total')).toEqual({ requester: asked });
  expect(seriesOf(metrics, 'duplicate_collections_total')).toEqual({});
  const completed = { requester: full.length, none: empty.length };
  expect(seriesOf(metrics, 'heights_completed_total')).toEqual(completed);
  const indexed = 'collection_receive_to_indexed_seconds_count';
  expect(seriesOf(metrics, indexed)).toEqual({ requester: idsPerBlock });
  const none = ['invalid_collections', 'invalid_blocks', 'endpoint_lies', 'foreign_nodes', 'upstream_errors'];
  for (const name of none) expect(seriesOf(metrics, `${name}_total`)).toEqual({});
  expect(seriesOf(metrics, 'endpoint_state')).toEqual({ [`${devnet.address} healthy`]: 1 });
  // Three histograms of the same batches.
  const batches = metrics.value('commit_heights_count');
  expect(batches).toBeGreaterThan(0);
  expect(batches).toBeLessThanOrEqual(blocks.length);
  expectValues(metrics, { commit_duration_seconds_count: batches, commit_bytes_count: batches });
  expect(asked).toBeGreaterThanOrEqual(distinctIds);
  expect(metrics.value('process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
  expect(metrics.value('nodejs_eventloop_lag_seconds')).toBeGreaterThanOrEqual(0);
  await expectCallsCounted(daemon, devnet);

  expect(await daemon.health('/livez')).toMatchObject({ status: 200, body: { live: true } });
  expect(await daemon.health('/readyz')).toMatchObject({ status: 200, body: { ready: true, reasons: [] } });
  expect(await daemon.status()).toMatchObject({
    ...{ network: 'devnet', version: programVersion, latestIndexed: HEAD, lag: 0, eta: 0, ready: true },
    window: { heights: 40, upperBound: HEAD, inFlight: 0, bytesInFlight: 0, bytesLimit: 7 * 1024 * 1024 },
    sources: { requester: { state: 'idle', inFlight: 0, missing: 0 }, edi: { state: 'off' } },
    ...{ endpoints: [{ name: devnet.address, state: 'healthy' }], oldestMissing: null, reasons: [] },
  });
  expect(await daemon.program.stop()).toBe(0);
});

it('wrong answers are refused and counted by reason, failures by kind, and the node is set aside', async () => {
  const method = 'GetFullCollectionByID';
  const inTurn: readonly (readonly [times: number, effect: object])[] = [
    [3, { fault: 'wrong_body' }],
    [2, { fault: 'other_body' }],
    [2, { fault: 'truncated' }],
    [2, { fault: 'error', code: 'UNAVAILABLE' }],
    [2, { fault: 'error', code: 'NOT_FOUND', message: 'please retry for collection in finalized block' }],
  ];
  let skip = 0;
  const faults = inTurn.map(([times, effect]) => {
    const rule = { method, times, skip, ...effect } as FaultRule;
    skip += times;
    return rule;
  });
  // The limiter slows down from the pace that it had, so it had better have one.
  const limit: FaultRule = {
    method,
    ...{ times: 1, skip: distinctIds - 5, fault: 'error', code: 'RESOURCE_EXHAUSTED' },
    message: 'rate limit reached',
  };
  // A node without streams is asked block by block, and tells the status of each.
  const orphan: FaultRule = { method: 'GetBlockByHeight', fault: 'orphaned', times: 1 };
  // While there is another way to ask for collections, one that fails is not asked.
  const light = 'GetCollectionByID';
  const noOther: FaultRule = { method: light, fault: 'error', code: 'UNIMPLEMENTED' };
  const devnet = await nodeWith({ streams: false, faults: [...faults, limit, orphan, noOther] });
  const daemon = await daemonOn(devnet, '--no-edi');
  const metrics = await settled(daemon);

  const asked = devnet.node.requests.count(method);
  const askedOtherwise = devnet.node.requests.count(light);
  expect(devnet.node.faults.fired()).toEqual([3, 2, 2, 2, 2, 1, 1, askedOtherwise]);
  const refused = { 'requester id_mismatch': 5, 'requester malformed': 2 };
  expect(seriesOf(metrics, 'invalid_collections_total')).toEqual(refused);
  expect(metrics.value('endpoint_lies_total', { endpoint: devnet.address })).toBeGreaterThanOrEqual(5);
  expect(seriesOf(metrics, 'invalid_blocks_total')).toEqual({ [`${devnet.address} orphaned`]: 1 });
  const endpoint = devnet.address;
  expect(seriesOf(metrics, 'upstream_errors_total')).toMatchObject({
    [`${endpoint} ${method} malformed`]: 2,
    [`${endpoint} ${method} unavailable`]: 2,
    [`${endpoint} ${method} not_yet`]: 2,
    [`${endpoint} ${method} rate_limited`]: 1,
  });
  expect(metrics.sum('upstream_errors_total', { method })).toBe(7);
  expectValues(metrics, { collections_requested_total: asked + askedOtherwise });
  expect(seriesOf(metrics, 'collections_received_total')).toEqual({ requester: asked - 12 });
  expect(seriesOf(metrics, 'duplicate_collections_total')).toEqual({});
  const completed = { requester: full.length, none: empty.length };
  expect(seriesOf(metrics, 'heights_completed_total')).toEqual(completed);
  expect(metrics.value('collection_request_to_receive_seconds_count')).toBe(asked - 12);
  // A body that is refused came in good order as far as the call goes; blocks read ahead of the orphan were cancelled.
  const unanswered = { [method]: 5, [light]: askedOtherwise, GetBlockByHeight: 'some' } as const;
  await expectCallsCounted(daemon, devnet, unanswered);
  expect(daemon.program.logs().filter(({ msg }) => msg === 'access node penalized')).not.toEqual([]);
  const status = await daemon.status();
  expect(await schemaFaults(daemon, status)).toEqual([]);
  const { endpoints, lowestServed } = status;
  expect(endpoints).toMatchObject([{ origin: 'configured', lowestHeight: ROOT }]);
  expect(endpoints[0]?.latencySeconds).toBeGreaterThan(0);
  expect(lowestServed).toBe(ROOT);
});

const [STUCK, WINDOW] = [40, 20];

it('a height that does not come shows in every gauge, while all stands still and while the head moves on', async () => {
  // Without streams every block is asked for by its height; no two blocks have a collection in common.
  const method = 'GetFullCollectionByID';
  const devnet = await devnetForTest({
    ...{ seed: 8, profile: 'dense', startHead: HEAD, paused: true, streams: false },
    faults: [{ method, fault: 'stall', fromHeight: STUCK, toHeight: STUCK, times: 1 }],
  });
  const startedAtMs = performance.now();
  const flags = ['--no-edi', '--window', String(WINDOW), '--ready-max-lag', '5'];
  const daemon = await daemonOn(devnet, '--requester-unresolvable-after-ms', '1000', ...flags);
  const stuck = await daemon.scrapeUntil(
    (metrics) => metrics.value('in_flight_heights') === 1 && metrics.value('unresolvable_heights') === 1,
  );
  const { requests } = devnet.node;
  const own = devnet.chain.block(STUCK).collections;
  const stalled = requests.idsAsked(method).find((asked) => own.some(({ id }) => id === asked));
  const received = own.filter(({ id }) => id !== stalled);
  const expected = {
    ...{ latest_indexed_height: STUCK - 1, head_height: HEAD, lag_heights: HEAD - STUCK + 1 },
    ...{ in_flight_heights: 1, collections_missing: 1, collection_requests_in_flight: 1 },
    ...{ unresolvable_heights: 1, window_heights: WINDOW },
    in_flight_bytes: sum(received.map(({ encoded }) => encoded.byteLength)),
  };
  // Everything within the window was made durable above the gap, but for the last height, which waits for its child;
  // nothing above the window was asked for.
  const last = STUCK + WINDOW - 2;
  const within = blocksOf(devnet.chain, 0, last).flatMap((block) => block.collections);
  expectValues(stuck, { ...expected, collections_requested_total: within.length });
  expect(stuck.sum('heights_completed_total')).toBe(last);
  expect(requests.highestHeightAsked()).toBe(STUCK - 1 + WINDOW);

  const age = (await daemon.scrape()).value('oldest_missing_age_seconds');
  expect(age).toBeGreaterThan(stuck.value('oldest_missing_age_seconds'));
  expect(age).toBeGreaterThan(1);
  expect(age).toBeLessThanOrEqual((performance.now() - startedAtMs) / 1_000);
  expect((await daemon.health('/readyz')).status).toBe(503);
  const reasons = (await daemon.reasons()).toSorted((a, b) => (a.code < b.code ? -1 : 1));
  expect(reasons).toMatchObject([{ code: 'behind' }, { code: 'unresolvable', height: STUCK }]);
  const status = await daemon.status();
  expect(await schemaFaults(daemon, status)).toEqual([]);
  expect(status).toMatchObject({
    ...{ latestIndexed: STUCK - 1, oldestMissing: { height: STUCK, missing: 1 }, ready: false },
    window: { upperBound: STUCK - 1 + WINDOW, inFlight: 1, bytesInFlight: expected.in_flight_bytes },
    sources: { requester: { state: 'asking', inFlight: 1, missing: 1 } },
  });
  expect(status.oldestMissing?.collectionId).toBe(stalled);
  expect(status.oldestMissing?.reason).toContain(`collections of height ${STUCK}`);
  for (const height of [STUCK, STUCK + 1])
    expect((await daemon.api(`/v1/blocks?height=${height}`)).status).toBe(404);

  devnet.node.head.advance(7);
  const moved = await daemon.scrapeUntil((metrics) => metrics.value('head_height') === HEAD + 7);
  expectValues(moved, { ...expected, head_height: HEAD + 7, lag_heights: HEAD + 7 - STUCK + 1 });
  expect(requests.highestHeightAsked()).toBe(STUCK - 1 + WINDOW);
  expect(await daemon.program.stop()).toBe(0);
});
