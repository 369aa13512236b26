import { promises as dns } from 'node:dns';
import { once, type EventEmitter } from 'node:events';
import { createServer, type Http2Session } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it, vi } from 'vitest';
import type { Forwarder } from '../../../src/access/index.js';
import { WireWriter } from '../../../src/flow/index.js';
import type { ReaderMetrics } from '../../../src/observability/index.js';
import { answer, asItIs, atEnd, BEARER, beginCall, counted, eventually, fail } from '../../support/index.js';
import { forwardedIn, forwarderTo, guarded, metadataOf, networkOf } from '../../support/index.js';
import { openSession, RawNode, refusalOf, scraped, servedOverGrpc, smallChain } from '../../support/index.js';
import { transactionWith, until, VirtualClock, type RawCall, type RawHandler } from '../../support/index.js';
import { FaultProxy } from '../../support/faultProxy.js';

const API = '/flow.access.AccessAPI';
const SCRIPT = `${API}/ExecuteScriptAtLatestBlock`;
const SEND = `${API}/SendTransaction`;
const EVENTS = '/flow.executiondata.ExecutionDataAPI/SubscribeEvents';
const MIB = 1024 * 1024;

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const LATEST = 102;

/** How a call ended, and what it was answered where it was. */
type Ended = Record<'headers' | 'trailers', Metadata> & { code: status; details: string; message: Buffer };

const NOTHING: Buffer = Buffer.alloc(0);

type Named = Pick<RawNode, 'endpoint'>;

/** The server that forwards to some nodes, and a bare client of it. */
async function forwardingTo(nodes: Named | Named[], parts: Parameters<typeof servedOverGrpc>[1] = {}) {
  const network = await networkOf([nodes].flat());
  const served = await servedOverGrpc(chain, { forwarder: forwarderTo(network), ...parts });
  const probe = served.probe();
  const call = (
    path: string,
    request = NOTHING,
    { metadata = new Metadata(), deadline = Date.now() + 60_000, signal = new AbortController().signal } = {},
  ): Promise<Ended> =>
    new Promise((resolve) => {
      let [headers, message] = [new Metadata(), NOTHING];
      const how = [path, asItIs, asItIs, request, metadata, { deadline }] as const;
      const call = probe.client.makeUnaryRequest(...how, (_, given = NOTHING) => (message = given));
      signal.addEventListener('abort', () => call.cancel());
      call.on('metadata', (sent: Metadata) => (headers = sent));
      call.on('status', ({ code, details, metadata: trailers }) =>
        resolve({ code, details, message, headers, trailers }),
      );
    });
  const stream = (path: string, request = NOTHING, metadata = new Metadata()) =>
    probe.client
      .makeServerStreamRequest(path, asItIs, asItIs, request, metadata)
      .on('error', () => undefined);
  return { ...served, another: served.probe, network, probe, call, stream };
}

const inFlight = async (metrics: ReaderMetrics, kind: 'call' | 'stream'): Promise<number> =>
  (await scraped(metrics)).value('forwarded_calls_in_flight', { protocol: 'grpc', kind });

const echo: RawHandler = (call, request) => answer(call, request);
const begun: RawHandler = (call) => call.write(Buffer.from('begun'));
const endOf = (call: EventEmitter): Promise<{ code: status; details: string }> =>
  new Promise((resolve) => call.on('error', () => undefined).once('status', resolve));
const firstOf = (stream: EventEmitter) => new Promise((resolve) => stream.once('data', resolve));

describe('a forwarded call', () => {
  it('brings the very bytes and the metadata there, and the answer with its own back', async () => {
    const seen: { request: Buffer; metadata: Metadata }[] = [];
    const node = await RawNode.start({
      [SCRIPT]: (call, request) => {
        seen.push({ request, metadata: call.metadata });
        call.sendMetadata(metadataOf({ 'x-from-node': 'before' }));
        const trailers = metadataOf({ 'x-from-node': 'after', 'x-some-bin': Buffer.from([0, 255]) });
        answer(call, Buffer.from([7, 0, 255]), trailers);
      },
    });
    const to = await forwardingTo(node);
    // No message of any kind: what is passed on is not read.
    const metadata = metadataOf({ 'x-from-client': 'yes' });
    const { message, headers, trailers } = await to.call(SCRIPT, Buffer.from([255, 1, 2]), { metadata });
    expect(message).toEqual(Buffer.from([7, 0, 255]));
    const via = '2.0 flow-collection-indexer';
    expect(headers.getMap()).toMatchObject({ 'x-from-node': 'before', via });
    expect(trailers.getMap()).toMatchObject({ 'x-from-node': 'after', 'x-some-bin': Buffer.from([0, 255]) });
    expect(seen[0]?.request).toEqual(Buffer.from([255, 1, 2]));
    expect(seen[0]?.metadata.getMap()).toMatchObject({
      ...{ 'x-from-client': 'yes', via, 'user-agent': expect.stringMatching(/^test\/1/) as string },
    });
  });

  it('ends where indexers forward to each other in a circle', async () => {
    const to = await forwardingTo(await RawNode.start({ [SCRIPT]: echo }));
    const after = (hops: number) => {
      const metadata = new Metadata();
      for (let left = hops; left > 0; left -= 1) metadata.add('via', '2.0 flow-collection-indexer');
      return to.call(SCRIPT, Buffer.from([1]), { metadata });
    };
    expect((await after(3)).message).toEqual(Buffer.from([1]));
    expect(await after(4)).toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringContaining('leads to this program again') as string,
    });
  });

  it('leaves a token of ours behind, and needs it, as a stream does', async () => {
    const seen: (string | Buffer)[][] = [];
    const note: RawHandler = (call, request) => {
      seen.push(call.metadata.get('authorization'));
      answer(call, request);
    };
    const node = await RawNode.start({ [SCRIPT]: note, [EVENTS]: note });
    const to = await forwardingTo(node, { secrets: guarded('expensive') });
    const codes = async (metadata?: Metadata) => [
      (await to.call(SCRIPT, Buffer.from([1]), metadata && { metadata })).code,
      (await endOf(to.stream(EVENTS, Buffer.from([1]), metadata).resume())).code,
    ];
    expect(await codes()).toEqual([status.UNAUTHENTICATED, status.UNAUTHENTICATED]);
    expect(node.calls).toEqual([]);
    expect(await codes(metadataOf({ authorization: BEARER }))).toEqual([status.OK, status.OK]);
    expect(node.calls).toEqual([SCRIPT, EVENTS]);
    expect(seen).toEqual([[], []]);
  });

  it('has nothing in its answer that Node.js refuses to send', async () => {
    const metadata = metadataOf({ 'http2-settings': 'x', connection: 'x' });
    const forward: Forwarder['forward'] = (_request, sink) => {
      sink.onMetadata(metadata);
      sink.onEnd({ code: status.FAILED_PRECONDITION, details: '', metadata });
      return Promise.resolve('ended');
    };
    const { probe } = await servedOverGrpc(chain, { forwarder: { forward } });
    expect((await refusalOf(probe().raw(SCRIPT, NOTHING))).code).toBe('FAILED_PRECONDITION');
  });

  it('ends with the status, the words and the trailers of the node', async () => {
    const trailers = metadataOf({ 'x-why': 'because' });
    const node = await RawNode.start({
      [SCRIPT]: (call) => fail(call, status.INVALID_ARGUMENT, 'Straße: no such thing', trailers),
      // The node's own, which is no reason to ask another one.
      [SEND]: (call) => fail(call, status.UNAVAILABLE, 'no collection node', trailers),
    });
    const to = await forwardingTo(node);
    const first = await to.call(SCRIPT);
    expect(first).toMatchObject({ code: status.INVALID_ARGUMENT, details: 'Straße: no such thing' });
    expect(first.trailers.get('x-why')).toEqual(['because']);
    const second = await to.call(SEND);
    expect(second).toMatchObject({ code: status.UNAVAILABLE, details: 'no collection node' });
    expect(second.trailers.get('reason')).toEqual([]);
  });

  it('takes its deadline along, and is cancelled at the node when it is over or given up', async () => {
    const open: RawCall[] = [];
    const hang: RawHandler = (call) => open.push(call);
    const to = await forwardingTo(await RawNode.start({ [SCRIPT]: hang, [EVENTS]: hang }));
    const deadline = Date.now() + 1_500;
    expect((await to.call(SCRIPT, NOTHING, { deadline })).code).toBe(status.DEADLINE_EXCEEDED);
    expect(Number.isFinite(Number(open[0]?.getDeadline()))).toBe(true);
    await until(() => open[0]?.cancelled === true);

    const given = new AbortController();
    const call = to.call(SCRIPT, NOTHING, { signal: given.signal });
    await until(() => open.length === 2);
    given.abort();
    expect((await call).code).toBe(status.CANCELLED);
    await until(() => open[1]?.cancelled === true);

    const stream = to.stream(EVENTS);
    await until(() => open.length === 3);
    expect(open[2]?.getDeadline()).toBe(Infinity);
    stream.cancel();
    await until(() => open[2]?.cancelled === true);
  });

  it('may be as large as a transaction, and its answer larger; an indexed one may not', async () => {
    const node = await RawNode.start({
      [SEND]: (call, request) => answer(call, Buffer.from(String(request.length))),
      [SCRIPT]: (call) => answer(call, Buffer.alloc(20 * MIB, 5)),
    });
    const to = await forwardingTo(node);
    expect((await to.call(SEND, Buffer.alloc(3 * MIB))).message.toString()).toBe(String(3 * MIB));
    const { message } = await to.call(SCRIPT);
    expect(message.equals(Buffer.alloc(20 * MIB, 5))).toBe(true);
    expect((await to.call(SEND, Buffer.alloc(4 * MIB + 1))).code).toBe(status.RESOURCE_EXHAUSTED);
    expect((await to.call(`${API}/Ping`, Buffer.alloc(20_000))).code).toBe(status.RESOURCE_EXHAUSTED);
    expect(node.calls).toEqual([SEND, SCRIPT]);
  });

  it('of a stream is taken as slowly as its caller takes it, in order and whole, and ends with the words of the node', async () => {
    const COUNT = 60;
    let written = 0;
    const writeOn = (call: RawCall): void => {
      if (written === COUNT) {
        fail(call, status.NOT_FOUND, 'no more');
        return;
      }
      const message = Buffer.alloc(MIB);
      message.writeUInt32BE(written);
      written += 1;
      call.write(message, () => writeOn(call));
    };
    const to = await forwardingTo(await RawNode.start({ [EVENTS]: writeOn }));
    const stream = to.stream(EVENTS);
    const end = endOf(stream);
    const numbers: number[] = [];
    const reading = async (): Promise<void> => {
      for await (const message of stream) {
        numbers.push((message as Buffer).readUInt32BE());
        // What grpc-js reads ahead for its users, at either end, and little more.
        expect(written - numbers.length).toBeLessThan(40);
        for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await expect(reading()).rejects.toMatchObject({ details: 'no more' });
    expect(numbers).toEqual(Array.from({ length: COUNT }, (_, index) => index));
    expect(await end).toMatchObject({ code: status.NOT_FOUND, details: 'no more' });
  });

  it('brings one message, no more and no less', async () => {
    const to = await forwardingTo(await RawNode.start({ [SCRIPT]: () => undefined }));
    for (const messages of [0, 2]) {
      const call = to.probe.client.makeClientStreamRequest(SCRIPT, asItIs, asItIs, () => undefined);
      const end = endOf(call);
      for (let left = messages; left > 0; left -= 1) call.write(Buffer.from('x'));
      call.end();
      expect(await end).toMatchObject({ code: status.INVALID_ARGUMENT });
    }
  });
});

it('without a node that answers forwarded calls say so, indexed ones go on, and all is well when it is back', async () => {
  const node = await RawNode.start({ [SCRIPT]: echo, [SEND]: echo, [EVENTS]: (call) => call.end() });
  const to = await forwardingTo(node);
  expect((await to.call(SCRIPT, Buffer.from('x'))).message.toString()).toBe('x');
  node.stop();
  for (const path of [SCRIPT, SEND, EVENTS])
    expect(await refusalOf(to.probe.raw(path, NOTHING)), path).toEqual({
      ...{ code: 'UNAVAILABLE', metadata: { reason: 'upstream_unreachable' } },
      details: expect.stringContaining('no access node can be reached') as string,
    });
  const { block } = await to.probe.call('GetBlockByHeight', { height: LATEST });
  expect(block).toMatchObject({ height: String(LATEST) });
  await node.start();
  await until(async () => (await to.call(SCRIPT, Buffer.from('y'))).message.toString() === 'y');
});

it('with several nodes a call whose connection breaks is asked of the next one, but nothing is sent twice', async () => {
  let toBreak: RawNode | undefined;
  const nodes: RawNode[] = [];
  for (const at of [0, 1]) {
    const take: RawHandler = (...asked) => (toBreak === nodes[at] ? toBreak?.stop() : echo(...asked));
    nodes.push(await RawNode.start({ [SCRIPT]: take, [SEND]: take }));
  }
  const to = await forwardingTo(nodes);
  for (const path of [SCRIPT, SEND]) {
    // Whichever is asked first, that one breaks.
    toBreak = undefined;
    await to.call(path, Buffer.from('which'));
    toBreak = nodes.find(({ calls }) => calls.length > 0)!;
    const other = nodes.find((node) => node !== toBreak)!;
    if (path === SCRIPT) {
      expect((await to.call(path, Buffer.from('x'))).message.toString()).toBe('x');
      expect(other.calls).toEqual([SCRIPT]);
    } else {
      expect(await refusalOf(to.probe.raw(path, Buffer.from('x')))).toMatchObject({
        ...{ code: 'UNAVAILABLE', metadata: { reason: 'upstream_unreachable' } },
        details: expect.stringContaining('is unknown') as string,
      });
      expect(other.calls).toEqual([]);
      // What was not sent anywhere yet goes to whoever can be connected to.
      expect((await to.call(path, Buffer.from('y'))).message.toString()).toBe('y');
    }
    for (const node of nodes) node.calls.length = 0;
    await toBreak.start();
  }
});

it('leaves an address of the name of a node behind which nothing answers: after three deadlines, or callers, with those who wait', async () => {
  const node = await RawNode.start({ [SCRIPT]: echo });
  const addresses = ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 }));
  const lookup = vi.spyOn(dns, 'lookup').mockResolvedValue(addresses as never);
  atEnd(() => lookup.mockRestore());
  const to = await forwardingTo({ endpoint: `two.test:${node.port}` });
  const left = new Set<Http2Session | undefined>();
  const mute = createServer().listen({ host: '127.0.0.2', port: node.port });
  mute.on('stream', ({ session }, headers) => headers[':path'] === SCRIPT && left.add(session));
  await once(mute, 'listening');
  atEnd(() => void mute.close());

  for (let i = 0; i < 2; i++)
    expect(await to.call(SCRIPT, NOTHING, { deadline: Date.now() + 1_100 })).toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
  const admission = { ...to.network.forwardingAdmission };
  vi.spyOn(to.network.forwardingAdmission, 'admit').mockImplementationOnce(async (...asked) => {
    await until(() => [...left].every((session) => session?.destroyed));
    return admission.admit(...asked);
  });
  const waiting = to.call(SCRIPT, Buffer.from('x'));
  const signal = AbortSignal.timeout(1_200);
  expect(await to.call(SCRIPT, NOTHING, { signal })).toMatchObject({ code: status.CANCELLED });
  expect((await waiting).message.toString()).toBe('x');
  expect(left.size).toBe(1);
});

it('stays at an address from which a stream still brings messages, whatever else goes unanswered there', async () => {
  const events: RawHandler = (call) => {
    const timer = setInterval(() => call.write(Buffer.from('event')), 100);
    call.once('cancelled', () => clearInterval(timer));
  };
  const to = await forwardingTo(await RawNode.start({ [SCRIPT]: () => undefined, [EVENTS]: events }));
  const stream = to.stream(EVENTS);
  await firstOf(stream);
  const deadline = Date.now() + 1_200;
  await Promise.all([1, 2, 3].map(() => to.call(SCRIPT, NOTHING, { deadline })));
  // A connection that is left ends its streams within a second.
  expect(await Promise.race([endOf(stream), sleep(1_500)])).toBeUndefined();
  stream.cancel();
});

it('takes for streams no room from calls: proxies allow few at once on a connection', async () => {
  const proxy = await FaultProxy.before(await RawNode.start({ [SCRIPT]: echo, [EVENTS]: begun }, 1));
  const to = await forwardingTo({ endpoint: `127.0.0.1:${proxy.port}` });
  const streams = [to.stream(EVENTS), to.stream(EVENTS)];
  await Promise.all(streams.map(firstOf));
  const deadline = Date.now() + 5_000;
  expect((await to.call(SCRIPT, Buffer.from('x'), { deadline })).message.toString()).toBe('x');
  // One asks who the node is, one is for calls.
  expect(proxy.connections).toBe(2 + streams.length);
  for (const stream of streams) stream.cancel();
  await until(() => proxy.connections === 2);
});

it('cuts no quiet stream because others that were quiet, too, are left', async () => {
  const to = await forwardingTo(await RawNode.start({ [EVENTS]: () => undefined }));
  const [kept, ...left] = [1, 2, 3, 4].map(() => to.stream(EVENTS));
  await sleep(1_200);
  for (const stream of left) stream.cancel();
  expect(await Promise.race([endOf(kept!), sleep(1_500)])).toBeUndefined();
  kept!.cancel();
});

describe('what the index does not have', () => {
  const BY_HEIGHT = `${API}/GetBlockByHeight`;
  const BY_ID = `${API}/GetTransaction`;
  const FULL_BLOCKS = `${API}/SubscribeBlocksFromStartHeight`;
  const LATEST_BLOCK = `${API}/GetLatestBlock`;
  const height = (value: number): Buffer => new WireWriter().number(1, value).finish();

  it('is asked of a node: full blocks, heights out of range and unknown ids', async () => {
    const said = Buffer.from('of the node');
    const say: RawHandler = (call) => answer(call, said);
    const all = { [BY_HEIGHT]: say, [BY_ID]: say, [LATEST_BLOCK]: say, [FULL_BLOCKS]: say };
    const node = await RawNode.start(all);
    const to = await forwardingTo(node);
    const full = Buffer.concat([height(LATEST), new WireWriter().number(2, 1).finish()]);
    for (const request of [full, height(LATEST + 1), height(1)]) {
      const { message, headers } = await to.call(BY_HEIGHT, request);
      expect([message, headers.get('via').length]).toEqual([said, 1]);
    }
    const unknown = new WireWriter().bytes(1, Buffer.alloc(32, 9)).finish();
    expect((await to.call(BY_ID, unknown)).message).toEqual(said);
    const blocks = to.stream(FULL_BLOCKS, new WireWriter().number(2, 1).number(3, 1).finish());
    expect(await firstOf(blocks)).toEqual(said);
    expect(node.calls.splice(0)).toEqual([BY_HEIGHT, BY_HEIGHT, BY_HEIGHT, BY_ID, FULL_BLOCKS]);

    // What is indexed is answered here, and so is what no node could answer better.
    const own = await to.call(BY_HEIGHT, height(LATEST));
    expect(own.message.length).toBeGreaterThan(32);
    expect(own.headers.get('via')).toEqual([]);
    expect((await to.call(LATEST_BLOCK)).message).not.toEqual(said);
    const short = await refusalOf(to.probe.call('GetTransaction', { id: Buffer.alloc(3) }));
    expect(short.metadata['reason']).toBe('malformed_id');
    expect(node.calls).toEqual([]);
  });

  it('is refused in the words of the index where no node has it either, or none can be reached', async () => {
    const node = await RawNode.start({
      [BY_HEIGHT]: (call) => fail(call, status.NOT_FOUND, 'not found: some words of a node'),
      [BY_ID]: (call) => fail(call, status.INTERNAL, 'failed to find'),
    });
    const to = await forwardingTo(node);
    const expectOwn = async (): Promise<void> => {
      const edges = { 'first-indexed': '100', 'latest-indexed': '102', head: '102' };
      const above = await refusalOf(to.probe.call('GetBlockByHeight', { height: 500 }));
      const details = 'height 500 is not yet indexed (latest 102, head 102)';
      const metadata = { reason: 'not_yet_indexed', ...edges };
      expect(above).toEqual({ code: 'NOT_FOUND', details, metadata });
      const below = await refusalOf(to.probe.call('GetBlockByHeight', { height: 5 }));
      expect(below.metadata).toEqual({ reason: 'below_first_indexed', ...edges });
      const unknown = await refusalOf(to.probe.call('GetTransaction', { id: Buffer.alloc(32, 9) }));
      expect(unknown.metadata).toEqual({ reason: 'unknown_id', ...edges });
    };
    await expectOwn();
    expect(node.calls).toEqual([BY_HEIGHT, BY_HEIGHT, BY_ID]);
    node.stop();
    await expectOwn();
  });

  it('is not asked of a node where the head of the index is meant', async () => {
    const node = await RawNode.start({ [LATEST_BLOCK]: echo });
    const nothing = { firstIndexed: null, latestIndexed: null, head: null, sealed: null };
    const { probe } = await servedOverGrpc([], {
      forwarder: forwarderTo(await networkOf([node])),
      status: { range: () => nothing },
    });
    const refusal = await refusalOf(probe().call('GetLatestBlock'));
    expect(refusal).toMatchObject({ code: 'NOT_FOUND', metadata: { reason: 'not_yet_indexed' } });
    expect(node.calls).toEqual([]);
  });
});

it('what is forwarded is counted by what is called and what becomes of it, and while it is under way', async () => {
  const open: RawCall[] = [];
  const node = await RawNode.start({
    [SCRIPT]: echo,
    [SEND]: (call) => fail(call, status.INVALID_ARGUMENT, 'no such thing'),
    [`${API}/GetBlockByHeight`]: (call) => fail(call, status.NOT_FOUND, 'not found'),
    [EVENTS]: (call) => call.write(Buffer.from('begun')),
    [`${API}/GetAccount`]: (call) => open.push(call),
    [`${API}/GetEventsForBlockIDs`]: (call) => open.push(call),
  });
  const to = await forwardingTo(node);
  const { metrics } = to;
  const underWay = (kind: 'call' | 'stream', count: number) =>
    until(async () => (await inFlight(metrics, kind)) === count);
  await underWay('call', 0);
  await underWay('stream', 0);

  for (const text of ['a', 'b']) await to.call(SCRIPT, Buffer.from(text));
  expect((await to.call(SEND)).code).toBe(status.INVALID_ARGUMENT);
  await refusalOf(to.probe.call('GetBlockByHeight', { height: 500 }));
  // The index's own: not forwarded, and not counted.
  await to.probe.call('GetBlockByHeight', { height: LATEST });
  const empty = to.probe.client.makeClientStreamRequest(SCRIPT, asItIs, asItIs, () => undefined);
  const refused = endOf(empty);
  empty.end();
  await refused;

  const stream = to.stream(EVENTS);
  await firstOf(stream);
  await underWay('stream', 1);
  const given = new AbortController();
  const waiting = [
    to.call(`${API}/GetAccount`, NOTHING, { signal: given.signal }),
    to.call(`${API}/GetEventsForBlockIDs`),
  ];
  await until(() => open.length === 2);
  await underWay('call', 2);
  given.abort();
  await waiting[0];
  stream.cancel();
  await underWay('stream', 0);
  await underWay('call', 1);
  node.stop();
  await waiting[1];
  // What was sent and not answered is asked of other nodes, and there is none.
  await to.call(SCRIPT);
  await underWay('call', 0);

  const { calls, timed } = await forwardedIn(metrics, 'grpc');
  expect(calls).toEqual([
    'ExecuteScriptAtLatestBlock answered 2',
    'ExecuteScriptAtLatestBlock refused 1',
    'ExecuteScriptAtLatestBlock unreachable 1',
    'GetAccount cancelled 1',
    'GetBlockByHeight missed 1',
    'GetEventsForBlockIDs unreachable 1',
    'SendTransaction failed 1',
    'SubscribeEvents cancelled 1',
  ]);
  expect(timed).toEqual(['ExecuteScriptAtLatestBlock 2', 'GetBlockByHeight 1', 'SendTransaction 1']);
});

/** A server that forwards to a node, two clients of it, and how many calls are under way. */
const crowded = async (handlers: Readonly<Record<string, RawHandler>>) => {
  const to = await forwardingTo(await RawNode.start(handlers));
  const clients = [to.probe, to.another()];
  return { ...to, clientOf: (index: number) => clients[index % 2]!.client };
};

it('bounds: of calls give back the place of whoever leaves while it waits for its turn', async () => {
  const { call, clientOf, metrics } = await crowded({ [SCRIPT]: echo });
  const begin = (index: number) => {
    // Its request does not come.
    const call = clientOf(index).makeClientStreamRequest(SCRIPT, asItIs, asItIs, () => undefined);
    call.on('error', () => undefined);
    return call;
  };
  const underWay = (count: number) => until(async () => (await inFlight(metrics, 'call')) === count);
  const mute = Array.from({ length: 32 }, (_, index) => begin(index));
  await underWay(32);
  const waiting = Array.from({ length: 68 }, (_, index) => begin(index));
  await underWay(100);
  for (const call of waiting) call.cancel();
  await underWay(32);
  for (const call of mute) call.cancel();
  await underWay(0);
  expect((await call(SCRIPT, Buffer.from('request'))).message.toString()).toBe('request');
});

it('bounds: end the stream of whoever takes nothing, give back what it held, and cut the connection', async () => {
  // Of today: deadlines of calls are moments.
  const clock = new VirtualClock(Date.now());
  let isOver = false;
  const node = await RawNode.start({
    [EVENTS]: (call) => {
      call.once('cancelled', () => (isOver = true));
      const next = (): void => {
        if (!isOver) call.write(Buffer.alloc(MIB), next);
      };
      next();
    },
    [SCRIPT]: (call) => answer(call, Buffer.alloc(MIB)),
  });
  const to = await forwardingTo(node, { clock, maxHeldBytes: 1.5 * MIB });
  const { metrics } = to;
  const session = await openSession(to.port);
  const isCut = once(session, 'close');
  // Of its window of 64 KiB it takes nothing.
  const call = beginCall(session, EVENTS).end(Buffer.alloc(5));
  await once(call, 'response');
  await clock.advance(29_000);
  expect(await inFlight(metrics, 'stream')).toBe(1);
  expect((await to.call(SCRIPT)).code).toBe(status.RESOURCE_EXHAUSTED);
  await until(async () => {
    await clock.advance(500);
    return (await inFlight(metrics, 'stream')) === 0;
  });
  expect(await counted(metrics, 'forwarded_calls_total', { outcome: 'overdue' })).toBe(1);
  await eventually(() => isOver);
  await clock.advance(21_000);
  await isCut;
  // Until then its bytes were there.
  expect((await to.call(SCRIPT)).message).toHaveLength(MIB);
});

it('bounds: allow so many streams, and end them when the server closes', async () => {
  const { clientOf, metrics, server } = await crowded({ [EVENTS]: begun });
  const open = (index: number) => {
    const stream = clientOf(index).makeServerStreamRequest(EVENTS, asItIs, asItIs, Buffer.alloc(0));
    return { end: endOf(stream), begun: firstOf(stream) };
  };
  const streams = Array.from({ length: 100 }, (_, index) => open(index));
  await Promise.all(streams.map((stream) => stream.begun));
  expect(await open(0).end).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  expect(await inFlight(metrics, 'stream')).toBe(100);
  expect(await counted(metrics, 'forwarded_calls_total', { outcome: 'busy' })).toBe(1);
  await server.close();
  for (const { end } of streams) expect(await end).toMatchObject({ code: status.UNAVAILABLE });
});
