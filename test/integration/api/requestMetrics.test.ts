import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import type { ReaderMetrics } from '../../../src/observability/index.js';
import { answer, eventually, fail, forwarderTo, networkOf, openSocket } from '../../support/index.js';
import { RawNode, refusalOf, RestNode, scraped } from '../../support/index.js';
import { sendRaw, ServedChain, servedOverGrpc } from '../../support/index.js';
import { smallChain, transactionIds, transactionWith, until, WsClient } from '../../support/index.js';

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const idAt = (place: number): string => chain[place]?.block.id ?? '';
const ACCESS = '/flow.access.AccessAPI';

/** Waits until as many are counted as are expected, each as `interface route status: number`, and compares. */
async function expectCounts(
  metrics: ReaderMetrics,
  name: 'api_requests_total' | 'api_request_seconds_count',
  expected: readonly string[],
): Promise<void> {
  const total = expected.reduce((sum, line) => sum + Number(line.split(': ')[1]), 0);
  const counted = await eventually(async () => {
    const series = (await scraped(metrics)).series(name);
    return series.reduce((sum, { value }) => sum + value, 0) >= total ? series : undefined;
  });
  const lines = counted.map(({ labels, value }) => {
    const { interface: over = '', route = '', status = '' } = labels;
    return `${over} ${route} ${status}: ${value}`;
  });
  expect(lines.sort()).toEqual([...expected].sort());
}

it('requests over HTTP are counted by the pattern of their route and by status, never by their path', async () => {
  const daemon = await ServedChain.start(chain, { sealed: 102 });
  const [transaction = ''] = transactionIds(chain[0]!, 0);
  for (const path of [
    ...[`/v1/blocks/${idAt(0)}`, `/v1/blocks/${idAt(1)}/`, '/v1/blocks/abc', '/v1/blocks?height=100'],
    ...[`/v1/transactions/${transaction}`, `/v1/transactions/${'0'.repeat(64)}`],
    ...['/nowhere/1', '/nowhere/2', '/v1/%zz'],
  ])
    await daemon.get(path);
  await fetch(`${daemon.url}/v1/blocks?height=100`, { method: 'POST' });
  await expectCounts(daemon.metrics, 'api_requests_total', [
    ...['http /v1/blocks/{ids} 200: 2', 'http /v1/blocks/{ids} 400: 1', 'http /v1/blocks 200: 1'],
    ...['http /v1/transactions/{id} 200: 1', 'http /v1/transactions/{id} 404: 1'],
    ...['http other 404: 2', 'http other 400: 1', 'http other 405: 1'],
  ]);
});

it('requests over HTTP are counted when they are over: streams and WebSockets, which are not timed, and those whose caller leaves', async () => {
  const node = await RestNode.start(() => undefined);
  const daemon = await ServedChain.start(chain, { sealed: 102 }, { forwardRest: node.url });
  const caller = new AbortController();
  const events = await fetch(`${daemon.url}/events?from=100`, { signal: caller.signal });
  expect(events.status).toBe(200);
  expect((await scraped(daemon.metrics)).series('api_requests_total')).toEqual([]);
  caller.abort();
  (await WsClient.open(daemon.url)).socket.close();
  const withoutKey = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
  const said = await sendRaw(daemon.port, `GET /v1/ws HTTP/1.1\r\nHost: a\r\n${withoutKey}\r\n`);
  expect(said).toMatch(/^HTTP\/1\.1 400 [^]*Sec-WebSocket-Key/);
  const socket = await openSocket(daemon.port);
  socket.write('GET /v1/accounts/1 HTTP/1.1\r\nhost: x\r\n\r\n');
  await until(() => node.seen.length > 0);
  socket.destroy();
  await expectCounts(daemon.metrics, 'api_requests_total', [
    'http /events 200: 1',
    'http /v1/ws 101: 1',
    'http /v1/ws 400: 1',
    'http forwarded cancelled: 1',
  ]);
  await expectCounts(daemon.metrics, 'api_request_seconds_count', ['http forwarded cancelled: 1']);
});

/** What is counted of a server, and a client of it. */
async function probed(parts?: Parameters<typeof servedOverGrpc>[1]) {
  const { metrics, probe } = await servedOverGrpc(chain, parts);
  return { metrics, probe: probe() };
}

it('calls over gRPC are counted by method and by the name of their status', async () => {
  const { metrics, probe } = await probed();
  const height = (value: number): Buffer => Buffer.from([8, value]);
  await probe.raw(`${ACCESS}/GetBlockByHeight`, height(100));
  await probe.raw(`${ACCESS}/GetBlockByHeight`, height(101));
  await refusalOf(probe.raw(`${ACCESS}/GetBlockByHeight`, height(1)));
  await refusalOf(probe.raw(`${ACCESS}/GetBlockByID`, Buffer.from([10, 1, 0])));
  for (const method of ['ExecuteScriptAtLatestBlock', 'NoSuchMethod'])
    await refusalOf(probe.raw(`${ACCESS}/${method}`, Buffer.alloc(0)));
  const counted = [
    `grpc ${ACCESS}/GetBlockByHeight OK: 2`,
    `grpc ${ACCESS}/GetBlockByHeight NOT_FOUND: 1`,
    `grpc ${ACCESS}/GetBlockByID INVALID_ARGUMENT: 1`,
    `grpc ${ACCESS}/ExecuteScriptAtLatestBlock UNIMPLEMENTED: 1`,
  ];
  await expectCounts(metrics, 'api_requests_total', counted);
  await expectCounts(metrics, 'api_request_seconds_count', counted);
});

it('calls over gRPC are counted also when they are refused before anything is read', async () => {
  const { metrics, probe } = await probed({ ratePerSecondPerAddress: 1 });
  const calls = Array.from({ length: 20 }, () => probe.raw(`${ACCESS}/Ping`, Buffer.alloc(0)));
  const ends = await Promise.allSettled(calls);
  const refused = calls.filter((_, index) => ends[index]?.status === 'rejected');
  expect(await refusalOf(refused[0]!)).toEqual({
    ...{ code: 'RESOURCE_EXHAUSTED', metadata: { reason: 'rate_limited' } },
    details: 'at most 1 requests per second are served to one address; retry in 1 s',
  });
  await expectCounts(metrics, 'api_requests_total', [
    `grpc ${ACCESS}/Ping OK: ${20 - refused.length}`,
    `grpc ${ACCESS}/Ping RESOURCE_EXHAUSTED: ${refused.length}`,
  ]);
});

it('calls over gRPC are counted also when a node answered them', async () => {
  const [script, header] = [`${ACCESS}/ExecuteScriptAtLatestBlock`, `${ACCESS}/GetLatestBlockHeader`];
  const events = `${ACCESS}/GetEventsForHeightRange`;
  const node = await RawNode.start({
    [script]: (call, request) => answer(call, request),
    [header]: (call) => fail(call, status.NOT_FOUND, 'none'),
    [events]: (call) => call.emit('error', { code: 99 }),
  });
  const forwarder = forwarderTo(await networkOf([node]));
  const { metrics, probe } = await probed({ forwarder });
  for (const path of [script, header, events]) await probe.raw(path, Buffer.alloc(0)).catch(() => undefined);
  const counted = [`grpc ${script} OK: 1`, `grpc ${events} UNKNOWN: 1`, `grpc ${header} NOT_FOUND: 1`];
  await expectCounts(metrics, 'api_requests_total', counted);
});

it('calls over gRPC are counted as cancelled where the caller leaves first, and streams are not timed', async () => {
  const { metrics, probe } = await probed();
  await probe.take('SubscribeIndexedHeights', { start_height: 100 }, 1);
  const path = '/flow_collection_indexer.v1.IndexAPI/SubscribeIndexedHeights';
  await expectCounts(metrics, 'api_requests_total', [`grpc ${path} CANCELLED: 1`]);
  expect((await scraped(metrics)).series('api_request_seconds_count')).toEqual([]);
});
