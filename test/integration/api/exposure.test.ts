import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { ApiServerOptions } from '../../../src/api/rest/apiServer.js';
import { systemClock, type Clock } from '../../../src/runtime/index.js';
import { atEnd, metricsServerOver, openSocket, scraped, sendRaw, ServedChain } from '../../support/index.js';
import { until, VirtualClock } from '../../support/index.js';

const startedApi = (parts?: Parameters<typeof ServedChain.start>[2]) =>
  ServedChain.start([], { sealed: null }, parts);

/** The port of a metrics server whose page is as large as wanted, until the end of the test. */
async function pageServer(page: string, clock: Clock, options: Partial<ApiServerOptions> = {}) {
  const { server, failures } = metricsServerOver({ ...options, clock, page });
  await server.start();
  atEnd(async () => {
    await server.close();
    expect(failures).toEqual([]);
  });
  return server.address().port;
}

const closed = (socket: Socket) => once(socket, 'close');

async function ask(socket: Socket, text: string): Promise<string> {
  const answer = once(socket, 'data');
  socket.write(text);
  return String((await answer)[0]);
}

/** A caller who takes nothing: what the kernel takes of the answer is on its way, and the rest waits in the server. */
async function askAndTakeNothing(port: number, text: string): Promise<Socket> {
  const socket = (await openSocket(port)).pause();
  socket.write(text);
  await once(socket, 'readable');
  return socket;
}

const request = (line: string, ...headers: string[]): string =>
  [`${line} HTTP/1.1`, 'Host: x', 'Connection: close', ...headers, '', ''].join('\r\n');

it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE'])(
  '%s is refused with the methods that are allowed',
  async (method) => {
    const { port } = await startedApi();
    for (const path of ['/status', '/v1/transactions', '/nowhere', '*'])
      expect(await sendRaw(port, request(`${method} ${path}`))).toMatch(
        /^HTTP\/1\.1 405 [^]*\r\nallow: GET, HEAD\r\n[^]*"reason":"method_not_allowed"/i,
      );
  },
);

const keptAlive = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
const kept = keptAlive('/status');

it.each([
  [{}, 75],
  [{ keepAliveMs: 5_000 }, 5],
])('a connection between requests is kept as long as its caller is told (%j)', async (options, seconds) => {
  for (const port of [(await startedApi(options)).port, await pageServer('x', systemClock, options)]) {
    const { headers } = await fetch(`http://127.0.0.1:${port}/status`);
    expect(headers.get('keep-alive')).toBe(`timeout=${seconds}`);
  }
});

it('a connection between two requests outlives the time for a connection on which nothing moves', async () => {
  const { port } = await startedApi({ connectionTimeoutMs: 300, keepAliveMs: 1_500 });
  const socket = await openSocket(port);
  await ask(socket, kept);
  const beganAtMs = performance.now();
  await closed(socket.resume());
  expect(performance.now() - beganAtMs).toBeGreaterThan(1_000);
});

it('callers that send slowly are cut off although a byte comes now and then', async () => {
  const { port } = await startedApi({ requestTimeoutMs: 300 });
  const head = 'GET /status HTTP/1.1\r\nHost: x\r\n';
  const slow = ['GET /sta', `${head}X-A: `, `${head}Content-Length: 100\r\n\r\n{`].map(async (beginning) => {
    const socket = (await openSocket(port)).resume();
    const cut = closed(socket);
    socket.write(beginning);
    const drip = setInterval(() => socket.write('a'), 50);
    await cut;
    clearInterval(drip);
  });
  await Promise.all(slow);
  expect(await sendRaw(port, request('GET /status'))).toMatch(/^HTTP\/1\.1 200 /);
});

describe('when all connections that a port may have are taken', () => {
  const MAX = 8;

  it('the one that has been without a request longest makes room, and no caller waits', async () => {
    const { logger, metrics, port } = await startedApi({ maxConnections: MAX });
    const silent = await openSocket(port);
    const half = await openSocket(port);
    half.write('GET /sta');
    const used = await openSocket(port);
    await ask(used, kept);
    const order = [silent, half];
    while (order.length < MAX - 1) order.push(await openSocket(port));
    // The one with a request goes last: it was used after the others had come.
    await ask(used, kept);
    for (const next of [...order, used]) {
      const makesRoom = closed(next.resume());
      expect(await sendRaw(port, request('GET /status'))).toMatch(/^HTTP\/1\.1 200 /);
      // The connection of that request has closed: fill its place.
      await openSocket(port);
      await makesRoom;
    }
    const now = await scraped(metrics);
    expect(now.value('connections_cut_total', { port: 'api', reason: 'make_room' })).toBe(MAX);
    for (const name of ['connections_limit', 'connections'])
      expect(now.value(name, { port: 'api' }), name).toBe(MAX);
    const warnings = logger.records.filter(({ level }) => level === 'warn');
    expect(warnings).toMatchObject([{ fields: { server: 'api', maxConnections: MAX } }]);
  });

  it('a new one is turned away while all have a request, and three quarters of them may last', async () => {
    let asking = 0;
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    const { metrics, port, store } = await startedApi({ maxConnections: MAX });
    store.item = async () => {
      asking += 1;
      await answered;
      return undefined;
    };
    const streams: Socket[] = [];
    for (let count = 0; count < 0.75 * MAX; count += 1) {
      const stream = await openSocket(port);
      expect(await ask(stream, keptAlive('/events'))).toMatch(/^HTTP\/1\.1 200 /);
      streams.push(stream);
    }
    const oneMore = await sendRaw(port, request('GET /events'));
    expect(oneMore).toMatch(/^HTTP\/1\.1 503 /);
    expect(oneMore).toContain('at most 6 streams and WebSockets may be open at once');
    for (const each of [await openSocket(port), await openSocket(port)])
      each.write(keptAlive(`/v1/transactions/${'ab'.repeat(32)}`));
    await until(() => asking === 2);
    const turnedAway = await openSocket(port);
    await closed(turnedAway.resume());
    const cut = { port: 'api', reason: 'no_room' };
    expect((await scraped(metrics)).value('connections_cut_total', cut)).toBe(1);
    expect(streams.filter(({ destroyed }) => destroyed)).toEqual([]);
    answer();
    const ends = closed(streams[0]!);
    streams[0]!.destroy();
    await ends;
    await until(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/events`).catch(() => undefined);
      await answer?.body?.cancel();
      return answer?.status === 200;
    });
  });
});

it('callers that read slowly are cut off after a minute; those that read are not', async () => {
  const page = 'x'.repeat(32 * 1024 * 1024);
  const clock = new VirtualClock();
  const port = await pageServer(page, clock);
  const idle = await openSocket(port);
  const slow = await askAndTakeNothing(port, request('GET /metrics'));
  const cut = closed(slow);
  await clock.advance(65_000);
  expect((await sendRaw(port, request('GET /metrics'))).length).toBeGreaterThan(page.length);
  await clock.advance(15_000);
  slow.resume();
  await cut;
  expect(slow.bytesRead).toBeLessThan(page.length);
  expect(idle.destroyed).toBe(false);
});

const get = keptAlive('/metrics');

it('callers that ask for more than they take cannot make the server hold large answers without end', async () => {
  const page = 'x'.repeat(16 * 1024 * 1024);
  const port = await pageServer(page, new VirtualClock(), { maxHeldBytes: 40 * 1024 * 1024 });
  const untaken = () => askAndTakeNothing(port, get);
  const [first, second, third] = [await untaken(), await untaken(), await untaken()];
  const status = (socket: Socket) => String(socket.read(12));
  expect([first, second, third].map(status)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 503']);
  expect(String(third.read())).toMatch(/\r\nretry-after: 1\r\n[^]*"reason":"busy"/i);
  // What is small is answered all the same, and what is large as soon as there is room.
  expect(await sendRaw(port, request('GET /livez'))).toMatch(/^HTTP\/1\.1 200 /);
  first.destroy();
  while (!(await sendRaw(port, request('GET /metrics'))).startsWith('HTTP/1.1 200 '));
});

it('callers who take compressed answers count with the whole answer until it is compressed', async () => {
  const page = 'x'.repeat(16 * 1024 * 1024);
  const port = await pageServer(page, new VirtualClock(), { maxHeldBytes: 20 * 1024 * 1024 });
  const slow = await askAndTakeNothing(port, keptAlive('/metrics'));
  const packed = request('GET /metrics', 'Accept-Encoding: gzip');
  expect(await sendRaw(port, packed)).toMatch(/^HTTP\/1\.1 503 [^]*"reason":"busy"/);
  slow.destroy();
  let answer = '';
  while (!answer.startsWith('HTTP/1.1 200 ')) answer = await sendRaw(port, packed);
  expect(answer).toMatch(/\r\ncontent-encoding: gzip\r\n/i);
  expect(answer.length).toBeLessThan(page.length / 10);
});

it('callers who take compressed answers count with what is left of it from then on, and with nothing once they have it', async () => {
  const page = 'x'.repeat(4 * 1024 * 1024);
  const port = await pageServer(page, new VirtualClock(), { maxHeldBytes: 10 * 1024 * 1024 });
  const get = 'GET /metrics HTTP/1.1\r\nHost: x\r\n';
  // The second answer waits behind the first, which is not taken.
  await askAndTakeNothing(port, `${get}\r\n${get}Accept-Encoding: gzip\r\n\r\n`);
  const headers = { 'accept-encoding': 'identity' };
  for (let answered = 0; answered < 3;) {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers });
    await answer.text();
    // Refused while the other one is still being compressed, and no longer.
    if (answer.ok) answered += 1;
  }
});

it('a rate per address answers 429 and the time to wait to whoever asks faster, and to nobody else', async () => {
  const clock = new VirtualClock();
  const { port } = await startedApi({ ratePerSecondPerAddress: 3, clock });
  const ask = (localAddress?: string) => sendRaw(port, request('GET /status'), localAddress);
  const answers = await Promise.all(Array.from({ length: 5 }, () => ask()));
  expect(answers.filter((answer) => answer.startsWith('HTTP/1.1 200 '))).toHaveLength(3);
  const refusal = answers.find((answer) => answer.startsWith('HTTP/1.1 429 '));
  expect(refusal).toMatch(/\r\nretry-after: 1\r\n[^]*"reason":"rate_limited"/i);
  expect(refusal).toContain('at most 3 requests per second are served to one address; retry in 1 s');
  expect(await ask('127.0.0.2')).toMatch(/^HTTP\/1\.1 200 /);
  await clock.advance(1000);
  expect(await ask()).toMatch(/^HTTP\/1\.1 200 /);
});

it('a rate per address does not keep a browser from loading the status page, whose files lie in memory', async () => {
  const { port } = await startedApi({ ratePerSecondPerAddress: 1, clock: new VirtualClock() });
  for (let count = 0; count < 20; count += 1)
    expect(await sendRaw(port, request('GET /page/page.js'))).toMatch(/^HTTP\/1\.1 200 /);
  for (const status of [200, 429])
    expect(await sendRaw(port, request('GET /status'))).toMatch(`HTTP/1.1 ${status} `);
});
