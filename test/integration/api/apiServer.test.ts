import { beforeEach, describe, expect, it } from 'vitest';
import { StorageError } from '../../../src/storage/index.js';
import { chainOf, idOf, sendRaw, ServedChain, transactionIds } from '../../support/index.js';
import { transactionWith, VirtualClock } from '../../support/index.js';

const FIRST = 100;
const LATEST = 159;
const HEAD = 170;
const SEALED = 155;
const repeated = transactionWith({ gasLimit: 7n });
const chain = chainOf(FIRST, LATEST - FIRST + 1, (index) =>
  index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), repeated], []] : [],
);
const [firstBlock] = chain;

let served: ServedChain;

beforeEach(async () => {
  served = await ServedChain.start(chain, { sealed: SEALED, head: HEAD });
});

const get = (path: string, init?: RequestInit) => served.get(path, init);
const heightsOf = (body: unknown) =>
  (body as { header: { height: string } }[]).map(({ header }) => Number(header.height));

it('/v1/blocks by height answers one height with an array in the shape of Flow', async () => {
  const answer = await get('/v1/blocks?height=100&expand=payload');
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=UTF-8');
  expect(answer.body).toEqual([
    {
      header: {
        ...{ id: firstBlock!.block.id, parent_id: idOf('block 99'), height: '100' },
        timestamp: '2026-01-01T00:00:00.12Z',
        parent_voter_signature: Buffer.from('parent voters').toString('base64'),
      },
      payload: {
        collection_guarantees: firstBlock!.collections.map(({ id }) => ({
          ...{ collection_id: id, signer_indices: 'e00f', cluster_chain_id: 'cluster-7-abc' },
          signature: Buffer.from('guarantee signature').toString('base64'),
          reference_block_id: idOf('reference'),
        })),
        block_seals: [],
      },
      _expandable: {},
      _links: { _self: `/v1/blocks/${firstBlock!.block.id}` },
      block_status: 'BLOCK_SEALED',
      proven: false,
    },
  ]);
  const { body: payload } = await get(`/v1/blocks/${firstBlock!.block.id}/payload`);
  expect(answer.body).toMatchObject([{ payload }]);
});

// Lists in the order asked for, each height once; ranges with both ends, and words as ends.
it.each([
  ['height=103,101,103', [103, 101]],
  ['height=103&height=101', [103, 101]],
  ['start_height=100&end_height=102', [100, 101, 102]],
  ['start_height=sealed&end_height=latest', [155, 156, 157, 158, 159]],
  ['start_height=sealed&end_height=final', [155, 156, 157, 158, 159]],
  ['start_height=100&end_height=149', chain.slice(0, 50).map(({ block }) => block.height)],
  // The newest that it has, and the newest of those that is sealed.
  ['height=final', [LATEST]],
  ['height=latest', [LATEST]],
  ['height=sealed', [SEALED]],
])('/v1/blocks by height answers %s', async (query, heights) => {
  const { body } = await get(`/v1/blocks?${query}`);
  expect(heightsOf(body)).toEqual(heights);
  const status = (height: number) => (height <= SEALED ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED');
  expect(body).toMatchObject(heights.map((height) => ({ block_status: status(height) })));
});

it('/v1/blocks by height has no sealed block above those that it has, and none where no sealed head is known; says which blocks are proven, and with finality=proven has no others', async () => {
  served.range = { ...served.range, sealed: HEAD };
  expect(heightsOf((await get('/v1/blocks?height=sealed')).body)).toEqual([LATEST]);
  served.range = { ...served.range, sealed: null };
  const { body } = await get(`/v1/blocks?height=${FIRST}`);
  expect(body).toMatchObject([{ block_status: 'BLOCK_FINALIZED' }]);
  served.range = { ...served.range, sealed: HEAD, proven: { from: 102, to: 150 } };
  const proven = async (query: string) => {
    const { body } = await get(`/v1/blocks?${query}`);
    return (body as { proven: boolean }[]).map((block) => block.proven);
  };
  expect(await proven('height=101,102,150,151')).toEqual([false, true, true, false]);
  const heightOf = async (query: string) => heightsOf((await get(`/v1/blocks?height=${query}`)).body);
  expect(await heightOf('final&finality=proven')).toEqual([150]);
  expect(await heightOf('sealed&finality=proven')).toEqual([150]);
  expect(await heightOf('final&finality=reported')).toEqual([LATEST]);
  const above = await get('/v1/blocks?height=151&finality=proven');
  expect(above).toMatchObject({ status: 404, body: { reason: 'not_yet_indexed', latestIndexed: 150 } });
  const below = await get(`/v1/blocks/${firstBlock!.block.id}?finality=proven`);
  expect(below).toMatchObject({ status: 404, body: { reason: 'unknown_id' } });
  expect((await get('/v1/blocks/latest/collections?finality=proven')).body).toMatchObject({ height: '150' });
  expect((await get('/v1/blocks?height=150&finality=maybe')).status).toBe(400);
  for (const [at, status] of [[0, 404] as const, [2, 200] as const, [52, 404] as const]) {
    const { block, collections } = chain[at]!;
    const [transaction = ''] = transactionIds(chain[at]!, 0);
    const ofBlock = [`blocks/${block.id}/payload?`, `blocks/${block.height}/collections?`];
    const byId = [`transactions?block_id=${block.id}&`, `transactions/${transaction}?`];
    const ofFlow = [...ofBlock, ...byId, `collections/${collections[0]!.id}?`].map((path) => `v1/${path}`);
    const ours = [`lookup/transaction/${transaction}?`, `export?from=${block.height}&`];
    for (const path of [...ofFlow, ...ours])
      expect((await get(`/${path}finality=proven`)).status, path).toBe(status);
  }
  const page = await fetch(`${served.url}/export?from=149&finality=proven`);
  expect((await page.text()).match(/"kind":"block"/g)).toHaveLength(2);
  // What is sealed and not proven yet may become so.
  const cached = async (height: number) =>
    (await get(`/v1/blocks?height=${height}`)).headers.get('cache-control');
  expect(await cached(150)).toBe('public, max-age=31536000, immutable');
  expect(await cached(151)).toBe('no-cache');
  served.range = { ...served.range, proven: { from: 0, to: -1 } };
  expect((await get('/v1/blocks?height=final&finality=proven')).status).toBe(404);
});

describe('methods and limits', () => {
  it('answers HEAD like GET without a body', async () => {
    const paths = ['/status', '/openapi.json', '/v1/blocks?height=100', '/v1/blocks?height=160', '/x'];
    for (const path of paths) {
      const [full, head] = [await get(path), await get(path, { method: 'HEAD' })];
      expect(head.status).toBe(full.status);
      expect(head.body).toBeUndefined();
      expect(head.headers.get('content-type')).toBe('application/json; charset=UTF-8');
      for (const name of ['content-length', 'content-encoding', 'etag', 'cache-control'])
        expect(head.headers.get(name)).toBe(full.headers.get(name));
      expect(full.headers.get('content-encoding')).toBe(path === '/openapi.json' ? 'gzip' : null);
    }
  });

  it('answers as many of the requests on one connection as may wait, though all of them come at once', async () => {
    // What adds the headers for pages has a request wait for the next turn.
    served = await ServedChain.start(chain, { sealed: SEALED }, { corsOrigins: [] });
    const answers = await sendRaw(served.port, 'GET /status HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(18));
    const statuses = answers.match(/HTTP\/1\.1 \d+/g);
    expect(statuses).toEqual([...Array<string>(17).fill('HTTP/1.1 200'), 'HTTP/1.1 429']);
  });

  it('bounds: the URL, the headers and the body, and survives what is no HTTP', async () => {
    const ask = (more: string, path = 'status') => `GET /${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n\r\n`;
    for (const [sent, told] of [
      [ask(`X: ${'a'.repeat(20_000)}`), /^HTTP\/1\.1 431 [^]*"reason":"too_large"/],
      [ask('Content-Length: 2000'), /^HTTP\/1\.1 413 [^]*"reason":"too_large"/],
      [ask('Transfer-Encoding: chunked'), /^HTTP\/1\.1 413 /],
      [ask('Content-Length: -1'), /^HTTP\/1\.1 400 [^]*"malformed request: [^"]+Content-Length"/],
      ['PROXY TCP4 1.1.1.1 2.2.2.2 5000 80\r\n\r\n', /^HTTP\/1\.1 400 [^]*PROXY protocol [^]*"bad_request"/],
    ] as const)
      expect(await sendRaw(served.port, sent)).toMatch(told);
    expect(await sendRaw(served.port, ask('', 'events'), undefined, 'x\r\n\r\n')).not.toContain('HTTP/1.1 4');
    expect((await get('/status')).status).toBe(200);
  });
});

it('errors behind it: tells the caller that a record is damaged, the log what and where, once a trouble', async () => {
  const clock = new VirtualClock();
  served = await ServedChain.start(chain, { sealed: SEALED, head: HEAD }, { clock });
  served.store.item = () => Promise.reject(new StorageError('corrupt', 'body of height 7: wrong checksum'));
  const damaged = { reason: 'healing', message: expect.stringContaining('damaged') as string };
  for (const path of [`/v1/transactions/${idOf('a')}`, `/lookup/transaction/${idOf('a')}`])
    expect(await get(path)).toMatchObject({ status: 503, body: { code: 503, ...damaged } });
  const fields = expect.objectContaining({ kind: 'corrupt' }) as object;
  const told = { level: 'error', message: 'a read failed', fields };
  expect(served.logger.records).toEqual([told]);
  await clock.advance(60_000);
  await get(`/v1/transactions/${idOf('a')}`);
  expect(served.logger.records).toEqual([told, told]);
});

it('errors behind it: hands an error that nobody foresaw to its owner', async () => {
  const bug = new TypeError('cannot read properties of undefined');
  served.store.item = () => Promise.reject(bug);
  const answer = await get(`/v1/collections/${idOf('a')}`);
  expect(answer).toMatchObject({ status: 500, body: { code: 500, message: 'internal server error' } });
  expect(served.takeFailures()).toEqual([bug]);
});
