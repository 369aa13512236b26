import dns from 'node:dns';
import { once } from 'node:events';
import { expect, it, vi } from 'vitest';
import { atEnd, eventually, openSocket, RestNode } from '../../support/index.js';
import { ServedChain, smallChain, tcpServer } from '../../support/index.js';
import { transactionWith, until, VirtualClock, WsClient } from '../../support/index.js';

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const CONNECT_LIMIT_MS = 5_000;
const SILENCE_LIMIT_MS = 60_000;

/** A server that forwards to a node, whose limits pass when the test says so: the connections are real ones. */
async function limitedTo(forwardRest: string, options: { readonly connectionTimeoutMs?: number } = {}) {
  const clock = new VirtualClock();
  const daemon = await ServedChain.start(chain, { sealed: 102 }, { forwardRest, clock, ...options });
  const ask = (path: string, method = 'GET') =>
    watched(fetch(daemon.url + path, { method, ...(method === 'POST' && { body: '{}' }) }));
  return { clock, daemon, ask };
}

/** The same, before a node that hears and says nothing. */
async function limitedToSilence(options?: { readonly connectionTimeoutMs?: number }) {
  const node = await RestNode.start(() => undefined);
  return { node, ...(await limitedTo(node.url, options)) };
}

function watched(answer: Promise<Response>) {
  const refusal = async () => [(await answer).status, (await (await answer).json()) as object] as const;
  const asked = { answer, refusal, isOver: false };
  const over = (): void => void (asked.isOver = true);
  answer.then(over, over);
  return asked;
}

it('ends where no connection to the node comes about, encryption included', async () => {
  let heard = 0;
  const mute = await tcpServer((socket) => void socket.once('data', () => (heard += 1)));
  const limited = await limitedTo(`https://127.0.0.1:${mute}`);
  for (const [before, method] of ['GET', 'POST'].entries()) {
    const asked = limited.ask('/v1/scripts', method);
    await until(() => heard > before);
    await limited.clock.advance(CONNECT_LIMIT_MS - 1);
    expect(asked.isOver).toBe(false);
    await limited.clock.advance(1);
    expect((await asked.answer).headers.get('retry-after')).not.toBeNull();
    expect(await asked.refusal()).toMatchObject([503, { code: 503, reason: 'upstream_unreachable' }]);
  }
});

it.each(['GET', 'POST'])('ends where the node has the request (%s) and says nothing', async (method) => {
  const { node, ...limited } = await limitedToSilence();
  const asked = limited.ask('/v1/scripts', method);
  await until(() => node.seen.length === 1);
  await limited.clock.advance(SILENCE_LIMIT_MS - 1);
  expect((await limited.daemon.get('/v1/blocks?height=100')).status).toBe(200);
  expect(asked.isOver).toBe(false);
  await limited.clock.advance(1);
  const message = expect.stringContaining('silent for 60 s') as string;
  expect(await asked.refusal()).toMatchObject([504, { reason: 'overdue', message }]);
});

it('is not spent for good on an address of the name behind which nothing answers', async () => {
  const addresses = ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 }));
  const lookedUp = dns.lookup as (...asked: unknown[]) => unknown;
  const found = (...asked: readonly unknown[]): void => {
    if (asked[0] !== 'two.test') lookedUp(...asked);
    else (asked.at(-1) as (error: null, found: object) => void)(null, addresses);
  };
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(found);
  atEnd(() => lookup.mockRestore());
  const node = await RestNode.start();
  node.speak('/v1/ws', (socket) => socket.send('{"subscription_id":"of the node"}'));
  let heard = 0;
  await tcpServer((socket) => void socket.once('data', () => (heard += 1)), {
    host: '127.0.0.2',
    port: node.port,
  });
  const { ask, clock, daemon } = await limitedTo(`http://two.test:${node.port}`);

  for (const before of [0, 1]) {
    const asked = ask('/v1/scripts');
    await until(() => heard > before);
    await clock.advance(SILENCE_LIMIT_MS);
    expect((await asked.answer).status).toBe(504);
  }
  const client = await WsClient.open(daemon.url);
  client.subscribe('a', 'events');
  await until(() => heard > 2);
  await clock.advance(1_000);
  expect(await client.next()).toMatchObject({ error: { code: 503 } });

  expect(await (await ask('/v1/scripts').answer).text()).toBe('of the node');
  client.subscribe('b', 'events');
  expect(await client.next()).toMatchObject({ subscription_id: 'of the node' });
});

it('tells the refusal of the index, where it has one, when the node says nothing', async () => {
  const { node, ...limited } = await limitedToSilence();
  const asked = limited.ask('/v1/blocks?height=500');
  await until(() => node.seen.length === 1);
  await limited.clock.advance(SILENCE_LIMIT_MS);
  expect(await asked.refusal()).toMatchObject([404, { reason: 'not_yet_indexed' }]);
});

it('is as long as the answer comes, and ends when no more of it comes', async () => {
  let write = (_text: string): void => undefined;
  const node = await RestNode.start((_request, response) => {
    write = (text) => void response.write(text);
    write('0');
  });
  const limited = await limitedTo(node.url);
  const answer = await limited.ask('/v1/events?type=x').answer;
  const reader = answer.body!.getReader();
  const next = async (): Promise<string> => Buffer.from((await reader.read()).value ?? []).toString();
  expect(await next()).toBe('0');
  for (const part of ['1', '2', '3', '4']) {
    await limited.clock.advance(SILENCE_LIMIT_MS - 1);
    write(part);
    expect(await next()).toBe(part);
  }
  await limited.clock.advance(SILENCE_LIMIT_MS);
  await expect(next()).rejects.toThrow();
});

it('leaves no timer behind', async () => {
  const node = await RestNode.start();
  const limited = await limitedTo(node.url);
  const before = limited.clock.pendingTimers;
  for (let left = 3; left > 0; left -= 1)
    expect(await (await limited.ask('/v1/accounts/1').answer).text()).toBe('of the node');
  await node.stop();
  expect((await limited.ask('/v1/accounts/1').answer).status).toBe(503);
  await until(() => limited.clock.pendingTimers === before);
});

it("is the node's, and not that of a connection on which nothing moves", async () => {
  const { node, ...limited } = await limitedToSilence({ connectionTimeoutMs: 1_000 });
  // Where the machine is too slow to get the request there in time, once more.
  const asked = await eventually(async () => {
    const before = node.seen.length;
    const attempt = limited.ask('/v1/accounts/1');
    await until(() => node.seen.length > before || attempt.isOver);
    return attempt.isOver ? undefined : attempt;
  });
  // A connection that is younger and on which nobody waits is cut.
  await once((await openSocket(limited.daemon.port)).resume(), 'close');
  expect(asked.isOver).toBe(false);
  await limited.clock.advance(SILENCE_LIMIT_MS);
  expect(await asked.refusal()).toMatchObject([504, { reason: 'overdue' }]);
});
