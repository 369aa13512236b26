import type { ServiceError } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import type { Identifier } from '../../../src/flow/index.js';
import { refusalOf } from '../../support/grpcProbe.js';
import type { GrpcProbe, Message } from '../../support/grpcProbe.js';
import { servedOverGrpc } from '../../support/servedOverGrpc.js';
import { idOf, smallChain, transactionWith } from '../../support/smallChain.js';
import { VirtualClock } from '../../support/virtualClock.js';
import { systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';

const FIRST = 100;
const LATEST = 119;
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';
const one = transactionWith({ gasLimit: 1n });
const two = transactionWith({ gasLimit: 2n });
const chain = smallChain(
  FIRST,
  Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? [[one, two], []] : [])),
);
const bytes = (id: Identifier): Buffer => Buffer.from(id, 'hex');
const blockOf = (height: number) => chain[height - FIRST]!.block;

let served: Awaited<ReturnType<typeof servedOverGrpc>>;

async function serve(clock: Clock = systemClock): Promise<GrpcProbe> {
  served = await servedOverGrpc(chain.slice(0, LATEST + 1 - FIRST), { sealed: 115, head: 130, clock });
  return served.probe();
}

const commit = (count: number): Promise<void> => {
  const from = served.index.store.latestIndexedHeight() + 1 - FIRST;
  return served.index.commit(chain.slice(from, from + count));
};

const heightsOf = (messages: readonly Message[]): number[] =>
  messages.map((message) => {
    const { block, indexed } = message as Record<string, Message>;
    return Number((block ?? indexed)!['height']);
  });
const upwards = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);

/** What they give, beside a node: test/e2e/grpc.test.ts. What they promise as every stream does: streams.test.ts. */
describe('SubscribeBlocks and SubscribeBlockDigests', () => {
  it.each([
    [
      'SubscribeBlockDigestsFromStartHeight',
      { start_block_height: '9007199254740993' },
      'INVALID_ARGUMENT',
      'invalid_argument',
    ],
    ['SubscribeBlocksFromStartBlockID', { start_block_id: bytes(idOf('nobody')) }, 'NOT_FOUND', 'unknown_id'],
    [
      'SubscribeBlocksFromStartBlockID',
      { start_block_id: Buffer.alloc(3) },
      'INVALID_ARGUMENT',
      'malformed_id',
    ],
    ['SubscribeBlocksFromLatest', { block_status: 'BLOCK_UNKNOWN' }, 'INVALID_ARGUMENT', 'invalid_argument'],
    ['SubscribeBlockDigestsFromLatest', { block_status: 7 }, 'INVALID_ARGUMENT', 'invalid_argument'],
    ['SubscribeBlocksFromLatest', { full_block_response: true }, 'UNIMPLEMENTED', 'not_served'],
    [
      'SubscribeBlocksFromStartHeight',
      { start_block_height: 110, full_block_response: true },
      'UNIMPLEMENTED',
      'not_served',
    ],
  ] as const)('%s of %j is refused', async (method, request, code, reason) => {
    const client = await serve();
    const call = client.follow(method, { block_status: 'BLOCK_FINALIZED', ...request }).ended();
    expect(await refusalOf(call)).toMatchObject({ code, metadata: { reason } });
  });

  it('say how far the index is where that matters', async () => {
    const client = await serve();
    const request = { start_block_height: 99, block_status: 'BLOCK_FINALIZED' };
    expect(await refusalOf(client.follow('SubscribeBlocksFromStartHeight', request).ended())).toEqual({
      code: 'INVALID_ARGUMENT',
      details: 'height 99 is below the first indexed height 100',
      metadata: {
        ...{ reason: 'below_first_indexed', 'first-indexed': '100' },
        ...{ 'latest-indexed': '119', head: '130' },
      },
    });
  });

  it('name of very many ranges those next to the height', async () => {
    const client = await serve();
    const coverage = Array.from({ length: 40 }, (_, index) => ({ from: 1 + 2 * index, to: 1 + 2 * index }));
    served.index.change({ coverage: [...coverage, { from: FIRST, to: LATEST }] });
    const refused = async (height: number): Promise<string[]> => {
      const request = { start_block_height: height, block_status: 'BLOCK_FINALIZED' };
      const ended = client.follow('SubscribeBlocksFromStartHeight', request).ended();
      const error = await ended.then(
        () => undefined,
        (reason: unknown) => reason as ServiceError,
      );
      return String(error?.metadata.get('coverage')[0]).split(',');
    };
    const lowest = await refused(0);
    expect([lowest.length, lowest[0], lowest.at(-1)]).toEqual([16, '1-1', '31-31']);
    const middle = await refused(40);
    expect([middle.length, middle[0], middle.at(-1)]).toEqual([16, '25-25', '55-55']);
  });
});

describe('SubscribeIndexedHeights', () => {
  const seen = (height: number, id: Identifier) => ({ last_seen: { height, block_id: bytes(id) } });

  it('tells of every height what is indexed of it', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeIndexedHeights', { start_height: 114 });
    const messages = await reader.first(3);
    const { block, collections } = chain[14]!;
    expect(messages[0]).toEqual({
      event: 'indexed',
      indexed: {
        height: '114',
        block_id: bytes(block.id),
        parent_id: bytes(block.parentId),
        timestamp: expect.objectContaining({ nanos: 120_000_000 }) as object,
        collections: [
          { collection_id: bytes(collections[0]!.id), transaction_count: 2 },
          { collection_id: bytes(collections[1]!.id), transaction_count: 0 },
        ],
        is_sealed: true,
        is_proven: false,
      },
    });
    expect(messages[2]!['indexed']).toMatchObject({ is_sealed: false });
    reader.cancel();
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
    const odd = client.follow('SubscribeIndexedHeights', { finality: 7 });
    expect(await refusalOf(odd.ended())).toMatchObject({ metadata: { reason: 'invalid_argument' } });
  });

  it('begins with what is indexed next when it is told nothing', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeIndexedHeights', {});
    // It has begun once a call that was sent behind it is answered, and then some.
    while (served.feed.followers === 0) await client.call('Ping');
    await commit(2);
    expect(heightsOf(await reader.first(2))).toEqual([120, 121]);
    reader.cancel();
  });

  it('names the block to go back to', async () => {
    const client = await serve();
    expect(await client.take('SubscribeIndexedHeights', seen(117, idOf('a lie')), 1)).toEqual([
      { event: 'rewind', rewind: { height: '116', block_id: bytes(blockOf(116).id) } },
    ]);
  });

  it.each([
    [seen(98, idOf('old')), 'INVALID_ARGUMENT', 'below_first_indexed'],
    [{ last_seen: { height: 110, block_id: Buffer.alloc(5) } }, 'INVALID_ARGUMENT', 'malformed_id'],
  ] as const)('of %j is refused', async (request, code, reason) => {
    const client = await serve();
    const call = client.follow('SubscribeIndexedHeights', request).ended();
    expect(await refusalOf(call)).toMatchObject({ code, metadata: { reason } });
  });

  it('is named by the health service', async () => {
    const client = await serve();
    expect(await client.health(INDEX_API)).toEqual({ status: 'SERVING' });
  });
});

describe('a stream', () => {
  const blocks = { start_block_height: 100, block_status: 'BLOCK_FINALIZED' };

  it('has no limit in time', async () => {
    const virtual = new VirtualClock();
    const client = await serve(virtual);
    const reader = client.follow('SubscribeBlocksFromStartHeight', blocks);
    while (reader.messages.length < 20) await virtual.advance(1);
    await virtual.advance(3_600_000);
    await commit(1);
    while (reader.messages.length < 21) await virtual.advance(1);
    expect(heightsOf(reader.messages)).toEqual(upwards(100, 21));
    reader.cancel();
  });
});
