import { once } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { atEnd, branchAbove, chainOf, counted, openSocket, RestNode, sendRaw } from '../../support/index.js';
import { ServedChain, transactionWith, until, VirtualClock, WsClient } from '../../support/index.js';
import type { WsMessage } from '../../support/index.js';
import { streamTopics } from '../../support/streamedTopics.js';

const FIRST = 100;
const chain = chainOf(FIRST, 40, () => [[transactionWith({ gasLimit: 1n })]]);
const there = chain.slice(0, 20);
const coming = chain.slice(20);
const heads = { sealed: 115, head: 130 };
const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
const finalized = { block_status: 'finalized' };
const startingAt = (height: number) => ({ ...finalized, start_block_height: String(height) });
const idAt = (height: number): string => chain[height - FIRST]!.block.id;

let served: ServedChain;

beforeEach(async () => {
  served = await ServedChain.start(there, heads);
});

const heightOf = ({ payload }: WsMessage): number => {
  const { header, height } = payload as { header?: { height: string }; height?: string };
  return Number(header?.height ?? height);
};
const heightsOf = (messages: readonly WsMessage[]): number[] => messages.map(heightOf);

it('the topic blocks gives what /v1/blocks does, with the status that was subscribed to, as access nodes do; from a height, a block by its id, or the sealed head where nothing is said', async () => {
  const client = await WsClient.open(served.url);
  client.subscribe('mine', 'blocks', startingAt(114));
  const [answer, first, ...blocks] = await client.first(7);
  expect(answer).toEqual({ subscription_id: 'mine', action: 'subscribe' });
  const { body } = await served.get('/v1/blocks?height=118&expand=payload');
  const [block] = body as readonly [{ readonly header: object }];
  expect(blocks[3]).toEqual({ subscription_id: 'mine', topic: 'blocks', payload: block });
  client.subscribe('h', 'block_headers', startingAt(118));
  const headers = (await client.first(10)).slice(8);
  expect(headers[0]).toMatchObject({ topic: 'block_headers', payload: { ...block.header, proven: false } });
  expect(first!.payload).toMatchObject({ block_status: 'BLOCK_FINALIZED' });
  client.subscribe('a', 'blocks', { ...finalized, start_block_id: idAt(118) });
  expect(heightsOf((await client.first(13)).slice(11))).toEqual([118, 119]);
  client.subscribe('s', 'blocks', { block_status: 'sealed' });
  const [, sealed] = (await client.first(15)).slice(13);
  expect(sealed!.payload).toMatchObject({ header: { height: '115' }, block_status: 'BLOCK_SEALED' });
});

it('the topic blocks may be subscribed to again, on the connection on which it ended', async () => {
  const client = await WsClient.open(served.url);
  client.subscribe('mine', 'blocks', startingAt(118));
  await client.first(3);
  await served.rewind(117, branchAbove(117, 3));
  const rewound = { code: 409, message: expect.stringContaining('the index was rewound') as string };
  expect((await client.first(4))[3]).toMatchObject({ subscription_id: 'mine', error: rewound });
  client.subscribe('mine', 'blocks', startingAt(118));
  expect(heightsOf((await client.first(8)).slice(5))).toEqual([118, 119, 120]);
});

it('the topic block_digests gives id, height and time, and takes what the transport of @onflow/sdk resumes with', async () => {
  // A base address may end with a slash.
  const client = await WsClient.open(`${served.url}/`);
  client.subscribe('d', 'block_digests', { ...finalized, start_block_height: 118 });
  client.subscribe('e', 'block_digests', { ...finalized, start_block_id: '119' });
  const messages = await client.first(5);
  const of = (id: string) => messages.filter(({ topic, subscription_id }) => topic && subscription_id === id);
  expect(of('d')[0]).toEqual({
    subscription_id: 'd',
    topic: 'block_digests',
    payload: { block_id: idAt(118), height: '118', timestamp: '2026-01-01T00:00:00.12Z', proven: false },
  });
  expect([heightsOf(of('d')), heightsOf(of('e'))]).toEqual([[118, 119], [119]]);
});

describe('the protocol', () => {
  it('lists subscriptions, ends them, and names those that the client did not', async () => {
    const client = await WsClient.open(served.url);
    const args = startingAt(121);
    client.subscribe('mine', 'blocks', args);
    client.send({ action: 'subscribe', topic: 'block_digests', arguments: args });
    client.send({ action: 'list_subscriptions' });
    const [, unnamed, listed] = await client.first(3);
    const id = unnamed!.subscription_id!;
    expect(listed).toEqual({
      action: 'list_subscriptions',
      subscriptions: [
        { subscription_id: 'mine', topic: 'blocks', arguments: args },
        { subscription_id: id, topic: 'block_digests', arguments: args },
      ],
    });
    expect(served.feed.followers).toBe(2);
    client.send({ action: 'unsubscribe', subscription_id: 'mine' });
    client.send({ action: 'unsubscribe', subscription_id: 'mine' });
    const [done, unknown] = (await client.first(5)).slice(3);
    const ended = { subscription_id: 'mine', action: 'unsubscribe' };
    expect(done).toEqual(ended);
    expect(unknown).toEqual({ ...ended, error: { code: 404, message: 'subscription not found' } });
    expect(served.feed.followers).toBe(1);
    client.socket.close();
    await until(() => served.feed.followers === 0);
  });

  const subscribe = (rest: object) => ({ action: 'subscribe', ...rest });
  const blocks = (args: object, code: number, text: RegExp): [object, number, RegExp, object] => {
    return [subscribe({ topic: 'blocks', arguments: args }), code, text, { action: 'subscribe' }];
  };

  const ofA = { subscription_id: 'a', action: 'subscribe' };
  const notHere = /error creating data provider: unsupported topic "events".*set its api\.forwardRest/;

  it.each<[object | string, number, RegExp, object?]>([
    ['{', 400, /^error reading message/],
    ['[]', 400, /^error parsing message/],
    [{ action: 'dance' }, 400, /unknown action type: "dance"/],
    [subscribe({ subscription_id: 7, topic: 'blocks' }), 400, /subscription_id/],
    [subscribe({ subscription_id: 'x'.repeat(21), topic: 'blocks' }), 400, /error parsing subscription id/],
    [subscribe({ subscription_id: 'a' }), 400, /topic/, { subscription_id: 'a' }],
    [subscribe({ subscription_id: 'a', topic: 'events' }), 400, notHere, ofA],
    blocks({}, 400, /block_status/),
    blocks({ block_status: 'final' }, 400, /block_status/),
    blocks({ ...finalized, start_block_id: 'ab', start_block_height: '1' }, 400, /only provide either/),
    blocks({ ...finalized, start_block_height: 'x' }, 400, /start_block_height/),
    blocks({ ...finalized, start_block_height: {} }, 400, /start_block_height/),
    blocks({ ...finalized, start_block_id: 'x' }, 400, /block ID/),
    blocks({ ...finalized, more: 1 }, 400, /unexpected field: "more"/),
    blocks(startingAt(99), 404, /height 99 is below the first indexed height 100/),
    blocks({ ...finalized, start_block_id: 'ab'.repeat(32) }, 404, /no such block/),
    [{ action: 'unsubscribe' }, 400, /error parsing subscription id/],
  ])('refuses %j, and goes on', async (message, code, text, also = {}) => {
    const client = await WsClient.open(served.url);
    client.send(message);
    const { error, ...rest } = await client.next();
    expect(error).toMatchObject({ code, message: expect.stringMatching(text) as string });
    expect(rest).toMatchObject(also);
    client.send({ action: 'list_subscriptions' });
    expect(await client.next()).toEqual({ action: 'list_subscriptions', subscriptions: [] });
  });

  it('takes an id once, and twenty subscriptions', async () => {
    const client = await WsClient.open(served.url);
    const ids = Array.from({ length: 20 }, (_, index) => `${index}`);
    for (const id of [...ids, '3', '20']) client.subscribe(id, 'blocks', startingAt(121));
    expect((await client.first(22)).slice(20)).toMatchObject([
      { subscription_id: '3', error: { code: 400 } },
      { subscription_id: '20', error: { code: 429 } },
    ]);
    expect(served.feed.followers).toBe(20);
  });

  it('is not spoken where nobody asks for it, and other upgrades are not refused', async () => {
    expect(await served.get('/v1/ws')).toMatchObject({ status: 400, body: { reason: 'bad_request' } });
    // As Java's HTTP client asks for HTTP/2, and a further request on the same connection.
    const asking = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n';
    const first = `GET /v1/network/parameters HTTP/1.1\r\nHost: a\r\n${asking}\r\n`;
    const second = 'GET /v1/blocks?height=101 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
    const said = await sendRaw(served.port, first + second);
    expect(said.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(2);
    expect(said).toContain('"chain_id":"flow-localnet"');
    expect(said).toContain('"height":"101"');
    const elsewhere = await sendRaw(served.port, `GET /nowhere HTTP/1.0\r\n${UPGRADE}\r\n`);
    expect(elsewhere).toContain('404 Not Found');
  });

  it('leaves nothing behind on a connection that asks for another protocol with every request', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on('warning', note);
    atEnd(() => void process.off('warning', note));
    const socket = await openSocket(served.port);
    let said = '';
    socket.on('data', (chunk) => (said += String(chunk)));
    const asking = 'Host: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n';
    // More than a connection may have listeners for one event.
    for (let count = 1; count <= 40; count += 1) {
      socket.write(`GET /v1/network/parameters HTTP/1.1\r\n${asking}`);
      while (said.split('"chain_id"').length <= count) await once(socket, 'data');
    }
    expect(warnings).toEqual([]);
  });

  const odd = 'Expect: everything\r\n';

  it.each([
    ['is answered', '', '200 OK'],
    ['expects what nobody knows', odd, '417 Expectation Failed'],
    ['asks for another protocol', `${odd}Connection: Upgrade\r\nUpgrade: h2c\r\n`, '417 Expectation Failed'],
  ])('behind a request that %s: that one is answered, and the connection closed', async (_, more, status) => {
    const first = `GET /v1/blocks?height=101 HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
    const said = await sendRaw(served.port, `${first}GET /v1/ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`);
    expect(said.match(/HTTP\/1\.1 [^\r]*/g)).toEqual([`HTTP/1.1 ${status}`]);
  });
});

it('a client that breaks off while the request in front of its upgrade is served takes nothing down with it', async () => {
  const socket = await openSocket(served.port);
  socket.write('GET /events?from=100 HTTP/1.1\r\nHost: a\r\n\r\n');
  socket.write(`GET /v1/ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`);
  await until(() => served.feed.followers === 1);
  socket.resetAndDestroy();
  // An error that nobody listens for fails the run.
  await until(() => served.feed.followers === 0);
});

it('bounds: no more than a hundred connections, and messages of some length, of text or of bytes', async () => {
  const clients = await Promise.all(Array.from({ length: 100 }, () => WsClient.open(served.url)));
  // Not by the handshake: FCL in Node.js would take its process down with it.
  const further = await WsClient.open(served.url);
  expect(await further.closed).toEqual({ code: 1013, reason: 'at most 100 connections at once' });
  clients[0]!.socket.close();
  await clients[0]!.closed;
  const again = await WsClient.open(served.url);
  again.socket.send(Buffer.from('{"action":"list_subscriptions"}'));
  expect(await again.next()).toMatchObject({ subscriptions: [] });
  again.send('x'.repeat(16 * 1024 + 1));
  expect(await again.closed).toMatchObject({ code: 1009 });
});

it('bounds: messages count as requests of their address', async () => {
  const clock = new VirtualClock();
  const served = await ServedChain.start(there, heads, { clock, ratePerSecondPerAddress: 3 });
  const client = await WsClient.open(served.url);
  for (let each = 0; each < 3; each += 1) client.send({ action: 'list_subscriptions' });
  const errors = (await client.first(3)).map(({ error }) => error?.code);
  expect(errors).toEqual([undefined, undefined, 429]);
  const further = await WsClient.open(served.url);
  expect(await further.closed).toMatchObject({ code: 1013 });
});

it('bounds: who takes nothing is cut, and so is who does not answer, or wants nothing', async () => {
  const clock = new VirtualClock();
  const served = await ServedChain.start(there, heads, { clock });
  const idle = await WsClient.open(served.url);
  const mute = await WsClient.open(served.url);
  mute.subscribe('a', 'blocks', startingAt(121));
  await mute.next();
  mute.socket.pause();
  const waiting = await WsClient.open(served.url);
  let letGo = (): void => undefined;
  const nothing = new Promise<undefined>((resolve) => (letGo = () => resolve(undefined)));
  served.store.blockById = () => nothing;
  // What the server does not read of a connection keeps it open.
  atEnd(letGo);
  waiting.subscribe('a', 'blocks', { ...finalized, start_block_id: idAt(101) });
  const lively = await WsClient.open(served.url);
  lively.subscribe('a', 'blocks', startingAt(121));
  await lively.next();
  for (let look = 0; look < 3; look += 1) {
    const [answered, both] = [once(lively.socket, 'ping'), once(idle.socket, 'ping')];
    await clock.advance(20_000);
    await answered;
    if (look < 2) await both;
    // The answers to the pings are here by the time that further ones are.
    lively.send({ action: 'list_subscriptions' });
    await lively.next();
  }
  expect(await idle.closed).toMatchObject({ code: 1000, reason: 'no subscription for 60 s' });
  await until(() => served.feed.followers === 1);
  for (const { socket } of [lively, waiting]) expect(socket.readyState).toBe(socket.OPEN);
});

it('bounds: who takes what is sent, but slowly, stays', async () => {
  const clock = new VirtualClock();
  const large = chainOf(FIRST, 8, () => Array.from({ length: 2_000 }, () => []));
  const served = await ServedChain.start(large, { sealed: null }, { clock });
  const client = await WsClient.open(served.url);
  // So much is always left to send that nothing is read of the client.
  for (const id of 'abcde') client.subscribe(id, 'blocks', startingAt(FIRST));
  for (const look of [1, 2]) {
    await client.first(9 * look);
    client.socket.pause();
    await clock.advance(20_000);
    client.socket.resume();
  }
  await client.first(45);
});

it('bounds: a daemon that stops says goodbye, also where nothing is subscribed to', async () => {
  const idle = await WsClient.open(served.url);
  await served.stop();
  expect(await idle.closed).toEqual({ code: 1001, reason: 'the daemon is stopping' });
});

describe('forwarding', () => {
  async function forwarding(base = '') {
    const node = await RestNode.start();
    const streamed = streamTopics(node, `${base}/v1/ws`);
    const options = { forwardRest: node.url + base, corsOrigins: ['*'] };
    const served = await ServedChain.start(there, heads, options);
    const outcome = (topic: string, how: string) =>
      counted(served.metrics, 'forwarded_calls_total', { method: `WS ${topic}`, outcome: how });
    return { node, served, outcome, ...streamed };
  }

  it('passes other topics on, and back what comes, beside the own ones', async () => {
    const { served, asked, headers, outcome } = await forwarding('/base');
    const client = await WsClient.open(served.url, { authorization: 'Bearer x', origin: 'http://page' });
    const args = { tx_id: 'ab'.repeat(32) };
    client.subscribe('t', 'transaction_statuses', args);
    const [done, ...statuses] = await client.first(5);
    expect(done).toEqual({ subscription_id: 't', action: 'subscribe' });
    expect(statuses.map(({ payload }) => payload)).toMatchObject(
      ['Pending', 'Finalized', 'Executed', 'Sealed'].map((status) => ({ transaction_result: { status } })),
    );
    expect(asked).toEqual([{ ...done, topic: 'transaction_statuses', arguments: args }]);
    expect(headers[0]).toMatchObject({ authorization: 'Bearer x', via: '1.1 flow-collection-indexer' });
    expect(headers[0]).not.toHaveProperty('origin');
    client.subscribe('b', 'blocks', startingAt(119));
    client.send({ action: 'list_subscriptions' });
    const more = (await client.first(8)).slice(5);
    // The node has forgotten a transaction with its last status.
    expect(more.find(({ action }) => action === 'list_subscriptions')?.subscriptions).toHaveLength(1);
    expect(await outcome('transaction_statuses', 'answered')).toBe(1);
    client.subscribe('t', 'events');
    await client.first(10);
    client.send({ action: 'unsubscribe', subscription_id: 't' });
    expect((await client.first(11)).at(-1)).toEqual({ subscription_id: 't', action: 'unsubscribe' });
    expect(asked.at(-1)).toEqual({ subscription_id: 't', action: 'unsubscribe' });
    expect(await outcome('events', 'cancelled')).toBe(1);
    expect(asked).toHaveLength(3);
  });

  it('passes the node’s refusals on, after which the id is free', async () => {
    const { served, outcome } = await forwarding();
    const client = await WsClient.open(served.url);
    for (const _ of [1, 2]) {
      client.subscribe('x', 'account_statuses');
      const error = { code: 400, message: expect.stringContaining('unsupported') as string };
      expect(await client.next()).toMatchObject({ subscription_id: 'x', error });
    }
    expect(await outcome('account_statuses', 'failed')).toBe(2);
  });

  it('keeps no long arguments, and refuses those of very many parts', async () => {
    const { asked, served } = await forwarding();
    const client = await WsClient.open(served.url);
    const long = { x: 'x'.repeat(100_000) };
    client.subscribe('long', 'events', long);
    await client.first(2);
    client.subscribe('many', 'events', { x: Array.from({ length: 998 }, () => ({})) });
    client.send({ action: 'list_subscriptions' });
    const [refused, { subscriptions } = {}] = (await client.first(4)).slice(2);
    expect(refused!.error!.message).toContain('1000 objects and lists');
    expect(subscriptions).toEqual([{ subscription_id: 'long', topic: 'events', arguments: {} }]);
    expect(asked).toMatchObject([{ arguments: long }]);
  });

  it('says that the node is out of reach, and closes when it goes, so that clients come back', async () => {
    const { node, served, outcome } = await forwarding();
    const client = await WsClient.open(served.url);
    const alone = await WsClient.open(served.url);
    client.subscribe('e', 'events');
    await client.first(2);
    alone.subscribe('b', 'blocks', startingAt(121));
    await alone.next();
    await node.stop();
    expect(await client.closed).toMatchObject({ code: 1012 });
    expect(await outcome('events', 'lost')).toBe(1);
    alone.subscribe('e', 'events');
    const subscribed = { subscription_id: 'e', action: 'subscribe' };
    expect(await alone.next()).toMatchObject({ ...subscribed, error: { code: 503 } });
    expect(await outcome('events', 'unreachable')).toBe(1);
    await served.commit(coming.slice(0, 2));
    expect(heightOf(await alone.next())).toBe(121);
    await node.listen();
    alone.subscribe('e', 'events');
    expect(await alone.next()).toEqual(subscribed);
  });

  it('reads no more of the node than the client takes', async () => {
    const { served, sockets } = await forwarding();
    const client = await WsClient.open(served.url);
    client.subscribe('e', 'events');
    await client.first(2);
    client.socket.pause();
    const [socket] = sockets;
    const text = JSON.stringify({ subscription_id: 'e', topic: 'events', payload: 'x'.repeat(1024 * 1024) });
    // Far more than the buffers of three sockets hold.
    for (let each = 0; each < 64; each += 1) socket!.send(text);
    let before = -1;
    await until(() => {
      const left = socket!.bufferedAmount;
      const isStill = left === before && left > 0;
      before = left;
      return isStill;
    });
    expect(socket!.bufferedAmount).toBeGreaterThan(16 * 1024 * 1024);
    client.socket.resume();
    await client.first(66);
    expect(socket!.bufferedAmount).toBe(0);
  });
});
