import { beforeEach, describe, expect, it } from 'vitest';
import { StorageError } from '../../../src/storage/index.js';
import { sendRaw } from '../../support/httpProbe.js';
import { ServedChain, statusWith } from '../../support/servedChain.js';
import { idOf, smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';

const FIRST = 100;
const LATEST = 159;
const HEAD = 170;
const SEALED = 155;
const repeated = transactionWith({ gasLimit: 7n });
const chain = smallChain(
  FIRST,
  Array.from({ length: LATEST - FIRST + 1 }, (_, index) =>
    index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), repeated], []] : [],
  ),
);
const [firstBlock] = chain;
const coverage = [{ from: FIRST, to: LATEST }];
const edges = { firstIndexed: FIRST, latestIndexed: LATEST, head: HEAD, coverage };

describe('the API server', () => {
  let served: ServedChain;

  beforeEach(async () => {
    served = await ServedChain.start(chain, { sealed: SEALED, head: HEAD });
  });

  const get = (path: string, init?: RequestInit) => served.get(path, init);
  const heightsOf = (body: unknown) =>
    (body as { header: { height: string } }[]).map(({ header }) => Number(header.height));

  describe('/status', () => {
    it('gives the document as JSON', async () => {
      const answer = await get('/status');
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toBe('application/json; charset=UTF-8');
      expect(answer.body).toEqual(statusWith({ ...edges, sealed: SEALED }));
    });
  });

  describe('/v1/blocks by height', () => {
    it('answers one height with an array in the shape of Flow', async () => {
      const answer = await get('/v1/blocks?height=100&expand=payload');
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toBe('application/json; charset=UTF-8');
      expect(answer.body).toEqual([
        {
          header: {
            id: firstBlock!.block.id,
            parent_id: idOf('block 99'),
            height: '100',
            timestamp: '2026-01-01T00:00:00.12Z',
            parent_voter_signature: Buffer.from('parent voters').toString('base64'),
          },
          payload: {
            collection_guarantees: firstBlock!.collections.map(({ id }) => ({
              collection_id: id,
              signer_indices: 'e00f',
              signature: Buffer.from('guarantee signature').toString('base64'),
              reference_block_id: idOf('reference'),
              cluster_chain_id: 'cluster-7-abc',
            })),
            block_seals: [],
          },
          _expandable: {},
          _links: { _self: `/v1/blocks/${firstBlock!.block.id}` },
          block_status: 'BLOCK_SEALED',
          proven: false,
        },
      ]);
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
    ])('answers %s', async (query, heights) => {
      const { body } = await get(`/v1/blocks?${query}`);
      expect(heightsOf(body)).toEqual(heights);
      const status = (height: number) => (height <= SEALED ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED');
      expect(body).toMatchObject(heights.map((height) => ({ block_status: status(height) })));
    });

    it('has no sealed block above those that it has', async () => {
      served.range = { ...served.range, sealed: HEAD };
      expect(heightsOf((await get('/v1/blocks?height=sealed')).body)).toEqual([LATEST]);
    });

    it('says which blocks are proven, and with finality=proven has no others', async () => {
      served.range = { ...served.range, sealed: HEAD, proven: { from: 102, to: 150 } };
      const proven = async (query: string) => {
        const { body } = await get(`/v1/blocks?${query}`);
        return (body as { proven: boolean }[]).map((block) => block.proven);
      };
      expect(await proven('height=101,102,150,151')).toEqual([false, true, true, false]);
      expect(heightsOf((await get('/v1/blocks?height=final&finality=proven')).body)).toEqual([150]);
      expect(heightsOf((await get('/v1/blocks?height=sealed&finality=proven')).body)).toEqual([150]);
      expect(heightsOf((await get('/v1/blocks?height=final&finality=reported')).body)).toEqual([LATEST]);
      const above = await get('/v1/blocks?height=151&finality=proven');
      expect(above).toMatchObject({ status: 404, body: { reason: 'not_yet_indexed', latestIndexed: 150 } });
      const below = await get(`/v1/blocks/${firstBlock!.block.id}?finality=proven`);
      expect(below).toMatchObject({ status: 404, body: { reason: 'unknown_id' } });
      expect((await get('/v1/blocks?height=150&finality=maybe')).status).toBe(400);
      // What is sealed and not proven yet may become so.
      const cached = async (height: number) =>
        (await get(`/v1/blocks?height=${height}`)).headers.get('cache-control');
      expect([await cached(150), await cached(151)]).toEqual([
        'public, max-age=31536000, immutable',
        'no-cache',
      ]);
      served.range = { ...served.range, proven: { from: 0, to: -1 } };
      expect((await get('/v1/blocks?height=final&finality=proven')).status).toBe(404);
    });

    it('selects fields', async () => {
      expect((await get('/v1/blocks?height=101,102&select=header.height,block_status')).body).toEqual([
        { header: { height: '101' }, block_status: 'BLOCK_SEALED' },
        { header: { height: '102' }, block_status: 'BLOCK_SEALED' },
      ]);
    });
  });

  describe('/v1/blocks/{ids}', () => {
    it('answers one id and several, upper case too', async () => {
      const ids = [chain[3]!.block.id, chain[1]!.block.id];
      expect(heightsOf((await get(`/v1/blocks/${ids[0]!}`)).body)).toEqual([103]);
      expect(heightsOf((await get(`/v1/blocks/${ids.join(',')}`)).body)).toEqual([103, 101]);
      expect(heightsOf((await get(`/v1/blocks/${ids[0]!.toUpperCase()}?expand=payload`)).body)).toEqual([
        103,
      ]);
    });

    it('serves the link that an unexpanded payload carries', async () => {
      const [block] = (await get('/v1/blocks?height=100')).body as { _expandable: { payload: string } }[];
      expect(block).not.toHaveProperty('payload');
      const payload = await get(block!._expandable.payload);
      expect(payload.body).toMatchObject({
        collection_guarantees: [{ collection_id: firstBlock!.collections[0]!.id }, {}],
        block_seals: [],
      });
    });
  });

  describe('/v1/collections/{id} and /v1/transactions/{id}', () => {
    it('answers a collection, expanded and not', async () => {
      const { id } = firstBlock!.collections[0]!;
      const ids = transactionIds(firstBlock!, 0);
      expect((await get(`/v1/collections/${id}`)).body).toEqual({
        id,
        _expandable: { transactions: ids.map((transaction) => `/v1/transactions/${transaction}`) },
        _links: { _self: `/v1/collections/${id}` },
      });
      expect((await get(`/v1/collections/${id}?expand=transactions`)).body).toMatchObject({
        id,
        transactions: ids.map((transaction) => ({
          id: transaction,
          _links: { _self: `/v1/transactions/${transaction}` },
        })),
        _expandable: {},
      });
    });

    it('has an array of transactions also for an empty collection', async () => {
      const { id } = firstBlock!.collections[1]!;
      expect((await get(`/v1/collections/${id}?expand=transactions`)).body).toMatchObject({
        transactions: [],
      });
      expect((await get(`/v1/collections/${id}`)).body).toMatchObject({ _expandable: { transactions: [] } });
      expect((await get(`/lookup/collection/${id}`)).body).toMatchObject({
        collection: { id, transactions: [] },
      });
    });

    it('answers a transaction, and selects from it', async () => {
      const [id] = transactionIds(firstBlock!, 0);
      expect((await get(`/v1/transactions/${id!}`)).body).toMatchObject({
        id,
        gas_limit: '0',
        _expandable: { result: `/v1/transaction_results/${id!}` },
        _links: { _self: `/v1/transactions/${id!}` },
      });
      const selected = await get(`/v1/transactions/${id!}?select=id,proposal_key.address`);
      expect(selected.body).toEqual({ id, proposal_key: { address: 'f8d6e0586b0a20c7' } });
    });
  });

  describe('while nothing is indexed', () => {
    it.each([
      [{ firstIndexed: FIRST, latestIndexed: FIRST - 1, head: HEAD, sealed: null }, 'latest none, head 170'],
      [{ firstIndexed: null, latestIndexed: null, head: null, sealed: null }, 'latest unknown, head unknown'],
    ])('says so at every lookup (%#)', async (nothing, text) => {
      await served.store.rewind(FIRST - 1);
      served.range = nothing;
      const answers = await Promise.all(
        [
          '/v1/blocks?height=final',
          '/v1/blocks?height=sealed',
          '/v1/blocks?height=100',
          `/v1/blocks/${idOf('nothing')}`,
          `/v1/collections/${idOf('nothing')}`,
          `/v1/transactions/${idOf('nothing')}`,
          `/lookup/transaction/${idOf('nothing')}`,
        ].map((path) => get(path)),
      );
      for (const { status: code, body } of answers) {
        expect(code).toBe(404);
        expect(body).toMatchObject({ code: 404, reason: 'not_yet_indexed' });
        expect((body as { message: string }).message).toContain(`(${text})`);
      }
    });
  });

  describe('methods and limits', () => {
    it('answers HEAD like GET without a body', async () => {
      for (const path of ['/status', '/v1/blocks?height=100', '/v1/blocks?height=160', '/nothing']) {
        const [full, head] = [await get(path), await get(path, { method: 'HEAD' })];
        expect(head.status).toBe(full.status);
        expect(head.body).toBeUndefined();
        expect(head.headers.get('content-type')).toBe('application/json; charset=UTF-8');
        expect(head.headers.get('content-length')).toBe(full.headers.get('content-length'));
      }
    });

    it('bounds the URL, the headers and the body, and survives what is no HTTP', async () => {
      const { port } = served;
      const send = (text: string) => sendRaw(port, text);
      expect(await send(`GET /status HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`)).toMatch(
        /^HTTP\/1\.1 431 [^]*"reason":"too_large"/,
      );
      expect(await send('GET /status HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n')).toMatch(
        /^HTTP\/1\.1 413 [^]*"reason":"too_large"/,
      );
      expect(await send('GET /status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')).toMatch(
        /^HTTP\/1\.1 413 /,
      );
      expect(await send('hello\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [^]*"reason":"bad_request"/);
      expect(await send('GET /v1/blocks/%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')).toMatch(
        /^HTTP\/1\.1 400 [^]*"code":400/,
      );
      expect((await get('/status')).status).toBe(200);
    });
  });

  describe('errors behind it', () => {
    it('tells the caller that a record is damaged, the log what and where, once', async () => {
      served.store.transaction = () =>
        Promise.reject(new StorageError('corrupt', 'body of height 7: wrong checksum'));
      for (const path of [`/v1/transactions/${idOf('a')}`, `/lookup/transaction/${idOf('a')}`]) {
        expect(await get(path)).toMatchObject({
          status: 503,
          body: { code: 503, reason: 'healing', message: expect.stringContaining('damaged') as string },
        });
      }
      expect(served.logger.records).toEqual([
        {
          level: 'error',
          message: 'a read failed',
          fields: expect.objectContaining({ kind: 'corrupt' }) as object,
        },
      ]);
    });

    it('hands an error that nobody foresaw to its owner', async () => {
      const bug = new TypeError('cannot read properties of undefined');
      served.store.collection = () => Promise.reject(bug);
      const answer = await get(`/v1/collections/${idOf('a')}`);
      expect(answer).toMatchObject({ status: 500, body: { code: 500, message: 'internal server error' } });
      expect(served.takeFailures()).toEqual([bug]);
    });
  });
});
