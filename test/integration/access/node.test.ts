import { promises as dns } from 'node:dns';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { parseEndpoint, UpstreamError, type UpstreamErrorKind } from '../../../src/access/index.js';
import { grpcAccessNode, type PooledNode } from '../../../src/access/node/grpcAccessNode.js';
import { rpcChannel } from '../../../src/access/transport/channel/rpcChannel.js';
import { pathOf } from '../../../src/access/transport/methodPaths.js';
import { NodeHealthRecord } from '../../../src/access/selection/NodeHealthRecord.js';
import type { RpcClientOptions } from '../../../src/access/transport/rpcClient.js';
import type { NodeEvents } from '../../../src/access/transport/ports.js';
import { StatusError } from '../../../src/devnet/index.js';
import { toIdentifier } from '../../../src/flow/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { sleep, systemClock, type Clock } from '../../../src/runtime/index.js';
import { accessServer, testBlock, testId } from '../../support/accessServer.js';
import type { AccessHandlers, StreamHandler } from '../../support/accessServer.js';
import { FaultProxy } from '../../support/faultProxy.js';
import { certificateOf, keyOf } from '../../support/secretFiles.js';
import { atEnd, type RawNode } from '../../support/index.js';

const never = new AbortController().signal;

/** The machine's clock whose monotonic time a test can move on. */
class SkippingClock implements Clock {
  skippedMs = 0;
  /** How far the wall clock is ahead of the machine's. */
  aheadMs = 0;
  now = () => systemClock.now() + this.aheadMs;
  monotonic = () => systemClock.monotonic() + this.skippedMs;
  setTimer = (delayMs: number, callback: () => void) => systemClock.setTimer(delayMs, callback);
}

function deferred() {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((fulfil) => (resolve = fulfil));
  return { promise, resolve };
}
const iteratorOf = <T>(items: AsyncIterable<T>) => items[Symbol.asyncIterator]();

const sealedBlock = (request: Readonly<Record<string, unknown>>) => ({
  block: testBlock(Number(request['height'])),
  block_status: 'BLOCK_SEALED',
});
const parameters = () => ({ chain_id: 'c' });

let server: RawNode;
let clock: SkippingClock;
let metrics: ReturnType<typeof createMetrics>;

beforeEach(() => {
  clock = new SkippingClock();
  metrics = createMetrics({ version: 'test', node: 'test' });
});

async function connect(
  handlers: AccessHandlers,
  options: Partial<RpcClientOptions> = {},
  events: NodeEvents = {},
): Promise<PooledNode> {
  server = accessServer(handlers);
  await server.start();
  const node = grpcAccessNode(
    {
      ...{ endpoint: parseEndpoint(server.endpoint), ratePerSecond: 0, maxMessageBytes: 1024 * 1024 },
      ...{ timeoutMs: 10_000, userAgent: 'test', ...options },
    },
    { clock, healthRecord: new NodeHealthRecord({ clock }), metrics, events },
  );
  atEnd(() => {
    node.client.close();
    server.stop();
  });
  return node;
}

async function kindOf(promise: Promise<unknown>): Promise<UpstreamErrorKind> {
  const error: unknown = await promise.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UpstreamError);
  return (error as UpstreamError).kind;
}

describe('unary calls', () => {
  it('fail where an answer is compressed in a way that nobody has told', async () => {
    const peculiar = createServer().listen(0, '127.0.0.1');
    peculiar.on('stream', (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.end(Buffer.from([1, 0, 0, 0, 1, 0]));
    });
    await once(peculiar, 'listening');
    const { port } = peculiar.address() as AddressInfo;
    const node = await connect({}, { endpoint: parseEndpoint(`127.0.0.1:${port}`) });
    const answer = node.getNetworkParameters();
    await expect(answer).rejects.toThrow('INTERNAL: unsupported compression');
    expect(await kindOf(answer)).toBe('malformed');
    node.client.close();
    peculiar.close();
  });

  it('have nothing in their texts that a terminal acts on, names of some length only, and answer what was asked', async () => {
    let evil = 'a\nb\u001b[31mc';
    const node = await connect({
      unary: {
        GetNetworkParameters: () => ({ chain_id: evil }),
        GetNodeVersionInfo: () => Promise.reject(new StatusError('INTERNAL', evil)),
        GetBlockByHeight: () => sealedBlock({ height: 13 }),
      },
    });
    const shown = 'a\\u000ab\\u001b[31mc';
    expect((await node.getNetworkParameters()).chainId).toBe(shown);
    await expect(node.getNodeVersionInfo()).rejects.toThrow(shown);
    evil = 'x'.repeat(300_000);
    expect(await kindOf(node.getNetworkParameters())).toBe('malformed');
    expect(await kindOf(node.getBlockByHeight(12))).toBe('malformed');
  });

  it('end a little after it also where gRPC does not end them: the wall clock, by which it reckons, was set back', async () => {
    const cancelled = deferred();
    const node = await connect({
      unary: {
        GetNetworkParameters: parameters,
        GetBlockByHeight: (_request, signal) => {
          signal.addEventListener('abort', () => cancelled.resolve());
          return new Promise(() => undefined);
        },
      },
    });
    // The connection stands, so that a call reaches the node before its time is up.
    await node.getNetworkParameters();
    clock.aheadMs = 3_600_000;
    expect(await kindOf(node.getBlockByHeight(5, { timeoutMs: 200 }))).toBe('deadline');
    await cancelled.promise;
    expect(node.client.inFlight).toBe(0);
  });

  it('that are given up by the thousand do not cost the connection: what is beside them goes on', async () => {
    let cancelled = 0;
    let arrived = 0;
    const answered = deferred();
    let write = (_height: number): void => undefined;
    const node = await connect({
      unary: {
        GetBlockByHeight: async (request, signal) => {
          arrived += 1;
          signal.addEventListener('abort', () => (cancelled += 1));
          await answered.promise;
          return sealedBlock(request);
        },
      },
      streams: {
        SubscribeBlocksFromStartHeight: (_request, call) => {
          write = (height) => call.send({ block: testBlock(height) });
          write(1);
        },
      },
    });
    const blocks = iteratorOf(node.subscribeBlocks(1, { signal: never }));
    await blocks.next();
    // As many as Node.js takes at once, and as it takes in half a minute besides.
    const calls = 2_000;
    const atOnce = 50;
    for (let made = 0; made < calls; made += atOnce) {
      const aborts = Array.from({ length: atOnce }, () => new AbortController());
      const given = aborts.map(({ signal }) => node.getBlockByHeight(5, { signal }));
      const ended = Promise.allSettled(given);
      await vi.waitFor(() => expect(arrived).toBe(made + atOnce), { timeout: 30_000, interval: 1 });
      for (const abort of aborts) abort.abort(new Error('no longer needed'));
      for (const { status: outcome } of await ended) expect(outcome).toBe('rejected');
    }
    expect(node.client.inFlight).toBe(0);
    answered.resolve();
    write(2);
    expect(await blocks.next()).toMatchObject({ value: { block: { height: 2 } } });
    expect(await node.getBlockByHeight(7)).toMatchObject({ block: { height: 7 } });
    expect(cancelled).toBeGreaterThan(100);
  });

  it('go out on a new connection after three deadlines in a row', async () => {
    let hang = true;
    let reconnects = 0;
    const peers = new Set<string>();
    const node = await connect(
      {
        unary: { GetNetworkParameters: () => (hang ? new Promise(() => undefined) : parameters()) },
        streams: {
          SubscribeBlocksFromStartHeight: (_request, call) => {
            peers.add(call.getPeer());
            call.send({ block: testBlock(1) });
          },
        },
      },
      { timeoutMs: 50 },
      { onReconnect: () => (reconnects += 1) },
    );
    const before = iteratorOf(node.subscribeBlocks(1, { signal: never }));
    await before.next();
    // Six deadlines: two new connections, told once.
    for (let i = 0; i < 6; i++) expect(await kindOf(node.getNetworkParameters())).toBe('deadline');
    expect(reconnects).toBe(1);
    hang = false;
    expect(await node.getNetworkParameters({ timeoutMs: 10_000 })).toEqual({ chainId: 'c' });
    const after = iteratorOf(node.subscribeBlocks(1, { signal: never }));
    await after.next();
    expect(peers.size).toBe(2);
    await before.return?.();
    await after.return?.();
  });

  it('reach a node that has moved to another address of its name within seconds, under its name without a dot at the end', async () => {
    await connect({ unary: { GetNetworkParameters: parameters } });
    const lookup = vi.spyOn(dns, 'lookup').mockResolvedValue([{ address: '127.0.0.2', family: 4 }] as never);
    atEnd(() => lookup.mockRestore());
    const askAt = (text: string) => {
      const endpoint = parseEndpoint(text);
      const channel = rpcChannel({ endpoint, maxMessageBytes: 1024, userAgent: 'test' }, { clock });
      atEnd(() => channel.close());
      return () => channel.unary(pathOf('GetNetworkParameters'), Buffer.alloc(0), { timeoutMs: 1_000 });
    };
    const ask = askAt(`moved.test:${server.port}`);
    expect(await ask()).toHaveProperty('code', 14);
    lookup.mockResolvedValue([{ address: '127.0.0.1', family: 4 }] as never);
    await expect.poll(ask, { timeout: 15_000 }).toBeInstanceOf(Buffer);
    const [key, cert] = [keyOf('localhost'), certificateOf('localhost')].map((file) => readFileSync(file));
    const proxy = await FaultProxy.before(server, { key: String(key), cert: String(cert) });
    await askAt(`grpcs://moved.test.:${proxy.port}`)();
    expect(proxy.serverNames[0]).toBe('moved.test');
  });

  it('go out on a new connection after a minute without any: a router may have dropped that one in silence', async () => {
    await connect({ unary: { GetNetworkParameters: parameters } });
    const proxy = await FaultProxy.before(server);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'] });
    atEnd(() => void vi.useRealTimers());
    const node = await connect({}, { endpoint: parseEndpoint(`127.0.0.1:${proxy.port}`) });
    await node.getNetworkParameters();
    vi.advanceTimersByTime(59_000);
    expect(proxy.connections).toBe(1);
    vi.advanceTimersByTime(12_000);
    await expect.poll(() => proxy.connections).toBe(0);
    vi.useRealTimers();
    expect(await node.getNetworkParameters()).toEqual({ chainId: 'c' });
  });

  it.each<[string, (node: PooledNode) => Promise<unknown>]>([
    ['go out', (node) => node.getNetworkParameters()],
    [
      'ask for execution data',
      (node) => iteratorOf(node.subscribeExecutionData(1, { signal: never })).next(),
    ],
  ])('%s in place of a stream of heads where the node takes no connection more', async (_, call) => {
    let tell = (): void => undefined;
    const open: StreamHandler = (_request, stream) => {
      tell = () => void stream.send({ block_id: testId(1), block_height: '1' });
      tell();
    };
    const streams = { SubscribeBlockDigestsFromLatest: open };
    await connect({ unary: { GetNetworkParameters: parameters }, streams });
    const proxy = await FaultProxy.before(server);
    const node = await connect({}, { endpoint: parseEndpoint(`127.0.0.1:${proxy.port}`) });
    const heads = iteratorOf(node.subscribeBlockDigests({ sealed: false, signal: never }));
    expect(await heads.next()).toMatchObject({ value: { height: 1 } });
    await proxy.become({ kind: 'full' });
    expect(await kindOf(call(node))).toBe('unavailable');
    // The node may just be back: it takes none more if it goes on over those that stand.
    expect(node.supports('SubscribeBlockDigestsFromLatest')).toBe(true);
    tell();
    expect(await heads.next()).toMatchObject({ value: { height: 1 } });
    expect(await kindOf(call(node))).toBe('unavailable');
    expect(await heads.next()).toMatchObject({ done: true });
    expect(node.supports('SubscribeBlockDigestsFromLatest')).toBe(false);
    await proxy.become({ kind: 'fair' });
    const ask = () => node.getNetworkParameters().catch(() => undefined);
    await expect.poll(ask).toEqual({ chainId: 'c' });
    // What is over does not connect any more.
    const more = vi.waitFor(() => expect(proxy.connections).toBeGreaterThan(1), { timeout: 1_000 });
    await expect(more).rejects.toThrow();
  });

  it('leave an address of the name behind which nothing answers: calls after three deadlines, a stream once', async () => {
    const addresses = ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 }));
    const lookup = vi.spyOn(dns, 'lookup').mockResolvedValue(addresses as never);
    atEnd(() => lookup.mockRestore());
    const send: StreamHandler = (_request, call) => call.send({ block: testBlock(1) });
    const streams = { SubscribeBlocksFromStartHeight: send };
    await connect({ unary: { GetNetworkParameters: parameters }, streams });
    // At the first address connections come about, and nothing is answered.
    let unanswered = 0;
    const mute = createServer().on('stream', () => (unanswered += 1));
    mute.listen({ host: '127.0.0.2', port: server.port });
    await once(mute, 'listening');
    atEnd(() => void mute.close());
    const endpoint = parseEndpoint(`two.test:${server.port}`);

    const called = await connect({}, { endpoint });
    for (let i = 0; i < 3; i++)
      expect(await kindOf(called.getNetworkParameters({ timeoutMs: 500 }))).toBe('deadline');
    expect(await called.getNetworkParameters()).toEqual({ chainId: 'c' });
    const streamed = await connect({}, { endpoint });
    const abandoned = new AbortController();
    const silent = iteratorOf(streamed.subscribeBlocks(1, { signal: abandoned.signal })).next();
    await expect.poll(() => unanswered, { timeout: 10_000 }).toBe(4);
    abandoned.abort();
    await expect(silent).rejects.toThrow();
    const blocks = iteratorOf(streamed.subscribeBlocks(1, { signal: never }));
    expect(await blocks.next()).toMatchObject({ value: { block: { height: 1 } } });
    await blocks.return?.();
  });

  it('give blocks by height as finalized where the node tells no status of any, as those from before the end of 2022', async () => {
    let told: object = { block: testBlock(9) };
    const ofHeight = (request: object) => ({ ...sealedBlock({ ...request }), block_status: 'BLOCK_UNKNOWN' });
    const node = await connect({ unary: { GetLatestBlockHeader: () => told, GetBlockByHeight: ofHeight } });
    const statusOf = async () => (await node.history.getBlockByHeight(5)).status;
    expect(await statusOf()).toBe('unknown');
    await node.getLatestBlockHeader(false);
    expect(await statusOf()).toBe('finalized');
    told = { ...told, block_status: 'BLOCK_FINALIZED' };
    await node.getLatestBlockHeader(true);
    expect(await statusOf()).toBe('unknown');
  });

  it('take the 503 of a proxy for a limit while the node behind it answers, and else for an outage', async () => {
    const refusal = new StatusError('UNAVAILABLE', '');
    // As grpc-js reports it, word for word.
    refusal.toString = () => 'Received HTTP status code 503';
    const refuse = () => Promise.reject(refusal);
    const node = await connect({ unary: { GetNetworkParameters: parameters, GetBlockByHeight: refuse } });
    const ask = () => kindOf(node.getBlockByHeight(1));
    expect(await ask()).toBe('unavailable');
    await node.getNetworkParameters();
    expect(await ask()).toBe('rate_limited');
    clock.skippedMs += 2_000;
    // No refusal counts as an answer.
    expect(await ask()).toBe('unavailable');
  });

  it('remember for five minutes that the node does not know a method', async () => {
    const node = await connect({});
    expect(node.supports('GetFullCollectionByID')).toBe(true);
    expect(await kindOf(node.getFullCollection(toIdentifier(testId(1))))).toBe('unimplemented');
    expect(node.supports('GetFullCollectionByID')).toBe(false);
    expect(node.supports('GetCollectionByID')).toBe(true);
    clock.skippedMs += 299_000;
    expect(node.supports('GetFullCollectionByID')).toBe(false);
    clock.skippedMs += 1_001;
    expect(node.supports('GetFullCollectionByID')).toBe(true);
  });

  it('count refusals of everything against the call, which is no limit of a rate, until it is answered', async () => {
    let isShut = true;
    const node = await connect({
      unary: {
        GetFullCollectionByID: () => {
          if (isShut) throw new StatusError('RESOURCE_EXHAUSTED', 'rate limit reached');
          return { transactions: [] };
        },
      },
    });
    node.healthRecord.identity = 'usable';
    const method = 'GetFullCollectionByID';
    const ask = async (): Promise<UpstreamErrorKind> => {
      clock.skippedMs += node.delayMs(method);
      return kindOf(node.getFullCollection(toIdentifier(testId(1))));
    };
    for (let refusals = 0; refusals < 3; refusals += 1) expect(await ask()).toBe('rate_limited');
    expect(node.healthOf(method)).toBe('healthy');
    // That call waits for a while, and no other.
    expect([node.delayMs(method) > 0, node.client.heldBack]).toEqual([true, true]);
    expect(node.delayMs('GetBlockByHeight')).toBe(0);
    for (let refusals = 0; refusals < 2; refusals += 1) expect(await ask()).toBe('rate_limited');
    // There is another call for the same.
    expect([node.healthOf(method), node.supports(method)]).toEqual(['set_aside', false]);
    expect(node.supports('GetCollectionByID')).toBe(true);
    expect(node.healthRecord.health).toBe('healthy');
    isShut = false;
    clock.skippedMs += node.delayMs(method);
    await node.getFullCollection(toIdentifier(testId(1)));
    expect([node.healthOf(method), node.supports(method)]).toEqual(['healthy', true]);
  });
});

it('streams take no more than is asked for, and starve no other call meanwhile', async () => {
  const limit = 2_000;
  let written = 0;
  const cancelled = deferred();
  const block = { ...testBlock(1), signatures: [Buffer.alloc(32 * 1024)] };
  const node = await connect({
    unary: { GetNetworkParameters: parameters },
    streams: {
      SubscribeBlocksFromStartHeight: (_request, call) => {
        call.on('cancelled', () => cancelled.resolve());
        // As fast as the stream takes them.
        const pump = (): void => {
          for (let takes = true; takes && !call.cancelled && written < limit; written += 1)
            takes = call.send({ block });
          call.once('drain', pump);
        };
        pump();
      },
    },
  });
  const iterator = iteratorOf(node.subscribeBlocks(1, { signal: never }));
  for (let taken = 0; taken < 3; taken++) expect((await iterator.next()).done).toBe(false);
  // The node goes on until the windows are full. Round trips on the same connection show when it has come to rest.
  let still = 0;
  while (still < 50) {
    const before = written;
    await node.getNetworkParameters();
    still = written === before ? still + 1 : 0;
  }
  expect(written).toBeLessThan(limit / 2);
  await iterator.return?.();
  await cancelled.promise;
  expect(await iterator.next()).toEqual({ done: true, value: undefined });
});

it('streams end at a malformed or an oversized message and leave the channel in order', async () => {
  const node = await connect({
    unary: { GetNetworkParameters: parameters },
    streams: {
      SubscribeBlocksFromStartHeight: (request, call) => {
        call.send({ block: testBlock(1) });
        call.send(
          request['start_block_height'] === '1'
            ? Buffer.from('0a7fff', 'hex')
            : { block: { ...testBlock(2), signatures: [Buffer.alloc(2 * 1024 * 1024)] } },
        );
      },
    },
  });
  for (const [start, kind] of [
    [1, 'malformed'],
    [2, 'too_large'],
  ] as const) {
    const iterator = iteratorOf(node.subscribeBlocks(start, { signal: never }));
    expect((await iterator.next()).done).toBe(false);
    expect(await kindOf(iterator.next())).toBe(kind);
    expect(await node.getNetworkParameters()).toEqual({ chainId: 'c' });
  }
});

describe('a node that shuts down gracefully', () => {
  it('is not held up by our streams, which end in good order and go on once it is back', async () => {
    const open: StreamHandler = (request, call) => {
      call.send({ block: testBlock(Number(request['start_block_height'])) });
    };
    const node = await connect({
      streams: {
        SubscribeBlocksFromStartHeight: open,
        SubscribeBlockDigestsFromLatest: (_request, call) => {
          call.send({ block_id: testId(1), block_height: '1', block_timestamp: null });
        },
        SubscribeExecutionDataFromStartBlockHeight: (_request, call) => {
          call.send({ block_height: '1', block_execution_data: { block_id: testId(1) } });
        },
      },
    });
    const streams = [
      node.subscribeBlocks(1, { signal: never }),
      node.subscribeBlockDigests({ signal: never, sealed: false }),
      node.subscribeExecutionData(1, { signal: never }),
    ].map((stream) => iteratorOf<unknown>(stream));
    for (const stream of streams) expect((await stream.next()).done).toBe(false);
    const ends = streams.map((stream) => stream.next());
    const stopped = await Promise.race([
      server.stopGracefully().then(() => 'stopped'),
      sleep(systemClock, 5_000).then(() => 'held up'),
    ]);
    expect(stopped).toBe('stopped');
    expect((await Promise.all(ends)).map(({ done }) => done)).toEqual([true, true, true]);
    await server.start();
    const next = () => iteratorOf(node.subscribeBlocks(2, { signal: never })).next();
    const again = await vi.waitUntil(() => next().catch(() => false), { timeout: 20_000 });
    expect(again).toMatchObject({ done: false });
  });

  it('does not make an ordinary end of what was a broken connection', async () => {
    const node = await connect({
      streams: {
        SubscribeBlocksFromStartHeight: (_request, call) => void call.send({ block: testBlock(1) }),
      },
    });
    const stream = iteratorOf(node.subscribeBlocks(1, { signal: never }));
    await stream.next();
    const end = stream.next();
    server.stop();
    expect(await kindOf(end)).toBe('unavailable');
  });
});
