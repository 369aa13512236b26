import { once } from 'node:events';
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { hasSoundHttp2 } from '../../../src/api/index.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { beginCall, chainOf, counted, eventually, openSession, openSocket } from '../../support/index.js';
import { refusalOf, scraped, servedOverGrpc, smallChain, transactionWith } from '../../support/index.js';
import { VirtualClock, type GrpcProbe } from '../../support/index.js';
import { waitingStore } from '../../support/waitingStore.js';

const ACCESS = '/flow.access.AccessAPI';
const MAX_CONNECTIONS = 16;
const options = { maxConnections: MAX_CONNECTIONS };

async function listening(parts?: Parameters<typeof servedOverGrpc>[1], chain: readonly BlockEntry[] = []) {
  const served = await servedOverGrpc(chain, parts);
  return { ...served, probe: served.probe() };
}

/** With one collection of 100 kB, its id, and one who asks for it and takes nothing. */
const large = smallChain(1, [[[transactionWith({ script: Buffer.alloc(100_000, 'x') })]]]);
const id = Buffer.from(large[0]!.collections[0]!.id, 'hex');
async function deafTo(port: number): Promise<ClientHttp2Session> {
  const deaf = await openSession(port, { initialWindowSize: 0 });
  const untaken = request(deaf, 'GetFullCollectionByID', Buffer.concat([Buffer.from([0x0a, id.length]), id]));
  expect(await headersOf(untaken)).not.toHaveProperty('grpc-status');
  return deaf;
}

function request(session: ClientHttp2Session, method: string, message: Buffer): ClientHttp2Stream {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return beginCall(session, `${ACCESS}/${method}`).end(Buffer.concat([prefix, message]));
}

async function callingWithoutEnd(port: number) {
  const session = await openSession(port);
  const stream = beginCall(session, `${ACCESS}/GetTransaction`);
  stream.write(Buffer.from([0, 0]));
  // Whatever the server has heard of the ping's sender, it has heard of the call before.
  await pinged(session);
  return { session, stream };
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer =>
  Buffer.concat([Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream]), payload]);
const SETTINGS = frame(4, 0, 0, Buffer.alloc(0));
/** The head of a frame that is larger than any may be. */
const TOO_LARGE = Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]);

const measured = (text: string): string => `${String.fromCharCode(text.length)}${text}`;

function headersFrame(path: string): Buffer {
  const fields = Object.entries({
    ...{ ':method': 'POST', ':scheme': 'http', ':path': path, ':authority': 'x' },
    ...{ 'content-type': 'application/grpc', te: 'trailers' },
  });
  // Each name has a byte before it that says: a literal, not to be remembered.
  const literals = fields.map(([name, value]) => `\0${measured(name)}${measured(value)}`);
  return frame(1, 0x4, 1, Buffer.from(literals.join('')));
}

/** Its request: an empty message, and the end of what the caller sends. */
const dataFrame = (): Buffer => frame(0, 0x1, 1, Buffer.alloc(5));

const headersOf = async (stream: ClientHttp2Stream) =>
  (await once(stream, 'response'))[0] as IncomingHttpHeaders;

const opened = async (port: number): Promise<Socket> => (await openSocket(port)).resume();
const closed = (socket: ClientHttp2Session | Socket) => once(socket, 'close');

/** All but the first give a sign of life: then a further call is answered in its place, and the others stay. */
async function insistSilentGivesWay(
  [silent, ...others]: readonly ClientHttp2Session[],
  clock: VirtualClock,
  probe: GrpcProbe,
): Promise<void> {
  await clock.advance(4_000);
  for (const session of others) await pinged(session);
  const silentEnds = closed(silent!);
  await clock.advance(4_000);
  await probe.call('Ping');
  await silentEnds;
  expect(others.filter(({ closed: isClosed }) => isClosed)).toEqual([]);
}

describe('bounds', () => {
  it('a connection carries a hundred calls at once, and 512 may be open', async () => {
    const { metrics, port } = await listening();
    expect((await openSession(port)).remoteSettings.maxConcurrentStreams).toBe(100);
    expect((await scraped(metrics)).value('connections_limit', { port: 'grpc' })).toBe(512);
  });

  describe('when all connections that may be open are taken', () => {
    it('the one that has rested longest makes room for a new one', async () => {
      const { metrics, port, probe } = await listening(options);
      const { session: busy } = await callingWithoutEnd(port);
      const sockets: Socket[] = [];
      for (let count = 1; count < MAX_CONNECTIONS; count += 1) sockets.push(await opened(port));
      const [first, second] = sockets;
      const firstEnds = closed(first!);
      await probe.call('Ping');
      await firstEnds;
      expect(second!.destroyed).toBe(false);
      await pinged(busy);
      const now = await scraped(metrics);
      expect(now.value('connections', { port: 'grpc' })).toBe(MAX_CONNECTIONS);
      expect(now.value('connections_cut_total', { port: 'grpc', reason: 'make_room' })).toBe(1);
    });

    it('a new one is turned away while all are at work, and takes the place of one that has fallen silent', async () => {
      const clock = new VirtualClock();
      const { metrics, port, probe } = await listening({ clock, ...options });
      const sessions: ClientHttp2Session[] = [];
      while (sessions.length < MAX_CONNECTIONS) sessions.push((await callingWithoutEnd(port)).session);
      await closed(await opened(port));
      await insistSilentGivesWay(sessions, clock, probe);
      expect(await counted(metrics, 'connections_cut_total', { port: 'grpc', reason: 'no_room' })).toBe(1);
    });

    // Node.js stops to read where a rule of HTTP/2 was broken, and so never learns that the caller has hung up.
    it.each([
      ['without a call', []],
      ['with an open stream', [headersFrame('/grpc.health.v1.Health/Watch'), dataFrame()]],
    ])('callers that broke the protocol and left, %s, keep nobody out', async (_, frames) => {
      const clock = new VirtualClock();
      const { server, port, probe } = await listening({ clock, ...options });
      for (let count = 0; count < MAX_CONNECTIONS + 50; count += 1) {
        const socket = await opened(port);
        const told = once(socket, 'data');
        socket.write(Buffer.concat([PREFACE, SETTINGS, ...frames, TOO_LARGE]));
        await told;
        socket.destroy();
        await clock.advance(500);
      }
      await probe.call('Ping');
      // What is left of them does not go by itself.
      const closing = server.close();
      await clock.advance(2_000);
      await closing;
    });
  });

  it('a call too many is refused, or takes the place of a connection whose calls have fallen silent', async () => {
    const clock = new VirtualClock();
    const { port, probe } = await listening({ clock });
    const begun = Array.from({ length: 20 }, async () => {
      const session = await openSession(port);
      for (let count = 0; count < 100; count += 1) beginCall(session, '/flow.access.AccessAPI/Ping');
      await pinged(session);
      return session;
    });
    const sessions = await Promise.all(begun);
    await expect(probe.call('Ping')).rejects.toThrow('at most 2000 calls may be in progress at once');
    await insistSilentGivesWay(sessions, clock, probe);
  });

  it('a request that does not come to an end is given up', async () => {
    const clock = new VirtualClock();
    const { port } = await listening({ clock });
    const { session, stream } = await callingWithoutEnd(port);
    let headers: IncomingHttpHeaders | undefined;
    const told = headersOf(stream).then((received) => (headers = received));
    await clock.advance(110_000);
    await pinged(session);
    expect(headers).toBeUndefined();
    await clock.advance(20_000);
    expect(await told).toMatchObject({ 'grpc-status': '4', reason: 'overdue' });
    // The connection is none the worse for it.
    await clock.advance(20_000);
    await pinged(session);
  });

  it('an answer that is not taken is given up, with its connection', async () => {
    const clock = new VirtualClock();
    const { port } = await listening({ clock }, large);
    const deaf = await deafTo(port);
    await clock.standStill(600_000);
    await clock.advance(109_000);
    await pinged(deaf);
    const cut = closed(deaf);
    await clock.advance(20_000);
    await cut;
  });

  it('pings are answered, but not without end', async () => {
    const clock = new VirtualClock();
    const { port } = await listening({ clock });
    const session = await openSession(port);
    for (let ping = 0; ping < 1_000; ping += 1) await pinged(session);
    await clock.advance(10_000);
    await pinged(session);
    for (let ping = 0; ping < 5_000; ping += 1) await pinged(session);
    const cut = closed(session);
    await clock.advance(10_000);
    await cut;
  });

  it('large answers that nobody takes are bounded, and free again when their callers go', async () => {
    const { port, probe } = await listening({ maxHeldBytes: 150_000 }, large);
    const deaf = await deafTo(port);
    expect(await refusalOf(probe.call('GetFullCollectionByID', { id }))).toEqual({
      ...{ code: 'RESOURCE_EXHAUSTED', metadata: { reason: 'busy' } },
      details: 'too many large responses wait for their callers to take them; retry',
    });
    await probe.call('GetCollectionByID', { id });

    deaf.destroy();
    // The server notices in its own time.
    await eventually(() => probe.call('GetFullCollectionByID', { id }).catch(() => undefined));
  });
});

it('a stream whose caller has left before it begins holds nothing', async () => {
  const scripts = [transactionWith({ script: Buffer.alloc(200_000, 'x') })];
  const { feed, probe } = await listening({ maxHeldBytes: 250_000 }, smallChain(1, [[scripts], [scripts]]));
  const start = { start_height: 1, end_height: 1 };
  const api = 'flow_collection_indexer.v1.IndexAPI';
  // The first one has the block read, so that the second gets it from the cache.
  await probe.follow('SubscribeIndexedBlocks', start, api).finished();
  const asked: (() => void)[] = [];
  const cursorAt = feed.cursorAt.bind(feed);
  feed.cursorAt = async (...start) => {
    const cursor = await cursorAt(...start);
    await new Promise<void>((resolve) => asked.push(resolve));
    return cursor;
  };
  const gone = probe.follow('SubscribeIndexedBlocks', start, api);
  const ended = refusalOf(gone.ended());
  while (asked.length === 0) await probe.call('Ping');
  gone.stream.cancel();
  await ended;
  await probe.call('Ping');
  asked[0]?.();
  while (feed.followers > 0) await probe.call('Ping');
  feed.cursorAt = cursorAt;
  await probe.follow('SubscribeIndexedBlocks', { ...start, end_height: 2 }, api).finished();
});

const blocks = chainOf(100, 20, () => []);
const follow = (session: ClientHttp2Session) =>
  request(session, 'SubscribeBlocksFromStartHeight', Buffer.from([0x08, 100, 0x10, 1]));

it('a stream leaves its caller as many pings as it needs to measure its way', async () => {
  const [large] = smallChain(100, [Array.from({ length: 3_000 }, () => [])]);
  const clock = new VirtualClock();
  const { index, port, probe } = await listening({ clock }, blocks);
  const stored = { block: large!.block, transactionCounts: [] };
  index.store.blockByHeight = () => Promise.resolve(stored);
  const session = await openSession(port);
  let taken = 0;
  follow(session).on('data', (chunk: Buffer) => (taken += chunk.length));
  while (taken < 20 * large!.block.encoded.length) await clock.settle();
  // More than a call may bring along where nothing is sent.
  for (let count = 0; count < 13_000; count += 10)
    await Promise.all(Array.from({ length: 10 }, () => pinged(session)));
  await clock.advance(10_000);
  await probe.call('Ping');
  await pinged(session);
  expect(session.destroyed).toBe(false);
});

it('a stream of a caller who takes nothing is cut, with its connection', async () => {
  const clock = new VirtualClock();
  const { feed, port } = await servedOverGrpc(blocks, { clock });
  // It waits for the chain, which is nobody's fault.
  follow(await openSession(port)).resume();
  const session = await openSession(port, { initialWindowSize: 0 });
  follow(session);
  while (feed.followers < 2) await clock.turn();
  await clock.settle();
  await clock.standStill(3_600_000);
  await clock.advance(29_000);
  expect(feed.followers).toBe(2);
  const cut = closed(session);
  await clock.advance(6_000);
  expect(feed.followers).toBe(1);
  await clock.advance(20_000);
  await cut;
});

it('a server that ends answers what is under way, and takes nothing more', async () => {
  const { index, server, probe } = await listening({ clock: new VirtualClock() });
  const { reading, answer } = waitingStore(index.store);
  const underWay = refusalOf(probe.call('GetTransaction', { id: Buffer.alloc(32, 1) }));
  await reading;
  const closing = server.close();
  expect(await refusalOf(probe.call('Ping'))).toMatchObject({ code: 'UNAVAILABLE' });
  answer();
  expect(await underWay).toMatchObject({ code: 'NOT_FOUND' });
  await closing;
});

/** Resolves when the other end has answered a ping: it has read all that was sent before. */
function pinged(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve, reject) => {
    session.ping((error) => (error === null ? resolve() : reject(error)));
  });
}

it('knows the lines of Node.js that a caller of the port can abort', () => {
  const versions = ['v20.20.2', 'v22.23.3', 'v24.21.0', 'v26.8.1'];
  expect(versions.map(hasSoundHttp2)).toEqual([true, false, true, false]);
});
