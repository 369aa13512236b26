import { expect, it } from 'vitest';
import { RestNode, ServedChain, smallChain, transactionWith, WsClient } from '../../support/index.js';

// What a browser makes of these headers is shown by `npm run test:browser`.

const chain = smallChain(100, [[[transactionWith({ gasLimit: 1n })]], [], []]);
const PAGE = 'http://page.example';
const OTHER = 'http://other.example';
const ALLOWED = 'access-control-allow-origin';

async function served(corsOrigins: readonly string[]) {
  // As access nodes do; twice, or another one than ours, a browser refuses it.
  const headers = { [ALLOWED]: '*', 'access-control-allow-methods': 'DELETE', vary: 'accept' };
  const node = await RestNode.start((_request, response) => response.writeHead(200, headers).end('answered'));
  const daemon = await ServedChain.start(chain, { sealed: 102 }, { forwardRest: node.url, corsOrigins });
  return { node, daemon };
}

const from = (origin: string, init: RequestInit = {}): RequestInit => ({ ...init, headers: { origin } });
const preflight = (origin: string, method: string): RequestInit => ({
  method: 'OPTIONS',
  headers: {
    ...{ origin, 'access-control-request-method': method },
    'access-control-request-headers': 'content-type',
  },
});

/** Every way in which an answer is written. */
it.each<[what: string, path: string, status: number, init?: RequestInit]>([
  ['an answer', '/v1/blocks?height=101', 200],
  ['a refusal', '/v1/blocks?height=x', 400],
  ['an unknown path', '/nowhere', 404],
  ['an unknown method', '/status', 405, { method: 'PUT' }],
  ['a stream', '/events?from=100', 200],
  ['an answer of the node', '/v1/accounts/1', 200],
  ['an answer of the node to a POST', '/v1/scripts', 200, { method: 'POST', body: '{}' }],
  ['a page', '/docs', 200],
])('pages of every origin, or of named ones alone, may read %s', async (_, path, status, init = {}) => {
  const abort = new AbortController();
  const ask = async (corsOrigins: readonly string[], origin: string) => {
    const { daemon } = await served(corsOrigins);
    const answer = await fetch(daemon.url + path, { ...from(origin, init), signal: abort.signal });
    expect(answer.headers.get('access-control-allow-methods')).toBeNull();
    return { headers: answer.headers, told: [answer.status, answer.headers.get(ALLOWED)] };
  };
  const open = await ask(['*'], PAGE);
  expect(open.told).toEqual([status, '*']);
  expect(open.headers.get('access-control-expose-headers')).toBe('etag, retry-after, via');
  for (const [origin, allowed] of [
    [PAGE, PAGE],
    [OTHER, null],
  ] as const) {
    if (origin === OTHER && init.method === 'POST') continue;
    const { headers, told } = await ask([PAGE, 'http://second.example'], origin);
    expect(told).toEqual([status, allowed]);
    // A cache must not give one origin what was said to another.
    expect(headers.get('vary')?.toLowerCase()).toContain('origin');
  }
  abort.abort();
});

it('pages of every origin may read that they hold an answer already, and that they ask too often', async () => {
  const { daemon } = await served(['*']);
  const url = `${daemon.url}/v1/blocks?height=101`;
  const etag = (await fetch(url)).headers.get('etag') ?? '';
  const answer = await fetch(url, { headers: { origin: PAGE, 'if-none-match': etag } });
  expect([answer.status, answer.headers.get(ALLOWED)]).toEqual([304, '*']);
  const options = { corsOrigins: ['*'], ratePerSecondPerAddress: 1 };
  const limited = await ServedChain.start(chain, { sealed: 102 }, options);
  await fetch(`${limited.url}/status`);
  const refused = await fetch(`${limited.url}/status`, from(PAGE));
  expect([refused.status, refused.headers.get(ALLOWED)]).toEqual([429, '*']);
});

it('pages of every origin are told before a POST that they may send it, where it is forwarded', async () => {
  const { daemon, node } = await served(['*']);
  for (const path of ['/v1/scripts?block_height=sealed', '/v1/transactions', '/nowhere']) {
    const { status, headers } = await fetch(daemon.url + path, preflight(PAGE, 'POST'));
    expect([status, headers.get(ALLOWED)]).toEqual([204, '*']);
    const told = ['methods', 'headers'].map((what) => headers.get(`access-control-allow-${what}`));
    expect(told).toEqual(['GET, HEAD, POST', 'content-type']);
    expect(headers.get('access-control-max-age')).toBe('7200');
  }
  expect(node.seen).toEqual([]);
  const reading = await ServedChain.start(chain, { sealed: 102 }, { corsOrigins: ['*'] });
  const { headers } = await fetch(`${reading.url}/v1/transactions`, preflight(PAGE, 'POST'));
  expect(headers.get('access-control-allow-methods')).toBe('GET, HEAD');
});

it('pages of named origins alone may send a POST, which a browser may send without asking, and open a WebSocket', async () => {
  const { daemon, node } = await served([PAGE]);
  const refused = await daemon.get('/v1/transactions', from(OTHER, { method: 'POST', body: '{}' }));
  expect(refused).toMatchObject({ status: 403, body: { reason: 'origin_refused' } });
  expect(node.seen).toEqual([]);
  await expect(WsClient.open(daemon.url, { origin: OTHER })).rejects.toThrow('403');
  await WsClient.open(daemon.url, { origin: PAGE });
  // No page: a program.
  await WsClient.open(daemon.url);
  const sent = await fetch(`${daemon.url}/v1/transactions`, { method: 'POST', body: '{}' });
  expect(sent.status).toBe(200);
  // Varies by what the node varies by, too.
  const { headers } = await fetch(`${daemon.url}/v1/accounts/1`, from(PAGE));
  expect(headers.get('vary')?.toLowerCase().split(', ').sort()).toEqual(['accept', 'origin']);
});

it('no origin is allowed where none is named', async () => {
  const { daemon } = await served([]);
  for (const path of ['/status', '/v1/accounts/1', '/v1/blocks?height=101']) {
    const answer = await fetch(daemon.url + path, from(PAGE));
    expect([answer.status, answer.headers.get(ALLOWED)]).toEqual([200, null]);
  }
  expect((await fetch(`${daemon.url}/status`, preflight(PAGE, 'GET'))).status).toBe(405);
});
