import type { ServiceError } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import type { Identifier } from '../../../src/flow/index.js';
import { chainOf, idOf, refusalOf, servedOverGrpc, transactionWith } from '../../support/index.js';
import { numbers, VirtualClock, type GrpcProbe, type Message } from '../../support/index.js';

const FIRST = 100;
const LATEST = 119;
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';
const one = transactionWith({ gasLimit: 1n });
const two = transactionWith({ gasLimit: 2n });
/** Two of these are more than one message takes. */
const large = transactionWith({ script: Buffer.alloc(200_000, 'x') });
const BIG = 110;
const chain = chainOf(FIRST, 40, (index) => {
  if (FIRST + index === BIG) return [[large], [large]];
  return index % 2 === 0 ? [[one, two], []] : [];
});
const bytes = (id: Identifier): Buffer => Buffer.from(id, 'hex');
const blockOf = (height: number) => chain[height - FIRST]!.block;
const seen = (height: number, id: Identifier) => ({ last_seen: { height, block_id: bytes(id) } });

let served: Awaited<ReturnType<typeof servedOverGrpc>>;

async function serve(parts: { readonly clock?: VirtualClock } = {}): Promise<GrpcProbe> {
  const there = chain.slice(0, LATEST + 1 - FIRST);
  served = await servedOverGrpc(there, { sealed: 115, head: 200, ...parts });
  return served.probe();
}

const commit = (count: number): Promise<void> => {
  const from = served.index.store.latestIndexedHeight() + 1 - FIRST;
  return served.index.commit(chain.slice(from, from + count));
};

const heightsOf = (messages: readonly Message[]): number[] =>
  messages
    .flatMap(({ block, blocks, indexed }) => [blocks ?? block ?? indexed].flat() as Message[])
    .map(({ height }) => Number(height));

/** By what they are told. */
const refused: Readonly<Record<string, readonly (readonly [method: string, request: object])[]>> = {
  'INVALID_ARGUMENT invalid_argument': [
    ['SubscribeBlockDigestsFromStartHeight', { start_block_height: '9007199254740993' }],
    ['SubscribeBlocksFromLatest', { block_status: 'BLOCK_UNKNOWN' }],
    ['SubscribeBlockDigestsFromLatest', { block_status: 7 }],
    ['SubscribeIndexedBlocks', { start_height: 110, end_height: 109 }],
    ['SubscribeIndexedBlocks', { start_height: '9007199254740993' }],
    ['SubscribeIndexedHeights', { finality: 7 }],
  ],
  'INVALID_ARGUMENT malformed_id': [
    ['SubscribeBlocksFromStartBlockID', { start_block_id: Buffer.alloc(3) }],
    ['SubscribeIndexedHeights', { last_seen: { height: 110, block_id: Buffer.alloc(5) } }],
  ],
  'NOT_FOUND unknown_id': [['SubscribeBlocksFromStartBlockID', { start_block_id: bytes(idOf('nobody')) }]],
  'UNIMPLEMENTED not_served': [
    ['SubscribeBlocksFromLatest', { full_block_response: true }],
    ['SubscribeBlocksFromStartHeight', { start_block_height: 110, full_block_response: true }],
  ],
};

it.each(Object.entries(refused))('streams of blocks are refused with %s', async (told, calls) => {
  const client = await serve();
  for (const [method, request] of calls) {
    const status = /Indexed/.test(method) ? {} : { block_status: 'BLOCK_FINALIZED' };
    const call = client.follow(method, { ...status, ...request }).ended();
    const { code, metadata } = await refusalOf(call);
    expect(`${code} ${metadata['reason']}`, `${method} ${JSON.stringify(request)}`).toBe(told);
  }
});

it('streams of blocks name of very many ranges those next to the height', async () => {
  const client = await serve();
  const coverage = Array.from({ length: 40 }, (_, index) => ({ from: 1 + 2 * index, to: 1 + 2 * index }));
  served.index.change({ coverage: [...coverage, { from: FIRST, to: LATEST }] });
  for (const [height, lowest, highest] of [
    [0, '1-1', '31-31'],
    [40, '25-25', '55-55'],
  ] as const) {
    const request = { start_block_height: height, block_status: 'BLOCK_FINALIZED' };
    const ended = client.follow('SubscribeBlocksFromStartHeight', request).ended();
    const { metadata } = await ended.catch((reason: unknown) => reason as ServiceError);
    const named = String(metadata.get('coverage')[0]).split(',');
    expect([named.length, named[0], named.at(-1)]).toEqual([16, lowest, highest]);
  }
});

describe('SubscribeIndexedHeights', () => {
  it('tells of every height what is indexed of it', async () => {
    const client = await serve();
    const [told, , above] = await client.take('SubscribeIndexedHeights', { start_height: 114 }, 3);
    const { block, collections } = chain[14]!;
    expect(told).toEqual({
      event: 'indexed',
      indexed: {
        ...{ height: '114', block_id: bytes(block.id), parent_id: bytes(block.parentId) },
        timestamp: expect.objectContaining({ nanos: 120_000_000 }) as object,
        collections: [
          { collection_id: bytes(collections[0]!.id), transaction_count: 2 },
          { collection_id: bytes(collections[1]!.id), transaction_count: 0 },
        ],
        ...{ is_sealed: true, is_proven: false },
      },
    });
    expect(above).toMatchObject({ indexed: { is_sealed: false } });
  });

  it('that waits for proofs takes nothing for taken back that is not proven yet', async () => {
    const client = await serve();
    const proven = (to: number) => served.index.change({ proven: { from: FIRST, to } });
    proven(116);
    const behind = (id: Identifier) =>
      client.follow('SubscribeIndexedHeights', { finality: 'FINALITY_PROVEN', ...seen(118, id) }, INDEX_API);
    const [ahead, astray] = [behind(blockOf(118).id), behind(idOf('a lie'))];
    while (served.feed.followers < 2) await client.call('Ping');
    proven(LATEST);
    expect(heightsOf(await ahead.first(1))).toEqual([119]);
    expect(await refusalOf(astray.ended())).toMatchObject({ metadata: { reason: 'rewound' } });
  });

  it('begins with what is indexed next when it is told nothing, or names the block to go back to', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeIndexedHeights', {});
    // It has begun once a call that was sent behind it is answered, and then some.
    while (served.feed.followers === 0) await client.call('Ping');
    await commit(2);
    expect(heightsOf(await reader.first(2))).toEqual([120, 121]);
    expect(await client.take('SubscribeIndexedHeights', seen(117, idOf('a lie')), 1)).toEqual([
      { event: 'rewind', rewind: { height: '116', block_id: bytes(blockOf(116).id) } },
    ]);
    served.index.range = { firstIndexed: 0, latestIndexed: -1, head: null, sealed: null };
    expect(await client.take('SubscribeIndexedHeights', seen(117, idOf('a lie')), 1)).toEqual([
      { event: 'rewind', rewind: { height: '0', block_id: Buffer.alloc(0) } },
    ]);
  });
});

describe('SubscribeIndexedBlocks', () => {
  const METHOD = 'SubscribeIndexedBlocks';

  it('puts several small blocks into a message, a large one alone, and waits for an end to come', async () => {
    const client = await serve();
    const reader = client.follow(METHOD, { start_height: FIRST, end_height: LATEST });
    await reader.finished();
    expect(heightsOf(reader.messages)).toEqual(numbers(FIRST, FIRST + 19));
    const counts = reader.messages.map((message) => heightsOf([message]).length);
    expect(Math.max(...counts)).toBeGreaterThan(1);
    const holding = reader.messages.find((message) => heightsOf([message]).includes(BIG))!;
    const [{ collections }] = holding['blocks'] as [
      { collections: { transactions: { script: Buffer }[] }[] },
    ];
    // Compared as a whole: byte by byte takes seconds.
    const isWhole = collections.map(({ transactions }) => transactions[0]?.script.equals(large.script));
    expect([heightsOf([holding]), isWhole]).toEqual([[BIG], [true, true]]);
    const further = client.follow(METHOD, { start_height: LATEST, end_height: LATEST + 2 });
    await further.first(1);
    await commit(5);
    await further.finished();
    expect(heightsOf(further.messages)).toEqual(numbers(LATEST, LATEST + 2));
    expect(served.feed.followers).toBe(0);
  });

  it('ends at a hole with the reason, or waits there', async () => {
    const client = await serve();
    const coverage = [
      { from: FIRST, to: 104 },
      { from: 110, to: LATEST },
    ];
    served.index.change({ firstIndexed: 110, coverage });
    const reader = client.follow(METHOD, { start_height: 102 });
    const hole = { code: 'NOT_FOUND', metadata: { reason: 'hole' } };
    expect(await refusalOf(reader.ended())).toMatchObject(hole);
    expect(heightsOf(reader.messages)).toEqual([102, 103, 104]);
    const patient = client.follow(METHOD, { start_height: 102, end_height: 112, wait: true });
    await patient.first(1);
    expect(heightsOf(patient.messages)).toEqual([102, 103, 104]);
    served.index.change({ firstIndexed: FIRST, coverage: [{ from: FIRST, to: LATEST }] });
    await patient.finished();
    expect(heightsOf(patient.messages)).toEqual(numbers(102, 112));
  });
});

it('a stream has no limit in time', async () => {
  const clock = new VirtualClock();
  const client = await serve({ clock });
  const reader = client.follow('SubscribeIndexedHeights', { start_height: FIRST });
  while (reader.messages.length < 20) await clock.advance(1);
  await clock.advance(3_600_000);
  await commit(1);
  while (reader.messages.length < 21) await clock.advance(1);
  expect(heightsOf(reader.messages)).toEqual(numbers(FIRST, FIRST + 20));
});
