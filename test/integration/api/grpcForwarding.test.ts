import { Metadata, status } from '@grpc/grpc-js';
import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import type { Forwarder } from '../../../src/access/index.js';
import { WireWriter } from '../../../src/flow/index.js';
import { createReaderMetrics } from '../../../src/observability/index.js';
import type { ReaderMetrics } from '../../../src/observability/index.js';
import { refusalOf } from '../../support/grpcProbe.js';
import { beginCall, openSession } from '../../support/http2Probe.js';
import { eventually, until } from '../../support/program.js';
import { answer, asItIs, fail, forwarderTo, networkOf, RawNode } from '../../support/rawNode.js';
import type { RawCall, RawHandler } from '../../support/rawNode.js';
import { counted, forwardedIn, scraped } from '../../support/scrapedMetrics.js';
import { BEARER, guarded } from '../../support/servedChain.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';
import { VirtualClock } from '../../support/virtualClock.js';

const API = '/flow.access.AccessAPI';
const SCRIPT = `${API}/ExecuteScriptAtLatestBlock`;
const SEND = `${API}/SendTransaction`;
const EVENTS = '/flow.executiondata.ExecutionDataAPI/SubscribeEvents';
const MIB = 1024 * 1024;

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const LATEST = 102;

interface Answered {
  readonly message: Buffer;
  readonly headers: Metadata;
  readonly trailers: Metadata;
}

/** The server that forwards to some nodes, and a bare client of it. */
async function forwardingTo(
  nodes: RawNode | readonly RawNode[],
  parts: Parameters<typeof servedOverGrpc>[1] = {},
) {
  const network = await networkOf([nodes].flat());
  const served = await servedOverGrpc(chain, { forwarder: forwarderTo(network), ...parts });
  const probe = served.probe();
  const call = (
    path: string,
    request: Buffer = Buffer.alloc(0),
    { metadata = new Metadata(), deadline = Date.now() + 60_000, signal = new AbortController().signal } = {},
  ): Promise<Answered> =>
    new Promise((resolve, reject) => {
      let headers = new Metadata();
      let message: Buffer = Buffer.alloc(0);
      const take = (error: ServiceError | null, given = message): void => {
        if (error !== null) reject(error);
        else message = given;
      };
      const how = [path, asItIs, asItIs, request, metadata, { deadline }] as const;
      const call = probe.client.makeUnaryRequest(...how, take);
      signal.addEventListener('abort', () => call.cancel());
      call.on('metadata', (sent: Metadata) => (headers = sent));
      call.on('status', ({ code, metadata: trailers }) => {
        if (code === status.OK) resolve({ message, headers, trailers });
      });
    });
  const stream = (path: string, request: Buffer = Buffer.alloc(0), metadata = new Metadata()) =>
    probe.client
      .makeServerStreamRequest(path, asItIs, asItIs, request, metadata)
      .on('error', () => undefined);
  return { ...served, another: served.probe, probe, call, stream };
}

/** How many calls are under way, or streams. */
const inFlight = async (metrics: ReaderMetrics, kind: 'call' | 'stream'): Promise<number> =>
  (await scraped(metrics)).value('forwarded_calls_in_flight', { protocol: 'grpc', kind });

const error = (call: Promise<unknown>): Promise<ServiceError> =>
  call.then(
    () => {
      throw new Error('answered');
    },
    (reason: unknown) => reason as ServiceError,
  );
const echo: RawHandler = (call, request) => answer(call, request);
const endOf = (stream: ClientReadableStream<Buffer>): Promise<{ code: status; details: string }> =>
  new Promise((resolve) => stream.once('status', resolve));

describe('a forwarded call', () => {
  it('brings the very bytes and the metadata there, and the answer with its own back', async () => {
    const seen: { request: Buffer; metadata: Metadata }[] = [];
    const node = await RawNode.start({
      [SCRIPT]: (call, request) => {
        seen.push({ request, metadata: call.metadata });
        const headers = new Metadata();
        headers.set('x-from-node', 'before');
        call.sendMetadata(headers);
        const trailers = new Metadata();
        trailers.set('x-from-node', 'after');
        trailers.set('x-some-bin', Buffer.from([0, 255]));
        answer(call, Buffer.from([7, 0, 255]), trailers);
      },
    });
    const to = await forwardingTo(node);
    const metadata = new Metadata();
    metadata.set('x-from-client', 'yes');
    // No message of any kind: what is passed on is not read.
    const { message, headers, trailers } = await to.call(SCRIPT, Buffer.from([255, 1, 2]), { metadata });
    expect(message).toEqual(Buffer.from([7, 0, 255]));
    expect(headers.get('x-from-node')).toEqual(['before']);
    expect(headers.get('via')).toEqual(['2.0 flow-collection-indexer']);
    expect(trailers.get('x-from-node')).toEqual(['after']);
    expect(trailers.get('x-some-bin')).toEqual([Buffer.from([0, 255])]);
    expect(seen[0]?.request).toEqual(Buffer.from([255, 1, 2]));
    expect(seen[0]?.metadata.get('x-from-client')).toEqual(['yes']);
    expect(seen[0]?.metadata.get('user-agent')[0]).toMatch(/^test\/1/);
    expect(seen[0]?.metadata.get('via')).toEqual(['2.0 flow-collection-indexer']);
  });

  it('ends where indexers forward to each other in a circle', async () => {
    const node = await RawNode.start({ [SCRIPT]: echo });
    const to = await forwardingTo(node);
    const after = (hops: number) => {
      const metadata = new Metadata();
      for (let left = hops; left > 0; left -= 1) metadata.add('via', '2.0 flow-collection-indexer');
      return to.call(SCRIPT, Buffer.from([1]), { metadata });
    };
    expect((await after(3)).message).toEqual(Buffer.from([1]));
    expect(await error(after(4))).toMatchObject({
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
    expect((await error(to.call(SCRIPT, Buffer.from([1])))).code).toBe(status.UNAUTHENTICATED);
    expect((await endOf(to.stream(EVENTS, Buffer.from([1])))).code).toBe(status.UNAUTHENTICATED);
    expect(node.calls).toEqual([]);

    const metadata = new Metadata();
    metadata.set('authorization', BEARER);
    await to.call(SCRIPT, Buffer.from([1]), { metadata });
    const stream = to.stream(EVENTS, Buffer.from([1]), metadata);
    stream.resume();
    expect((await endOf(stream)).code).toBe(status.OK);
    expect(node.calls).toEqual([SCRIPT, EVENTS]);
    expect(seen).toEqual([[], []]);
  });

  it('has nothing in its answer that Node.js refuses to send', async () => {
    const metadata = new Metadata();
    for (const name of ['http2-settings', 'connection']) metadata.set(name, 'x');
    const forward: Forwarder['forward'] = (_request, sink) => {
      sink.onMetadata(metadata);
      sink.onEnd({ code: status.FAILED_PRECONDITION, details: '', metadata });
      return Promise.resolve('ended');
    };
    const probe = (await servedOverGrpc(chain, { forwarder: { forward } })).probe();
    const { code } = await refusalOf(probe.raw(SCRIPT, Buffer.alloc(0)));
    expect(code).toBe('FAILED_PRECONDITION');
  });

  it('may be one of system or scheduled transactions, or for receipts', async () => {
    const paths = [
      ...['GetSystemTransaction', 'GetScheduledTransaction', 'GetScheduledTransactionResult'],
      ...['GetExecutionReceiptsByBlockID', 'GetExecutionReceiptsByResultID'],
    ].map((method) => `${API}/${method}`);
    const node = await RawNode.start(Object.fromEntries(paths.map((path) => [path, echo])));
    const to = await forwardingTo(node);
    for (const path of paths)
      expect((await to.call(path, Buffer.from([8, 5]))).message, path).toEqual(Buffer.from([8, 5]));
  });

  it('ends with the status, the words and the trailers of the node', async () => {
    const trailers = new Metadata();
    trailers.set('x-why', 'because');
    const node = await RawNode.start({
      [SCRIPT]: (call) => fail(call, status.INVALID_ARGUMENT, 'Straße: no such thing', trailers),
      // The node's own, which is no reason to ask another one.
      [SEND]: (call) => fail(call, status.UNAVAILABLE, 'no collection node', trailers),
    });
    const to = await forwardingTo(node);
    const first = await error(to.call(SCRIPT));
    expect(first).toMatchObject({ code: status.INVALID_ARGUMENT, details: 'Straße: no such thing' });
    expect(first.metadata.get('x-why')).toEqual(['because']);
    const second = await error(to.call(SEND));
    expect(second).toMatchObject({ code: status.UNAVAILABLE, details: 'no collection node' });
    expect(second.metadata.get('reason')).toEqual([]);
  });

  it('takes its deadline along, and is cancelled at the node when it is over or given up', async () => {
    const open: RawCall[] = [];
    const hang: RawHandler = (call) => open.push(call);
    const node = await RawNode.start({ [SCRIPT]: hang, [EVENTS]: hang });
    const to = await forwardingTo(node);
    const deadline = Date.now() + 1_500;
    expect(await error(to.call(SCRIPT, undefined, { deadline }))).toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
    const [first] = open;
    expect(Number.isFinite(Number(first?.getDeadline()))).toBe(true);
    await until(() => first?.cancelled === true);

    const given = new AbortController();
    const call = error(to.call(SCRIPT, undefined, { signal: given.signal }));
    await until(() => open.length === 2);
    given.abort();
    expect(await call).toMatchObject({ code: status.CANCELLED });
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
    const exhausted = { code: status.RESOURCE_EXHAUSTED };
    expect(await error(to.call(SEND, Buffer.alloc(4 * MIB + 1)))).toMatchObject(exhausted);
    const ping = error(to.call(`${API}/Ping`, Buffer.alloc(20_000)));
    expect(await ping).toMatchObject(exhausted);
    expect(node.calls).toEqual([SEND, SCRIPT]);
  });

  it('of a stream is taken as slowly as its caller takes it, in order and whole, and ends with the words of the node', async () => {
    const COUNT = 60;
    let written = 0;
    const node = await RawNode.start({
      [EVENTS]: (call) => {
        const next = (): void => {
          if (written === COUNT) {
            fail(call, status.NOT_FOUND, 'no more');
            return;
          }
          const message = Buffer.alloc(MIB);
          message.writeUInt32BE(written);
          written += 1;
          call.write(message, next);
        };
        next();
      },
    });
    const to = await forwardingTo(node);
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
    const node = await RawNode.start({ [SCRIPT]: () => undefined });
    const to = await forwardingTo(node);
    for (const messages of [0, 2]) {
      const call = to.probe.client.makeClientStreamRequest(SCRIPT, asItIs, asItIs, () => undefined);
      call.on('error', () => undefined);
      const end = new Promise<{ code: status }>((resolve) => call.once('status', resolve));
      for (let left = messages; left > 0; left -= 1) call.write(Buffer.from('x'));
      call.end();
      expect(await end).toMatchObject({ code: status.INVALID_ARGUMENT });
    }
  });
});

describe('without a node that answers', () => {
  it('forwarded calls say so, indexed ones go on, and all is well when the node is back', async () => {
    const node = await RawNode.start({ [SCRIPT]: echo, [SEND]: echo, [EVENTS]: (call) => call.end() });
    const to = await forwardingTo(node);
    expect((await to.call(SCRIPT, Buffer.from('x'))).message.toString()).toBe('x');
    node.stop();
    for (const path of [SCRIPT, SEND, EVENTS]) {
      const refusal = await refusalOf(to.probe.raw(path, Buffer.alloc(0)));
      expect(refusal.code, path).toBe('UNAVAILABLE');
      expect(refusal.metadata).toEqual({ reason: 'upstream_unreachable' });
      expect(refusal.details).toContain('no access node can be reached');
    }
    const block = (await to.probe.call('GetBlockByHeight', { height: LATEST }))['block'];
    expect(block).toMatchObject({ height: String(LATEST) });
    await node.start();
    const back = await eventually(() => to.call(SCRIPT, Buffer.from('y')).catch(() => undefined));
    expect(back.message.toString()).toBe('y');
  });

  it('a foreign one is not asked', async () => {
    const foreign = await RawNode.start({ [SCRIPT]: echo }, 'flow-mainnet');
    const to = await forwardingTo(foreign);
    expect(await refusalOf(to.probe.raw(SCRIPT, Buffer.alloc(0)))).toMatchObject({
      metadata: { reason: 'upstream_unreachable' },
    });
    expect(foreign.calls).toEqual([]);
  });
});

it('with several nodes a call whose connection breaks is asked of the next one, but nothing is sent twice', async () => {
  let toBreak: RawNode | undefined;
  const handlers = (mine: () => RawNode): Readonly<Record<string, RawHandler>> => ({
    [SCRIPT]: (call, request) => (toBreak === mine() ? mine().stop() : echo(call, request)),
    [SEND]: (call, request) => (toBreak === mine() ? mine().stop() : echo(call, request)),
  });
  const nodes: RawNode[] = [];
  nodes.push(await RawNode.start(handlers(() => nodes[0]!)));
  nodes.push(await RawNode.start(handlers(() => nodes[1]!)));
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
      const refusal = await refusalOf(to.probe.raw(path, Buffer.from('x')));
      expect(refusal).toMatchObject({ code: 'UNAVAILABLE', metadata: { reason: 'upstream_unreachable' } });
      expect(refusal.details).toContain('is unknown');
      expect(other.calls).toEqual([]);
      // What was not sent anywhere yet goes to whoever can be connected to.
      expect((await to.call(path, Buffer.from('y'))).message.toString()).toBe('y');
    }
    for (const node of nodes) node.calls.length = 0;
    await toBreak.start();
  }
});

describe('what the index does not have', () => {
  const BY_HEIGHT = `${API}/GetBlockByHeight`;
  const BY_ID = `${API}/GetTransaction`;
  const FULL_BLOCKS = `${API}/SubscribeBlocksFromStartHeight`;
  const LATEST_BLOCK = `${API}/GetLatestBlock`;
  const height = (value: number): Buffer => new WireWriter().number(1, value).finish();
  const id = (byte: number): Buffer => new WireWriter().bytes(1, Buffer.alloc(32, byte)).finish();

  it('is asked of a node: full blocks, heights out of range and unknown ids', async () => {
    const says =
      (text: string): RawHandler =>
      (call) =>
        answer(call, Buffer.from(text));
    const node = await RawNode.start({
      [BY_HEIGHT]: says('block'),
      [BY_ID]: says('transaction'),
      [LATEST_BLOCK]: says('latest'),
      [FULL_BLOCKS]: says('full blocks'),
    });
    const to = await forwardingTo(node);
    const full = Buffer.concat([height(LATEST), new WireWriter().number(2, 1).finish()]);
    for (const request of [full, height(LATEST + 1), height(1)]) {
      const { message, headers } = await to.call(BY_HEIGHT, request);
      expect(message.toString()).toBe('block');
      expect(headers.get('via')).toHaveLength(1);
    }
    expect((await to.call(BY_ID, id(9))).message.toString()).toBe('transaction');
    const blocks = to.stream(FULL_BLOCKS, new WireWriter().number(2, 1).number(3, 1).finish());
    expect(await new Promise((resolve) => blocks.once('data', resolve))).toEqual(Buffer.from('full blocks'));
    expect(node.calls.splice(4)).toEqual([FULL_BLOCKS]);
    expect(node.calls).toEqual([BY_HEIGHT, BY_HEIGHT, BY_HEIGHT, BY_ID]);

    // What is indexed is answered here, and so is what no node could answer better.
    const own = await to.call(BY_HEIGHT, height(LATEST));
    expect(own.message.length).toBeGreaterThan(32);
    expect(own.headers.get('via')).toEqual([]);
    expect((await to.call(LATEST_BLOCK)).message.toString()).not.toBe('latest');
    const short = await refusalOf(to.probe.call('GetTransaction', { id: Buffer.alloc(3) }));
    expect(short.metadata['reason']).toBe('malformed_id');
    expect(node.calls).toHaveLength(4);
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
      expect(above).toEqual({
        code: 'NOT_FOUND',
        details: 'height 500 is not yet indexed (latest 102, head 102)',
        metadata: { reason: 'not_yet_indexed', ...edges },
      });
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

describe('what is forwarded is counted', () => {
  const BY_HEIGHT = `${API}/GetBlockByHeight`;

  it('by what is called and what becomes of it, and while it is under way', async () => {
    const open: RawCall[] = [];
    const node = await RawNode.start({
      [SCRIPT]: echo,
      [SEND]: (call) => fail(call, status.INVALID_ARGUMENT, 'no such thing'),
      [BY_HEIGHT]: (call) => fail(call, status.NOT_FOUND, 'not found'),
      [EVENTS]: (call) => call.write(Buffer.from('begun')),
      [`${API}/GetAccount`]: (call) => open.push(call),
      [`${API}/GetEventsForBlockIDs`]: (call) => open.push(call),
    });
    const metrics = createReaderMetrics();
    const to = await forwardingTo(node, { metrics });
    const underWay = (kind: 'call' | 'stream', count: number) =>
      until(async () => (await inFlight(metrics, kind)) === count);
    await underWay('call', 0);
    await underWay('stream', 0);

    for (const text of ['a', 'b']) await to.call(SCRIPT, Buffer.from(text));
    expect(await error(to.call(SEND))).toMatchObject({ code: status.INVALID_ARGUMENT });
    await refusalOf(to.probe.call('GetBlockByHeight', { height: 500 }));
    // The index's own: not forwarded, and not counted.
    await to.probe.call('GetBlockByHeight', { height: LATEST });
    const empty = to.probe.client.makeClientStreamRequest(SCRIPT, asItIs, asItIs, () => undefined);
    const refused = new Promise((resolve) => empty.once('status', resolve));
    empty.on('error', () => undefined).end();
    await refused;

    const stream = to.stream(EVENTS);
    await new Promise((resolve) => stream.once('data', resolve));
    await underWay('stream', 1);
    const given = new AbortController();
    const waiting = [
      error(to.call(`${API}/GetAccount`, Buffer.alloc(0), { signal: given.signal })),
      error(to.call(`${API}/GetEventsForBlockIDs`, Buffer.alloc(0))),
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
    await refusalOf(to.probe.raw(SCRIPT, Buffer.alloc(0)));
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
});

describe('bounds', () => {
  /** A server that forwards to a node, two clients of it, and how many calls are under way. */
  const crowded = async (handlers: Readonly<Record<string, RawHandler>>) => {
    const metrics = createReaderMetrics();
    const to = await forwardingTo(await RawNode.start(handlers), { metrics });
    const clients = [to.probe, to.another()];
    return { clientOf: (index: number) => clients[index % 2]!.client, metrics, server: to.server };
  };

  it('of calls give back the place of whoever leaves while it waits for its turn', async () => {
    const { clientOf, metrics } = await crowded({ [SCRIPT]: echo });
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
    const message = Buffer.from('request');
    const said = await new Promise((resolve, reject) => {
      clientOf(0).makeUnaryRequest(SCRIPT, asItIs, asItIs, message, (failure, given) =>
        failure === null ? resolve(given) : reject(failure),
      );
    });
    expect(said).toEqual(message);
  });

  it('end the stream of whoever takes nothing, give back what it held, and cut the connection', async () => {
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
    const metrics = createReaderMetrics();
    const to = await forwardingTo(node, { metrics, clock, maxHeldBytes: 1.5 * MIB });
    const session = await openSession(to.port);
    const isCut = new Promise<void>((resolve) => session.once('close', resolve));
    // Of its window of 64 KiB it takes nothing.
    const call = beginCall(session, EVENTS).end(Buffer.alloc(5));
    await new Promise((resolve) => call.once('response', resolve));
    await clock.advance(29_000);
    expect(await inFlight(metrics, 'stream')).toBe(1);
    expect((await error(to.call(SCRIPT))).code).toBe(status.RESOURCE_EXHAUSTED);
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

  it('allow so many streams, and end them when the server closes', async () => {
    const begun: RawHandler = (call) => call.write(Buffer.from('begun'));
    const { clientOf, metrics, server } = await crowded({ [EVENTS]: begun });
    const open = (index: number) => {
      const stream = clientOf(index).makeServerStreamRequest(EVENTS, asItIs, asItIs, Buffer.alloc(0));
      stream.on('error', () => undefined);
      return { end: endOf(stream), begun: new Promise((resolve) => stream.once('data', resolve)) };
    };
    const streams = Array.from({ length: 100 }, (_, index) => open(index));
    await Promise.all(streams.map((stream) => stream.begun));
    expect(await open(0).end).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(await inFlight(metrics, 'stream')).toBe(100);
    expect(await counted(metrics, 'forwarded_calls_total', { outcome: 'busy' })).toBe(1);
    await server.close();
    for (const { end } of streams) expect(await end).toMatchObject({ code: status.UNAVAILABLE });
  });
});
