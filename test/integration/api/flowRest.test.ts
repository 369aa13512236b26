import { beforeEach, describe, expect, it } from 'vitest';
import { chainOf, EventReader, ServedChain, transactionIds, transactionWith } from '../../support/index.js';
import { until } from '../../support/index.js';

const FIRST = 100;
const SEALED = 105;
const repeated = transactionWith({ gasLimit: 7n });
/** Heights 100 to 109. Even ones have collections, one of them empty. */
const chain = chainOf(FIRST, 10, (index) =>
  index % 2 === 0 ? [[transactionWith({ gasLimit: BigInt(index) }), repeated], [], [repeated]] : [],
);
const blockAt = (height: number) => chain[height - FIRST]!;
const idAt = (height: number): string => blockAt(height).block.id;
const collectionId = blockAt(102).collections[0]!.id;
const [transactionId = ''] = transactionIds(blockAt(102), 0);

let served: ServedChain;

beforeEach(async () => {
  served = await ServedChain.start(chain, { sealed: SEALED, head: 120 });
});

/** A list in every form in which a client may write it; the first is the plain one. */
function spellings(items: readonly string[]): readonly string[] {
  const texts = [items.join(','), ` ${items.join(' , ')} `, `${items.join(',')},`];
  const bare = [...texts, items.join(' '), items.join('  ')];
  return [...bare, ...bare.map((text) => `[${text}]`)];
}

/** The same for a parameter, which may also be given several times. */
function asParameter(name: string, items: readonly string[]): readonly string[] {
  const one = (text: string) => `${name}=${encodeURIComponent(text)}`;
  const repeated = [items, items.map((item) => `[${item}]`), [...items, '']];
  const gone = one(`[${items.join(' ')}]`).replaceAll('%20', '+');
  return [...spellings(items).map(one), gone, ...repeated.map((each) => each.map(one).join('&'))];
}

const heights = ['102', '104'];
const ids = heights.map((height) => idAt(Number(height)));

it.each([
  ['height', heights, (list: string) => `/v1/blocks?${list}`],
  ['start_height', ['102'], (list: string) => `/v1/blocks?${list}&end_height=104`],
  ['end_height', ['104'], (list: string) => `/v1/blocks?start_height=102&${list}`],
  ['expand', ['unknown', 'payload'], (list: string) => `/v1/blocks/${ids[0]}?${list}`],
  ['expand', ['transactions'], (list: string) => `/v1/collections/${collectionId}?${list}`],
  ['expand', ['transactions'], (list: string) => `/v1/blocks/102/collections?${list}`],
  ['expand', ['execution_result'], (list: string) => `/v1/blocks?height=102&${list}`],
  ['expand', ['result'], (list: string) => `/v1/transactions?block_height=102&${list}`],
  ['select', ['header.id', 'header.height'], (list: string) => `/v1/blocks?height=102,104&${list}`],
  ['block_id', [ids[0]!], (list: string) => `/v1/transactions?${list}`],
  ['block_height', ['102'], (list: string) => `/v1/transactions?${list}`],
  ['from', ['102'], (list: string) => `/export?${list}&to=104`],
  ['to', ['104'], (list: string) => `/export?from=102&${list}`],
] as const)('a list means the same in every form %s=%j', async (name, items, pathOf) => {
  const [plain, ...others] = await Promise.all(
    asParameter(name, items).map(async (list) => {
      const { status, body, headers } = await served.get(pathOf(list));
      return { status, body, tag: headers.get('etag') };
    }),
  );
  expect(others.length).toBeGreaterThan(8);
  for (const other of others) expect(other).toEqual(plain);
});

it('a list means the same in every form the ids in a path, and where an event stream begins', async () => {
  const plain = await served.get(`/v1/blocks?height=${heights.join()}`);
  for (const list of spellings(ids))
    expect((await served.get(`/v1/blocks/${encodeURIComponent(list)}`)).body).toEqual(plain.body);
  for (const list of asParameter('from', ['102'])) {
    const reader = await EventReader.open(`${served.url}/events?${list}`);
    expect(await reader.first(1)).toMatchObject([{ event: 'height', data: { height: 102 } }]);
  }
});

describe('/v1/blocks/{id or height}/collections', () => {
  const { collections } = blockAt(102);
  const ids = [transactionIds(blockAt(102), 0), [], transactionIds(blockAt(102), 2)];

  it('answers all collections of a block in order, with the ids of their transactions', async () => {
    const byId = await served.get(`/v1/blocks/${idAt(102)}/collections`);
    expect(byId.status).toBe(200);
    expect(byId.body).toEqual({
      block_id: idAt(102),
      height: '102',
      collections: collections.map(({ id }, index) => ({
        id,
        transaction_ids: ids[index],
        _expandable: { transactions: ids[index]!.map((one) => `/v1/transactions/${one}`) },
        _links: { _self: `/v1/collections/${id}` },
      })),
      _links: { _self: `/v1/blocks/${idAt(102)}/collections` },
    });
    expect((await served.get('/v1/blocks/102/collections')).body).toEqual(byId.body);
    const listed = byId.body as { collections: { id: string; transaction_ids: string[] }[] };
    for (const { transaction_ids: _, ...one } of listed.collections)
      expect((await served.get(`/v1/collections/${one.id}`)).body).toEqual(one);
  });

  it('holds the bodies when they are expanded, as the collections themselves do', async () => {
    const { body } = await served.get('/v1/blocks/102/collections?expand=transactions');
    const alone = await Promise.all(
      collections.map(async ({ id }) => (await served.get(`/v1/collections/${id}?expand=transactions`)).body),
    );
    expect((body as { collections: unknown[] }).collections).toEqual(
      alone.map((one, index) => ({ ...(one as object), transaction_ids: ids[index], _expandable: {} })),
    );
  });

  it('selects fields through the list', async () => {
    const { body } = await served.get('/v1/blocks/102/collections?select=height,collections.id');
    expect(body).toEqual({ height: '102', collections: collections.map(({ id }) => ({ id })) });
  });

  it.each([
    ['are gone', 999],
    ['are those of another block', 101],
  ])('does not answer with collections that %s meanwhile', async (_, instead) => {
    const read = served.store.wholeBlock.bind(served.store);
    served.store.wholeBlock = () => read(instead);
    const answer = await served.get(`/v1/blocks/${idAt(102)}/collections`);
    expect(answer).toMatchObject({ status: 404, body: { reason: 'not_yet_indexed' } });
  });

  it('is made for a few callers at a time, and others are answered meanwhile', async () => {
    const { store } = served;
    const read = store.wholeBlock.bind(store);
    let [reading, most] = [0, 0];
    let letGo = (): void => undefined;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    store.wholeBlock = async (height) => {
      reading += 1;
      most = Math.max(most, reading);
      await held;
      reading -= 1;
      return read(height);
    };
    const asked = Array.from({ length: 20 }, () => served.get('/v1/blocks/102/collections'));
    await until(async () => reading === 4);
    expect((await served.get('/v1/blocks?height=102')).status).toBe(200);
    letGo();
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status)).toEqual(asked.map(() => 200));
    expect(most).toBe(4);
  });
});

it.each([
  `/v1/blocks/${idAt(102)}`,
  `/v1/blocks/${idAt(102)}/payload`,
  `/v1/blocks/${idAt(102)}/collections`,
  `/v1/collections/${collectionId}`,
  `/v1/transactions/${transactionId}`,
  `/v1/transactions?block_id=${idAt(102)}`,
])('an id may stand behind 0x, or in upper case, and a slash twice: %s', async (path) => {
  const bare = await served.get(path);
  expect(bare.status).toBe(200);
  const upper = path.replace(/[0-9a-f]{64}/, (id) => id.toUpperCase());
  for (const other of [path.replace(/[0-9a-f]{64}/, '0x$&'), upper, `/${path}`, path.replace('/v1', '$&/')])
    expect(await served.get(other)).toMatchObject({ status: 200, body: bare.body });
});

describe('the transactions of a block', () => {
  it('answers the transactions of the collections in order, also those that stand there twice', async () => {
    const { body } = await served.get(`/v1/transactions?block_id=${idAt(102)}`);
    const ids = [...transactionIds(blockAt(102), 0), ...transactionIds(blockAt(102), 2)];
    const alone = await Promise.all(ids.map(async (id) => (await served.get(`/v1/transactions/${id}`)).body));
    expect(body).toEqual(alone);
    expect(alone[0]).toMatchObject({
      _expandable: { result: `/v1/transaction_results/${ids[0]}` },
      payload_signatures: [expect.not.objectContaining({ extension_data: '' })],
    });
    expect((await served.get(`/v1/transactions?block_id=${idAt(103)}`)).body).toEqual([]);
    const selected = await served.get(`/v1/transactions?block_id=${idAt(102)}&select=id`);
    expect(selected.body).toEqual(ids.map((id) => ({ id })));
  });

  it.each([
    ['block_height=102', 102],
    ['block_height=final', 109],
    ['block_height=sealed', 105],
    ['', 105],
    ['block_id=', 105],
  ])('are found by ?%s too', async (query, height) => {
    const { body } = await served.get(`/v1/transactions?block_id=${idAt(height)}`);
    expect(await served.get(`/v1/transactions?${query}`)).toMatchObject({ status: 200, body });
  });

  it.each([
    '/v1/blocks?height=102&expand=nothing,result',
    `/v1/blocks/${idAt(102)}?expand=events`,
    `/v1/blocks/${idAt(102)}/payload?expand=block_seals`,
    `/v1/blocks/${idAt(102)}/collections?expand=result`,
    `/v1/transactions?block_id=${idAt(102)}&expand=payload`,
  ])('and all else is answered as if %s had no such expansion', async (path) => {
    const { body } = await served.get(path.replace(/[?&]expand=.*$/, ''));
    expect(await served.get(path)).toMatchObject({ status: 200, body });
  });
});

it('/v1/network/parameters and /v1/node_version_info say which chain is indexed, and which heights of it', async () => {
  const spork = { rootHeight: 90, sporkId: 'ab'.repeat(32) };
  const served = await ServedChain.start(chain, { sealed: SEALED }, { spork });
  expect((await served.get('/v1/network/parameters')).body).toEqual({ chain_id: 'flow-localnet' });
  expect((await served.get('/v1/node_version_info')).body).toEqual({
    ...{ semver: 'v0.1.0', commit: '', spork_id: spork.sporkId, protocol_version: '0' },
    ...{ protocol_state_version: '0', spork_root_block_height: '90', node_root_block_height: '100' },
    compatible_range: { start_height: '100', end_height: '109' },
  });
});

it('/v1/network/parameters and /v1/node_version_info have no range while nothing is indexed', async () => {
  served.range = { firstIndexed: 100, latestIndexed: 99, head: 120, sealed: null };
  const early = (await served.get('/v1/node_version_info')).body;
  expect(early).toMatchObject({ spork_id: '', spork_root_block_height: '0', node_root_block_height: '100' });
  expect(early).not.toHaveProperty('compatible_range');
  const message = expect.stringContaining('(latest none, head 120)') as string;
  expect((await served.get('/v1/blocks?height=final')).body).toMatchObject({ message });
});
