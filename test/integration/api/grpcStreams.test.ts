import { connect as connectHttp2 } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import type { ServiceError } from '@grpc/grpc-js';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ChangeFeed, IndexedRange } from '../../../src/api/index.js';
import { decodeBlock } from '../../../src/flow/index.js';
import type { Identifier } from '../../../src/flow/index.js';
import { StorageError } from '../../../src/storage/index.js';
import type { HeightRange } from '../../../src/storage/index.js';
import { atEnd } from '../../support/cleanup.js';
import { refusalOf } from '../../support/grpcProbe.js';
import type { GrpcProbe, Message } from '../../support/grpcProbe.js';
import { MemoryIndexStore } from '../../support/memoryIndexStore.js';
import { grpcOver } from '../../support/servedOverGrpc.js';
import { branchAbove, idOf, smallChain, transactionWith } from '../../support/smallChain.js';
import { VirtualClock } from '../../support/virtualClock.js';
import { systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';

const FIRST = 100;
const LATEST = 119;
const SEALED = 115;
const INDEX_API = 'flow_collection_indexer.v1.IndexAPI';
const one = transactionWith({ gasLimit: 1n });
const two = transactionWith({ gasLimit: 2n });
const chain = smallChain(
  FIRST,
  Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? [[one, two], []] : [])),
);
const bytes = (id: Identifier): Buffer => Buffer.from(id, 'hex');
const blockOf = (height: number) => chain[height - FIRST]!.block;

let store: MemoryIndexStore;
let feed: ChangeFeed;
let served: Awaited<ReturnType<typeof grpcOver>>;
let range: { sealed: number | null; head: number | null };
let coverage: HeightRange[] | undefined;
let proven: HeightRange | undefined;
let clock: Clock;

const rangeNow = (): IndexedRange => ({
  ...{ firstIndexed: FIRST, latestIndexed: store.latestIndexedHeight() },
  ...range,
  ...(coverage === undefined ? {} : { coverage }),
  proven,
});

async function serve(on: Clock = systemClock): Promise<GrpcProbe> {
  clock = on;
  served = await grpcOver(store, rangeNow, { clock });
  feed = served.feed;
  return served.probe();
}

async function commit(count: number): Promise<void> {
  const from = store.latestIndexedHeight() + 1 - FIRST;
  const blocks = chain.slice(from, from + count);
  await store.commit({ blocks, latestIndexedHeight: store.latestIndexedHeight() + blocks.length });
  feed.notify();
}

beforeEach(async () => {
  coverage = undefined;
  proven = undefined;
  range = { sealed: SEALED, head: 130 };
  store = await MemoryIndexStore.startingAt(FIRST);
  await store.commit({ blocks: chain.slice(0, LATEST + 1 - FIRST), latestIndexedHeight: LATEST });
});

/** As a Flow client sees a block. */
function blockMessage(height: number): object {
  const { id, parentId, encoded } = blockOf(height);
  const { timestamp, guarantees, signatures } = decodeBlock(encoded);
  return {
    id: bytes(id),
    parent_id: bytes(parentId),
    height: String(height),
    timestamp: { seconds: String(timestamp!.seconds), nanos: timestamp!.nanos },
    collection_guarantees: guarantees.map(
      (guarantee) => expect.objectContaining({ collection_id: bytes(guarantee.collectionId) }) as object,
    ),
    signatures,
  };
}

function digestMessage(height: number): object {
  const { id, encoded } = blockOf(height);
  const { timestamp } = decodeBlock(encoded);
  return {
    block_id: bytes(id),
    block_height: String(height),
    block_timestamp: { seconds: String(timestamp!.seconds), nanos: timestamp!.nanos },
  };
}

const heightsOf = (messages: readonly Message[]): number[] =>
  messages.map((message) => {
    const { block, indexed, block_height: digest } = message as Record<string, Message>;
    return Number(digest ?? (block ?? indexed)!['height']);
  });
const upwards = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);

describe('SubscribeBlocks and SubscribeBlockDigests', () => {
  it.each([
    ['FromStartHeight', { start_block_height: 117 }, 117],
    ['FromStartBlockID', { start_block_id: bytes(blockOf(116).id) }, 116],
    // As with an access node, the latest is the latest sealed one.
    ['FromLatest', {}, SEALED],
  ] as const)(
    '%s send what is indexed, then what comes: blocks, or id, height and time',
    async (by, start, from) => {
      const client = await serve();
      const request = { ...start, block_status: 'BLOCK_FINALIZED' };
      const blocks = client.follow(`SubscribeBlocks${by}`, request);
      const digests = client.follow(`SubscribeBlockDigests${by}`, request);
      const there = LATEST + 1 - from;
      expect(heightsOf(await blocks.first(there))).toEqual(upwards(from, there));
      await digests.first(there);
      await commit(3);
      const messages = await blocks.first(there + 3);
      expect(heightsOf(messages)).toEqual(upwards(from, there + 3));
      expect(messages[0]!['block']).toMatchObject(blockMessage(from));
      expect(await digests.first(there + 3)).toEqual(upwards(from, there + 3).map(digestMessage));
      blocks.cancel();
      digests.cancel();
    },
  );

  it('of sealed blocks follow the sealed head, and what is indexed below it', async () => {
    const client = await serve();
    const request = { start_block_height: 114, block_status: 'BLOCK_SEALED' };
    const reader = client.follow('SubscribeBlocksFromStartHeight', request);
    expect(heightsOf(await reader.first(2))).toEqual([114, 115]);
    range = { sealed: 117, head: 130 };
    feed.notify();
    expect(heightsOf(await reader.first(4))).toEqual([114, 115, 116, 117]);
    expect(reader.messages.length).toBe(4);
    range = { sealed: 130, head: 130 };
    feed.notify();
    expect(heightsOf(await reader.first(6))).toEqual(upwards(114, 6));
    await commit(1);
    expect(heightsOf(await reader.first(7))).toEqual(upwards(114, 7));
    reader.cancel();
  });

  it('can be asked for a height that is not there yet', async () => {
    const client = await serve();
    const request = { start_block_height: 121, block_status: 'BLOCK_FINALIZED' };
    const reader = client.follow('SubscribeBlocksFromStartHeight', request);
    await commit(1);
    await commit(2);
    expect(heightsOf(await reader.first(2))).toEqual([121, 122]);
    reader.cancel();
  });

  it.each([
    ['SubscribeBlocksFromStartHeight', { start_block_height: 99 }, 'INVALID_ARGUMENT', 'below_first_indexed'],
    ['SubscribeBlocksFromStartHeight', { start_block_height: 132 }, 'NOT_FOUND', 'not_yet_indexed'],
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
    coverage = Array.from({ length: 40 }, (_, index) => ({ from: 1 + 2 * index, to: 1 + 2 * index }));
    coverage.push({ from: FIRST, to: LATEST });
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
    await commit(1);
    const messages = await reader.first(7);
    expect(heightsOf(messages)).toEqual(upwards(114, 7));
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

  it('waits for the proof of each height where it is asked to', async () => {
    proven = { from: FIRST, to: 116 };
    const client = await serve();
    const asked = { finality: 'FINALITY_PROVEN' };
    const reader = client.follow('SubscribeIndexedHeights', { ...asked, start_height: 115 });
    // It has seen what is not proven yet: nothing was taken back.
    const ahead = client.follow(
      'SubscribeIndexedHeights',
      { ...asked, ...seen(118, blockOf(118).id) },
      INDEX_API,
    );
    const astray = client.follow(
      'SubscribeIndexedHeights',
      { ...asked, ...seen(118, idOf('a lie')) },
      INDEX_API,
    );
    expect(heightsOf(await reader.first(2))).toEqual([115, 116]);
    while (feed.followers < 3) await client.call('Ping');
    proven = { from: FIRST, to: LATEST };
    feed.notify();
    const messages = await reader.first(5);
    expect(heightsOf(messages)).toEqual(upwards(115, 5));
    expect(messages.map(({ indexed }) => (indexed as Message)['is_proven'])).not.toContain(false);
    expect(heightsOf(await ahead.first(1))).toEqual([119]);
    expect(await refusalOf(astray.ended())).toMatchObject({ metadata: { reason: 'rewound' } });
    reader.cancel();
    ahead.cancel();
    const odd = client.follow('SubscribeIndexedHeights', { finality: 7 });
    expect(await refusalOf(odd.ended())).toMatchObject({ metadata: { reason: 'invalid_argument' } });
  });

  it('begins with what is indexed next when it is told nothing', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeIndexedHeights', {});
    // It has begun once a call that was sent behind it is answered, and then some.
    while (feed.followers === 0) await client.call('Ping');
    await commit(2);
    expect(heightsOf(await reader.first(2))).toEqual([120, 121]);
    reader.cancel();
  });

  it('goes on behind the last block that was seen', async () => {
    const client = await serve();
    const request = seen(117, blockOf(117).id);
    const reader = client.follow('SubscribeIndexedHeights', request);
    expect(heightsOf(await reader.first(2))).toEqual([118, 119]);
    reader.cancel();
  });

  it.each([
    ['above the watermark', seen(125, blockOf(125).id), 119],
    ['that is another one here', seen(117, idOf('a lie')), 116],
  ])('tells how far to go back for a block %s', async (_, request, height) => {
    const client = await serve();
    const reader = client.follow('SubscribeIndexedHeights', request);
    const [rewind] = await reader.first(1);
    expect(rewind).toEqual({
      event: 'rewind',
      rewind: { height: String(height), block_id: bytes(blockOf(height).id) },
    });
    await commit(1);
    const next = await reader.first(2 + 120 - height - 1);
    expect(heightsOf(next.slice(1))).toEqual(upwards(height + 1, 120 - height));
    reader.cancel();
  });

  it.each([
    [{ start_height: 99 }, 'INVALID_ARGUMENT', 'below_first_indexed'],
    [seen(98, idOf('old')), 'INVALID_ARGUMENT', 'below_first_indexed'],
    [{ start_height: 132 }, 'NOT_FOUND', 'not_yet_indexed'],
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

describe('a stream of what another process takes back', () => {
  it.each([
    ['SubscribeBlocksFromStartHeight', { start_block_height: 117, block_status: 'BLOCK_FINALIZED' }],
    ['SubscribeBlockDigestsFromStartHeight', { start_block_height: 117, block_status: 'BLOCK_FINALIZED' }],
    ['SubscribeIndexedHeights', { start_height: 117 }],
    ['SubscribeIndexedBlocks', { start_height: 117 }],
  ] as const)('%s ends, and says so', async (method, request) => {
    const client = await serve();
    const api = method.startsWith('SubscribeIndexed') ? INDEX_API : undefined;
    const reader = client.follow(method, request, api);
    const ended = refusalOf(reader.ended());
    const given = (): number =>
      reader.messages.flatMap((message) => (message['blocks'] as Message[] | undefined) ?? [message]).length;
    while (given() < 3) await client.call('Ping');
    await store.rewind(118);
    await store.commit({ blocks: branchAbove(118, 4), latestIndexedHeight: 122 });
    feed.notify();
    expect(await ended).toMatchObject({ code: 'ABORTED', metadata: { reason: 'rewound' } });
    expect(feed.followers).toBe(0);
    if (method !== 'SubscribeIndexedHeights') return;
    const lastSeen = { last_seen: { height: 119, block_id: bytes(blockOf(119).id) } };
    const again = client.follow(method, lastSeen);
    const [first, ...rest] = await again.first(5);
    expect(first).toMatchObject({ rewind: { height: '118', block_id: bytes(blockOf(118).id) } });
    expect(heightsOf(rest)).toEqual(upwards(119, 4));
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

  it('ends with the daemon', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeBlocksFromStartHeight', blocks);
    await reader.first(20);
    const ended = refusalOf(reader.ended());
    await feed.close();
    await served.server.close();
    expect(await ended).toMatchObject({ code: 'UNAVAILABLE', metadata: { reason: 'stopping' } });
  });

  it('of a caller who has gone is let go', async () => {
    const client = await serve();
    const reader = client.follow('SubscribeBlocksFromStartHeight', blocks);
    await reader.first(20);
    expect(feed.followers).toBe(1);
    reader.cancel();
    while (feed.followers > 0) await client.call('Ping');
  });

  /** HTTP/2 without a gRPC client's good manners, and a stream from height 100 on. */
  async function rawStream(settings: object): Promise<[ClientHttp2Session, ClientHttp2Stream]> {
    const session = connectHttp2(`http://127.0.0.1:${served.port}`, { settings });
    session.on('error', () => undefined);
    atEnd(() => session.destroy());
    await new Promise((resolve) => session.once('remoteSettings', resolve));
    const stream = session.request({
      ...{ ':method': 'POST', ':path': '/flow.access.AccessAPI/SubscribeBlocksFromStartHeight' },
      ...{ 'content-type': 'application/grpc', te: 'trailers' },
    });
    stream.on('error', () => undefined);
    const message = Buffer.from([0x08, 100, 0x10, 1]);
    stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]));
    return [session, stream];
  }

  it('leaves its caller as many pings as it needs to measure its way', async () => {
    const [large] = smallChain(FIRST, [Array.from({ length: 3_000 }, () => [])]);
    const virtual = new VirtualClock();
    const client = await serve(virtual);
    const stored = { block: large!.block, transactionCounts: [] };
    store.blockByHeight = () => Promise.resolve(stored);
    const [session, stream] = await rawStream({});
    let taken = 0;
    stream.on('data', (chunk: Buffer) => (taken += chunk.length));
    while (taken < 20 * large!.block.encoded.length) await virtual.settle();
    const ping = (): Promise<void> =>
      new Promise((resolve, reject) => {
        session.ping((error) => (error === null ? resolve() : reject(error)));
      });
    // More than a call may bring along where nothing is sent.
    for (let count = 0; count < 13_000; count += 10) await Promise.all(Array.from({ length: 10 }, ping));
    await virtual.advance(10_000);
    await client.call('Ping');
    await ping();
    expect(session.destroyed).toBe(false);
  });

  it('of a caller who takes nothing is cut, with its connection', async () => {
    const virtual = new VirtualClock();
    await serve(virtual);
    const [session] = await rawStream({ initialWindowSize: 0 });
    while (feed.followers === 0) await virtual.turn();
    await virtual.settle();
    await virtual.advance(29_000);
    expect(feed.followers).toBe(1);
    const cut = new Promise<void>((resolve) => session.once('close', resolve));
    await virtual.advance(6_000);
    expect(feed.followers).toBe(0);
    await virtual.advance(20_000);
    await cut;
  });

  it('tells of a damaged record', async () => {
    const read = store.blockByHeight.bind(store);
    store.blockByHeight = (height) =>
      height === 102 ? Promise.reject(new StorageError('corrupt', 'block 102 is damaged')) : read(height);
    const client = await serve();
    const reader = client.follow('SubscribeBlocksFromStartHeight', blocks);
    expect(await refusalOf(reader.ended())).toMatchObject({
      code: 'UNAVAILABLE',
      metadata: { reason: 'healing' },
    });
    expect(heightsOf(reader.messages)).toEqual([100, 101]);
  });
});
