import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { BEARER, forwardedIn, guarded, openSocket, RestNode, scraped, sendRaw } from '../../support/index.js';
import { ServedChain, smallChain, transactionWith, until, WsClient } from '../../support/index.js';

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const NOBODY = 'ab'.repeat(32);

async function served(base = '', parts: Parameters<typeof ServedChain.start>[2] = {}) {
  const upstream = await RestNode.start();
  const how = { ...parts, forwardRest: upstream.url + base };
  return { upstream, daemon: await ServedChain.start(chain, { sealed: 102 }, how) };
}

describe('a forwarded request', () => {
  it('of a route that is none of ours goes to the node as it is, and so does the answer', async () => {
    const { upstream, daemon } = await served('/base');
    const answer = await fetch(`${daemon.url}/v1/accounts/f8d6e0586b0a20c7?expand=keys&x=%2F`, {
      headers: { 'x-from-client': 'yes', te: 'trailers', cookie: 'session=1' },
    });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe('of the node');
    expect([answer.headers.get('x-from-node'), answer.headers.get('set-cookie')]).toEqual(['yes', null]);
    expect(answer.headers.get('via')).toBe('1.1 flow-collection-indexer');
    const { host } = new URL(upstream.url);
    const headers = { 'x-from-client': 'yes', via: '1.1 flow-collection-indexer', host };
    const url = '/base/v1/accounts/f8d6e0586b0a20c7?expand=keys&x=%2F';
    expect(upstream.seen).toMatchObject([{ method: 'GET', url, headers }]);
    for (const name of ['te', 'cookie']) expect(upstream.seen[0]?.headers).not.toHaveProperty(name);
  });

  it('says what keeps it from the node', async () => {
    const { upstream, daemon } = await served();
    const socket = await WsClient.open(daemon.url);
    socket.subscribe('e', 'events');
    const noSocket = expect.stringContaining('(Unexpected server response: 200)') as string;
    expect(await socket.next()).toMatchObject({ error: { code: 503, message: noSocket } });
    const noHttp = expect.stringMatching(/\(HPE_\w+: .* not for gRPC\)/) as string;
    const upgrade = 'Connection: Upgrade\r\nUpgrade: h2c';
    for (const odd of ['SSH-2.0', 'HTTP/1.1 042 Odd\r\n\r\n', `HTTP/1.1 101 Odd\r\n${upgrade}\r\n\r\n`]) {
      upstream.reply = (request) => request.socket.end(odd);
      expect((await daemon.get('/v1/accounts/1')).body, odd).toMatchObject({ message: noHttp });
    }
    await upstream.stop();
    const nobody = expect.stringContaining('(ECONNREFUSED)') as string;
    expect((await daemon.get('/v1/accounts/1')).body).toMatchObject({ message: nobody });
  });

  it('ends where indexers forward to each other in a circle', async () => {
    const { upstream, daemon } = await served();
    const after = (hops: number, via = Array<string>(hops).fill('1.1 flow-collection-indexer').join(', ')) =>
      daemon.get('/v1/accounts/f8d6e0586b0a20c7', { headers: { via } });
    const message = expect.stringContaining('leads to this program again') as string;
    expect(await after(4)).toMatchObject({ status: 503, body: { reason: 'upstream_unreachable', message } });
    expect(upstream.seen).toEqual([]);
    upstream.reply = (_request, response) => response.end('{}');
    expect((await after(3)).status).toBe(200);
    const socket = await WsClient.open(daemon.url, { via: upstream.seen[0]?.headers.via ?? '' });
    socket.subscribe('e', 'events');
    expect(await socket.next()).toMatchObject({ action: 'subscribe', error: { code: 503, message } });
  });

  it('leaves a token of ours behind, and needs it', async () => {
    const { upstream, daemon } = await served('', { secrets: guarded('expensive') });
    const url = `${daemon.url}/v1/accounts/f8d6e0586b0a20c7`;
    expect((await fetch(url)).status).toBe(401);
    expect(upstream.seen).toEqual([]);
    expect((await fetch(url, { headers: { authorization: BEARER } })).status).toBe(200);
    expect(upstream.seen.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  it('may send transactions and scripts', async () => {
    const { upstream, daemon } = await served();
    upstream.reply = (_request, response) => response.writeHead(201).end('{"id":"x"}');
    for (const path of ['/v1/transactions', '/v1/scripts?block_height=sealed']) {
      const body = JSON.stringify({ script: 'x'.repeat(2_000_000) });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(daemon.url + path, { method: 'POST', body, headers });
      expect([answer.status, await answer.text()]).toEqual([201, '{"id":"x"}']);
      expect(upstream.seen.at(-1)).toMatchObject({ method: 'POST', url: path, body });
      expect(upstream.seen.at(-1)?.headers['content-type']).toBe('application/json');
    }
    const head = await fetch(`${daemon.url}/v1/accounts/1`, { method: 'HEAD' });
    expect(head.status).toBe(201);
    expect(upstream.seen.at(-1)?.method).toBe('HEAD');
  });

  it('brings a body up to a bound, said or unsaid', async () => {
    const { upstream, daemon } = await served();
    const tooMuch = 'x'.repeat(4 * 1024 * 1024 + 1);
    // The length of a stream is not told beforehand.
    for (const body of [tooMuch, new Blob([tooMuch]).stream()]) {
      const init = { method: 'POST', body, duplex: 'half' } as const;
      const answer = await fetch(`${daemon.url}/v1/transactions`, init).catch(() => undefined);
      // The caller may be cut off while it still sends.
      if (answer !== undefined) expect(answer.status).toBe(413);
    }
    expect(upstream.seen).toEqual([]);
  });

  it('is ended at the node when its caller hangs up, also while it waits behind another', async () => {
    const { upstream, daemon } = await served();
    let closed = 0;
    upstream.reply = (request, response) => {
      request.socket.once('close', () => (closed += 1));
      // More than is taken of it before its turn.
      if (upstream.seen.length === 2) response.end('x'.repeat(16 * 1024 * 1024));
    };
    const socket = await openSocket(daemon.port);
    socket.write('GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2));
    await until(() => upstream.seen.length === 2);
    socket.destroy();
    await until(() => closed === 2);
  });
});

it('a connection to the node that is kept may be closed by the node in the moment in which it is used again', async () => {
  const { upstream, daemon } = await served();
  const used = new Set<Socket>();
  let cut = 0;
  upstream.reply = (request, response) => {
    if (used.has(request.socket)) {
      cut += 1;
      request.socket.destroy();
    } else {
      used.add(request.socket);
      response.end('of the node');
    }
  };
  for (let left = 3; left > 0; left -= 1)
    expect(await (await fetch(`${daemon.url}/v1/accounts/1`)).text()).toBe('of the node');
  expect(cut).toBeGreaterThan(0);
  expect(upstream.seen).toHaveLength(3 + cut);
});

it('a connection to the node that is kept carries no word of a body that is not passed on, and not what must not be sent twice', async () => {
  const { upstream, daemon } = await served();
  const asked = 'GET /v1/accounts/1 HTTP/1.0\r\nContent-Length: 5\r\n\r\nbytes';
  expect(await sendRaw(daemon.port, asked)).toContain('of the node');
  expect(upstream.seen).toMatchObject([{ body: '', headers: { via: '1.1 flow-collection-indexer' } }]);
  await (await fetch(`${daemon.url}/v1/accounts/1`)).text();
  upstream.reply = (request) => request.socket.destroy();
  const answer = await fetch(`${daemon.url}/v1/transactions`, { method: 'POST', body: '{}' });
  expect(answer.status).toBe(503);
  const message = expect.stringContaining('is unknown') as string;
  expect(await answer.json()).toMatchObject({ reason: 'upstream_unreachable', message });
  expect(upstream.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
});

it('a node that answers before it has the whole request has its answer passed on, and the connection of the caller ends', async () => {
  const { upstream, daemon } = await served();
  upstream.answerUnread((request, response) => {
    response.writeHead(400, { connection: 'close' }).end('too much');
    response.once('finish', () => request.socket.destroy());
  });
  // More is announced than ever comes.
  const begun = 'POST /v1/transactions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nthe beginning';
  expect(await sendRaw(daemon.port, begun)).toMatch(/^HTTP\/1\.1 400 [^]*\r\nconnection: close\r\n/i);
});

it('what is forwarded is counted by what is asked and what becomes of it, and while it is under way', async () => {
  const { upstream, daemon } = await served();
  const { metrics } = daemon;
  const underWay = async (): Promise<number> =>
    (await scraped(metrics)).value('forwarded_calls_in_flight', { protocol: 'rest', kind: 'call' });
  const ask = async (path: string, init?: RequestInit): Promise<number | undefined> => {
    const answer = await fetch(daemon.url + path, init).catch(() => undefined);
    await answer?.text().catch(() => undefined);
    return answer?.status;
  };
  const post = { method: 'POST', body: '{}' };
  expect(await underWay()).toBe(0);

  for (const path of ['accounts/1?expand=keys', 'nobody-knows-this', `and-neither/${NOBODY}`])
    expect(await ask(`/v1/${path}`)).toBe(200);
  expect(await ask('/v1/scripts?block_height=sealed', post)).toBe(200);
  upstream.reply = (_request, response) => response.writeHead(404).end('words of the node');
  for (const path of ['accounts/2', `transactions/${NOBODY}`]) expect(await ask(`/v1/${path}`)).toBe(404);
  upstream.reply = (request) => request.socket.destroy();
  expect(await ask('/v1/transactions', post)).toBe(503);
  upstream.reply = (request, response) => {
    response.writeHead(200, { 'content-length': 100 });
    response.write('the beginning', () => request.socket.destroy());
  };
  await ask('/v1/events?type=x');
  upstream.reply = () => undefined;
  const caller = new AbortController();
  const waiting = ask('/v1/execution_results/1', { signal: caller.signal });
  await until(async () => (await underWay()) === 1);
  caller.abort();
  await waiting;
  await until(async () => (await underWay()) === 0);
  await upstream.stop();
  expect(await ask('/v1/accounts/3')).toBe(503);
  // The index's own: not forwarded, and not counted.
  expect(await ask('/v1/blocks?height=100')).toBe(200);

  const { calls, timed } = await forwardedIn(metrics, 'rest');
  expect(calls).toEqual([
    'GET accounts answered 1',
    'GET accounts failed 1',
    'GET accounts unreachable 1',
    'GET events lost 1',
    'GET execution_results cancelled 1',
    'GET other answered 2',
    'GET transactions missed 1',
    'POST scripts answered 1',
    'POST transactions lost 1',
  ]);
  expect(timed).toEqual(['GET accounts 2', 'GET other 2', 'GET transactions 1', 'POST scripts 1']);
  expect((await forwardedIn(metrics, 'grpc')).calls).toEqual([]);
});

describe('what the index does not have', () => {
  it('is asked of the node: heights out of range, unknown ids, and parts that only nodes have', async () => {
    const { upstream, daemon } = await served();
    const paths = [
      '/v1/blocks?height=500',
      '/v1/blocks?height=1',
      `/v1/blocks/${NOBODY}?expand=payload`,
      `/v1//transactions/${NOBODY}`,
      '/v1/blocks?height=100&expand=execution_result',
      '/v1/transactions?block_height=100&expand=result',
      '/v1/transactions/17',
    ];
    for (const path of paths) {
      const answer = await fetch(daemon.url + path);
      expect([answer.status, await answer.text()], path).toEqual([200, 'of the node']);
      expect(answer.headers.get('via')).toContain('flow-collection-indexer');
    }
    expect(upstream.seen.map(({ url }) => url)).toEqual(paths);
    // Indexed, malformed, or about the index itself.
    const own = await daemon.get('/v1/blocks?height=100');
    expect(own.status).toBe(200);
    expect((await daemon.get('/v1/transactions/abc')).status).toBe(400);
    expect((await daemon.get('/lookup/block/500')).body).toMatchObject({ reason: 'not_yet_indexed' });
    expect((await daemon.get('/status')).status).toBe(200);
    // No node knows that word, and would tell of what is not proven.
    for (const path of paths.map((each) => `${each}${each.includes('?') ? '&' : '?'}finality=proven`))
      expect((await daemon.get(path)).status, path).toBeGreaterThanOrEqual(400);
    expect(upstream.seen).toHaveLength(paths.length);
  });

  it('is refused in the words of the index where the node has it neither, or is not there', async () => {
    const { upstream, daemon } = await served();
    upstream.reply = (_request, response) => response.writeHead(404).end('words of the node');
    const expectOwn = async (): Promise<void> => {
      const above = { status: 404, body: { reason: 'not_yet_indexed', latestIndexed: 102 } };
      expect(await daemon.get('/v1/blocks?height=500')).toMatchObject(above);
      const unknown = { status: 404, body: { reason: 'unknown_id' } };
      expect(await daemon.get(`/v1/transactions/${NOBODY}`)).toMatchObject(unknown);
    };
    await expectOwn();
    expect(upstream.seen).toHaveLength(2);
    await upstream.stop();
    await expectOwn();
  });
});

it.each([
  ['GET', '/v1/ws', 400],
  ['GET', '/v1/subscribe_events', 404],
  ['GET', '/v2/accounts', 404],
  ['GET', '/v1/%2e%2e/metrics', 404],
  ['GET', '/v1/accounts/..%2f..%2fmetrics', 404],
  ['POST', '/status', 405],
  ['DELETE', '/v1/transactions', 405],
])('nothing else is forwarded: %s %s', async (method, path, expected) => {
  const { upstream, daemon } = await served();
  // As it is: fetch would resolve the dots.
  const asked = `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  expect((await sendRaw(daemon.port, asked)).split(' ')[1]).toBe(String(expected));
  expect(upstream.seen).toEqual([]);
});
