import { once } from 'node:events';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { beforeEach, expect, it } from 'vitest';
import { BEARER, chainOf, guarded, idOf, RestNode, ServedChain } from '../../support/index.js';
import { transactionIds, transactionWith } from '../../support/index.js';

const FIRST = 100;
const SEALED = 105;
const script = Buffer.from('transaction { execute { log("hello") } } '.repeat(50));
/** Heights 100 to 109; the first collection of each is large enough to be compressed. */
const chain = chainOf(FIRST, 10, (index) => [
  Array.from({ length: 30 }, (_, at) => transactionWith({ script, gasLimit: BigInt(100 * index + at) })),
  [transactionWith({ gasLimit: BigInt(5000 + index) })],
]);
const [block] = chain;
const idAt = (height: number): string => chain[height - FIRST]!.block.id;
const large = block!.collections[0]!.id;
const [transaction = ''] = transactionIds(block!, 1);
const serve = () => ServedChain.start(chain, { sealed: SEALED, head: 120 });

let served: ServedChain;

beforeEach(async () => {
  served = await serve();
});

const FOREVER = 'public, max-age=31536000, immutable';
const FOREVER_FOR_ONE = 'private, max-age=31536000, immutable';

/** What is sent, byte by byte: fetch would unpack it. */
async function exact(url: string, headers: Record<string, string>) {
  const [response] = (await once(httpGet(url, { headers, agent: false }), 'response')) as [IncomingMessage];
  return { response, body: await buffer(response) };
}

it.each([
  ['/v1/blocks?height=100,105', FOREVER],
  ['/v1/blocks?start_height=100&end_height=105&expand=payload', FOREVER],
  ['/v1/blocks/100/collections', FOREVER],
  [`/v1/blocks/${idAt(105)}`, FOREVER],
  [`/v1/blocks/${idAt(109)}/payload`, FOREVER],
  [`/v1/blocks/${idAt(109)}/collections`, FOREVER],
  [`/v1/transactions?block_id=${idAt(109)}`, FOREVER],
  ['/v1/transactions?block_height=105', FOREVER],
  ['/v1/transactions?block_height=106', 'no-cache'],
  ['/v1/transactions', 'no-cache'],
  [`/v1/collections/${large}`, FOREVER],
  [`/v1/transactions/${transaction}?select=id`, FOREVER],
  // Its status will change.
  ['/v1/blocks?height=100,106', 'no-cache'],
  [`/v1/blocks/${idAt(106)}`, 'no-cache'],
  // A finalized block that is not sealed may be discarded by a new spork.
  ['/v1/blocks/106/collections', 'no-cache'],
  // Another block at another time.
  ['/v1/blocks?height=final', 'no-cache'],
  ['/v1/blocks/sealed/collections', 'no-cache'],
  ['/v1/blocks?start_height=100&end_height=sealed', 'no-cache'],
  ['/v1/network/parameters', 'no-cache'],
  ['/v1/node_version_info', 'no-cache'],
  ['/openapi.json', 'no-cache'],
  ['/status', 'no-store'],
  ['/lookup/block/100', 'no-store'],
  ['/v1/blocks?height=110', 'no-store'],
  [`/v1/transactions/${idOf('nothing')}`, 'no-store'],
])('how long %s holds true: %s', async (path, expected) => {
  for (const method of ['GET', 'HEAD']) {
    const { headers } = await served.get(path, { method });
    expect(headers.get('cache-control')).toBe(expected);
    expect(headers.get('etag') === null).toBe(expected === 'no-store');
  }
});

const authorization = BEARER;

it.each([
  ['everything', `/v1/transactions/${transaction}`, FOREVER_FOR_ONE],
  ['everything', `/v1/collections/${large}?expand=transactions`, FOREVER_FOR_ONE],
  ['everything', '/v1/blocks?height=final', 'private, no-cache'],
  ['everything', '/v1/network/parameters', 'private, no-cache'],
  ['everything', '/status', 'no-store'],
  ['everything', '/v1/blocks?height=110', 'no-store'],
  ['everything', '/openapi.json', 'no-cache'],
  ['expensive', '/v1/blocks/100/collections', FOREVER_FOR_ONE],
  ['expensive', `/v1/transactions/${transaction}`, FOREVER],
] as const)(
  'where a token is needed, for %s, no cache may share %s: %s',
  async (tokensFor, path, expected) => {
    const secrets = guarded(tokensFor);
    const served = await ServedChain.start(chain, { sealed: SEALED, head: 120 }, { secrets });
    const isOpen = !expected.startsWith('private');
    for (const asked of ['GET gzip', 'HEAD gzip', 'GET identity', 'HEAD identity']) {
      const [method = '', encoding = ''] = asked.split(' ');
      const headers = { authorization, 'accept-encoding': encoding };
      const answer = await served.get(path, { method, headers });
      expect(answer.headers.get('cache-control')).toBe(expected);
      if (!isOpen) expect(answer.headers.get('vary')).toBe('accept-encoding, authorization');
      const tag = answer.headers.get('etag');
      if (tag === null) continue;
      const held = await served.get(path, { method, headers: { ...headers, 'if-none-match': tag } });
      expect([held.status, held.headers.get('cache-control')]).toEqual([304, expected]);
      expect(held.headers.get('vary')).toBe(answer.headers.get('vary'));
    }
    const refused = await served.get(path);
    if (refused.status === 401) expect(refused.headers.get('cache-control')).toBe('no-store');
    else expect(isOpen).toBe(true);
  },
);

it.each([
  ['public, max-age=60, s-maxage=600', 'private, max-age=60'],
  ['Public', 'private'],
  ['private="x-user", no-transform', 'private, no-transform'],
  ['no-store, public', 'no-store'],
  [undefined, 'private, no-cache'],
])('where a token is needed, a node that says %j is not taken at its word', async (said, expected) => {
  const upstream = await RestNode.start((_request, response) =>
    response.writeHead(200, said === undefined ? {} : { 'cache-control': said }).end('{}'),
  );
  const options = { forwardRest: upstream.url, secrets: guarded('expensive') };
  const served = await ServedChain.start(chain, { sealed: SEALED }, options);
  const open = await ServedChain.start(chain, { sealed: SEALED }, { forwardRest: upstream.url });
  // Caches have rules of their own for what says nothing: Varnish keeps it for two minutes.
  const shared = (await open.get('/v1/accounts/f8d6e0586b0a20c7')).headers.get('cache-control');
  expect(shared).toBe(said ?? 'no-cache');
  const headersOf = async (path: string) => (await served.get(path, { headers: { authorization } })).headers;
  const headers = await headersOf('/v1/accounts/f8d6e0586b0a20c7');
  expect(headers.get('cache-control')).toBe(expected);
  expect(headers.get('vary')).toBe('authorization');
  const unknown = `/v1/transactions/${idOf('nothing')}`;
  expect((await headersOf(unknown)).get('cache-control') ?? '').not.toMatch(/public|s-maxage/);
  upstream.reply = (_request, response) => response.writeHead(404).end('{}');
  expect((await headersOf(unknown)).get('cache-control')).toBe('no-store');
});

const tagOf = async (served: ServedChain, path: string): Promise<string> =>
  // As it is: which of several answers at once are compressed is left open.
  (await served.get(path, { headers: { 'accept-encoding': 'identity' } })).headers.get('etag') ?? '';

it('tags are strong, the same for the same answer, others for every other answer, and change with the status of a block', async () => {
  const paths = [
    ...['blocks?height=100', 'blocks?height=100&expand=payload', 'blocks?height=100&select=header'],
    ...['blocks?height=100&select=header.id', 'blocks?height=101', 'blocks?height=100,101'],
    ...['blocks?height=101,100', `blocks/${idAt(100)}/payload`, 'blocks/100/collections'],
    ...['blocks/100/collections?expand=transactions', `transactions?block_id=${idAt(100)}`],
    ...[`collections/${large}`, `collections/${large}?expand=transactions`],
    ...[`transactions/${transaction}`, 'network/parameters', 'node_version_info'],
  ].map((path) => `/v1/${path}`);
  const tags = await Promise.all(paths.map((path) => tagOf(served, path)));
  for (const tag of tags) expect(tag).toMatch(/^"[\w-]{22}"$/);
  expect(new Set(tags).size).toBe(paths.length);
  const again = await serve();
  expect(await Promise.all(paths.map((path) => tagOf(again, path)))).toEqual(tags);
  const before = await tagOf(served, '/v1/blocks?height=106');
  served.range = { ...served.range, sealed: 106 };
  const after = await served.get('/v1/blocks?height=106', { headers: { 'if-none-match': before } });
  expect(after).toMatchObject({ status: 200, body: [{ block_status: 'BLOCK_SEALED' }] });
  expect(after.headers.get('etag')).not.toBe(before);
  expect(after.headers.get('cache-control')).toBe(FOREVER);
});

it('tags spare a caller the answer that it holds, and only that one', async () => {
  const path = `/v1/transactions/${transaction}`;
  const tag = await tagOf(served, path);
  for (const held of [tag, `W/${tag}`, `"other", ${tag}`, '*', ` ${tag} ,"x"`]) {
    for (const method of ['GET', 'HEAD']) {
      const answer = await served.get(path, { method, headers: { 'if-none-match': held } });
      expect(answer).toMatchObject({ status: 304, body: undefined });
      expect(answer.headers.get('etag')).toBe(tag);
      expect(answer.headers.get('cache-control')).toBe(FOREVER);
      expect(answer.headers.get('vary')).toBe('accept-encoding');
    }
  }
  for (const other of ['"other"', tag.slice(1, -1), '', ',', 'W/', `"${tag}"`]) {
    const answer = await served.get(path, { headers: { 'if-none-match': other } });
    expect(answer).toMatchObject({ status: 200, body: { id: transaction } });
  }
  const headers = { 'if-none-match': '*' };
  expect((await served.get(`/v1/transactions/${idOf('nothing')}`, { headers })).status).toBe(404);
  expect((await served.get('/status', { headers })).status).toBe(200);
});

const path = `/v1/collections/${large}?expand=transactions`;

it('a part goes to who asks for a range, uncompressed; of several ranges, and of other bytes, all is sent', async () => {
  const all = (await exact(served.url + path, {})).body;
  const asked = async (range: string, more: Record<string, string> = { 'accept-encoding': 'gzip' }) => {
    const { body, response } = await exact(served.url + path, { range, ...more });
    return [response.statusCode, response.headers['content-range'], body.toString()];
  };
  const part = (from: number, to: number) => [
    206,
    `bytes ${from}-${to - 1}/${all.length}`,
    all.toString('utf8', from, to),
  ];
  expect(await asked('Bytes=10-19')).toEqual(part(10, 20));
  expect(await asked('bytes=10-99999999')).toEqual(part(10, all.length));
  expect(await asked('bytes=-10')).toEqual(part(all.length - 10, all.length));
  expect((await asked('bytes=99999999-')).slice(0, 2)).toEqual([416, `bytes */${all.length}`]);
  const whole = [200, undefined, all.toString()];
  for (const none of ['bytes=0-1,3-4', 'bytes=19-10']) expect(await asked(none, {})).toEqual(whole);
  expect(await asked('bytes=10-', { 'if-range': '"other"' })).toEqual(whole);
});

it.each(['gzip', 'GZIP', 'br, gzip;q=0.5', '*', 'deflate;q=1, *;q=0.1'])(
  'compression is there for who accepts %s',
  async (accepted) => {
    const plain = await exact(served.url + path, {});
    const packed = await exact(served.url + path, { 'accept-encoding': accepted });
    expect(packed.response.statusCode).toBe(200);
    expect(packed.response.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-type': 'application/json; charset=UTF-8',
      'content-length': String(packed.body.length),
      vary: 'accept-encoding',
    });
    expect(packed.body.length).toBeLessThan(plain.body.length / 2);
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
    // Other bytes, another tag; either of them shows that the caller holds the answer.
    const tags = [plain.response.headers.etag ?? '', packed.response.headers.etag ?? ''];
    expect(tags[1]).toBe(tags[0]?.replace(/"$/, '-gzip"'));
    for (const tag of tags) {
      const held = await exact(served.url + path, { 'accept-encoding': accepted, 'if-none-match': tag });
      expect(held.response.statusCode).toBe(304);
      expect(held.response.headers.etag).toBe(tag);
      expect(held.body).toHaveLength(0);
    }
  },
);

it('compression is not there for who does not accept it, nor for small answers and refusals', async () => {
  for (const accepted of ['', 'identity', 'br', 'gzip;q=0', '*;q=0', 'gzip;q=0, *', 'xgzip', 'gzip;q=x']) {
    const { response, body } = await exact(served.url + path, { 'accept-encoding': accepted });
    expect([accepted, response.headers['content-encoding']]).toEqual([accepted, undefined]);
    expect(response.headers['vary']).toBe('accept-encoding');
    expect(JSON.parse(body.toString('utf8'))).toMatchObject({ id: large });
  }
  for (const small of [`/v1/transactions/${transaction}`, '/v1/blocks?height=110', '/nothing']) {
    const { response } = await exact(served.url + small, { 'accept-encoding': 'gzip' });
    expect(response.headers['content-encoding']).toBeUndefined();
  }
});

it('compression serves many at once without mixing them up', async () => {
  const ids = chain.map(({ collections }) => collections[0]!.id);
  const answers = await Promise.all(
    [...ids, ...ids, ...ids].map((id) => served.get(`/v1/collections/${id}?expand=transactions`)),
  );
  expect(answers.map(({ body }) => (body as { id: string }).id)).toEqual([...ids, ...ids, ...ids]);
});
