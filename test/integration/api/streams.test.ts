import { describe, expect, it } from 'vitest';
import type { changeFeed } from '../../../src/api/index.js';
import { StorageError } from '../../../src/storage/index.js';
import { branchAbove, chainOf, EventReader, idOf, refusalOf, ServedChain } from '../../support/index.js';
import { servedOverGrpc, transactionWith, until, WsClient, type Message } from '../../support/index.js';
import { numbers, type ServerEvent } from '../../support/index.js';
import type { IndexedChain } from '../../support/indexedChain.js';

/** What every stream of blocks promises, whatever it comes over. What is a protocol's own is in a file of its own. */

const FIRST = 100;
const chain = chainOf(FIRST, 40, (index) => (index % 2 === 0 ? [[transactionWith()], []] : []));
const there = chain.slice(0, 20);
const coming = chain.slice(20);
const heads = { sealed: 115, head: 130 };
const idAt = (height: number): string => chain[height - FIRST]!.block.id;

interface Start {
  readonly from?: number;
  readonly behind?: { readonly height: number; readonly id: string };
  readonly finality?: 'sealed' | 'proven';
}

/** A block, or with a height below zero how far was taken back. */
interface Seen {
  readonly height: number;
  readonly isProven?: boolean;
}

interface Reader {
  readonly seen: () => readonly Seen[];
  /** Resolves when there is more, and rejects when there is no more. */
  readonly more: () => Promise<unknown>;
  readonly end: () => Promise<string>;
  readonly leave: () => void;
}

interface Served {
  readonly index: IndexedChain;
  readonly feed: ReturnType<typeof changeFeed>;
  readonly follow: (start: Start) => Promise<Reader>;
  readonly stop: () => Promise<void>;
}

interface Kind {
  readonly name: string;
  readonly can?: readonly ('behind' | 'proven' | 'sealed')[];
  readonly serve: () => Promise<Served>;
  readonly says: Readonly<Record<'rewound' | 'damaged' | 'stopping' | 'below' | 'above', string>>;
}

async function overHttp(follow: (served: ServedChain, start: Start) => Promise<Reader>): Promise<Served> {
  const served = await ServedChain.start(there, heads);
  const stop = () => served.stop();
  return { index: served, feed: served.feed, follow: (start) => follow(served, start), stop };
}

async function followEvents(served: ServedChain, { from, behind, finality }: Start): Promise<Reader> {
  // Where it is told what was seen last, it goes on behind that, whatever `from` says.
  const query = { ...((behind ?? from) && { from: `${from ?? FIRST}` }), ...(finality && { finality }) };
  const path = `/events?${new URLSearchParams(query).toString()}`;
  const headers: Record<string, string> = behind ? { 'last-event-id': `${behind.height}-${behind.id}` } : {};
  const reader = await EventReader.open(served.url + path, headers);
  const reasonIn = (data: unknown): string => {
    const { code, reason } = data as { readonly code: number; readonly reason: string };
    return `${code} ${reason}`;
  };
  const seenIn = ({ event, data }: ServerEvent): readonly Seen[] => {
    const { height, proven } = data as { readonly height: number; readonly proven: boolean };
    if (event === 'end') return [];
    return [event === 'rewind' ? { height: -height } : { height, isProven: proven }];
  };
  return {
    seen: () => reader.events.flatMap(seenIn),
    more: () => reader.first(reader.events.length + 1),
    end: async () => {
      if (reader.status !== 200) return reasonIn((await served.get(path, { headers })).body);
      await reader.over();
      return reasonIn(reader.events.at(-1)?.data);
    },
    leave: () => reader.close(),
  };
}

const followTopic = (topic: string) =>
  async function (served: ServedChain, { from, finality }: Start): Promise<Reader> {
    const client = await WsClient.open(served.url);
    const args = { block_status: finality ?? 'finalized', start_block_height: String(from) };
    client.subscribe('mine', topic, args);
    await client.first(1);
    const isBlock = ({ topic: its }: { readonly topic?: string }) => its === topic;
    return {
      seen: () =>
        client.messages.filter(isBlock).map(({ payload }) => {
          const { header, height } = payload as { header?: { height: string }; height?: string };
          return { height: Number(header?.height ?? height) };
        }),
      more: () => client.first(client.messages.length + 1),
      end: async () => {
        for (let count = 1; ; count += 1) {
          const messages = await client.first(count).catch(() => undefined);
          if (messages === undefined) return `closed ${(await client.closed).code}`;
          const error = messages.at(-1)?.error;
          if (error !== undefined) return String(error.code);
        }
      },
      leave: () => client.socket.close(),
    };
  };

/** As much of the messages as tells what came. */
interface Told {
  readonly block?: { readonly height: string };
  readonly block_height?: string;
  readonly rewind?: { readonly height: string };
  readonly indexed?: { readonly height: string; readonly is_proven: boolean };
  readonly blocks?: readonly { readonly height: string; readonly is_proven: boolean }[];
}

function seenIn({ block, block_height: digest, blocks, indexed, rewind }: Told): readonly Seen[] {
  if (rewind !== undefined) return [{ height: -Number(rewind.height) }];
  const height = block?.height ?? digest;
  if (height !== undefined) return [{ height: Number(height) }];
  const all = [indexed ?? [], blocks ?? []].flat();
  return all.map((each) => ({ height: Number(each.height), isProven: each.is_proven }));
}

const overGrpc = (method: string, requestOf: (start: Start) => object, can: Kind['can'] = []): Kind => ({
  ...{ name: `${method} over gRPC`, can },
  says: {
    ...{ rewound: 'ABORTED rewound', damaged: 'UNAVAILABLE healing', stopping: 'UNAVAILABLE stopping' },
    ...{ below: 'INVALID_ARGUMENT below_first_indexed', above: 'NOT_FOUND not_yet_indexed' },
  },
  serve: async () => {
    const { feed, index, probe, server } = await servedOverGrpc(there, heads);
    const client = probe();
    const follow = async (start: Start): Promise<Reader> => {
      const reader = client.follow(method, requestOf(start));
      return {
        seen: () => reader.messages.flatMap((message: Message) => seenIn(message as Told)),
        more: () => reader.first(reader.messages.length + 1),
        end: async () => {
          const { code, metadata } = await refusalOf(reader.ended());
          return `${code} ${metadata['reason']}`;
        },
        leave: () => reader.cancel(),
      };
    };
    const stop = async () => {
      await feed.close();
      await server.close();
    };
    return { feed, index, follow, stop };
  },
});

const fromBlock = ({ from, finality }: Start) => ({
  start_block_height: from,
  block_status: finality === 'sealed' ? 'BLOCK_SEALED' : 'BLOCK_FINALIZED',
});
const fromHeight = ({ from, behind, finality }: Start) => ({
  ...(from !== undefined && { start_height: from }),
  ...(behind && { last_seen: { height: behind.height, block_id: Buffer.from(behind.id, 'hex') } }),
  ...(finality === 'proven' && { finality: 'FINALITY_PROVEN' }),
});
/** Of WebSocket, only what a client can mend has a word of its own. */
const overWebSocket = { rewound: '409', damaged: '500', stopping: 'closed 1001', below: '404', above: '404' };

const kinds: readonly Kind[] = [
  {
    name: '/events',
    can: ['behind', 'proven'],
    serve: () => overHttp(followEvents),
    says: {
      ...{ rewound: '409 rewound', damaged: '503 healing', stopping: '503 stopping' },
      ...{ below: '404 below_first_indexed', above: '404 not_yet_indexed' },
    },
  },
  ...['blocks', 'block_headers', 'block_digests'].map((topic): Kind => ({
    name: `the topic ${topic} over WebSocket`,
    can: ['sealed'],
    serve: () => overHttp(followTopic(topic)),
    says: overWebSocket,
  })),
  overGrpc('SubscribeBlocksFromStartHeight', fromBlock, ['sealed']),
  overGrpc('SubscribeBlockDigestsFromStartHeight', fromBlock, ['sealed']),
  overGrpc('SubscribeIndexedHeights', fromHeight, ['behind', 'proven']),
  overGrpc('SubscribeIndexedBlocks', fromHeight, ['proven']),
];

const kindsThatCan = (what: NonNullable<Kind['can']>[number]) =>
  kinds.filter(({ can }) => can?.includes(what));

async function first({ seen, more }: Reader, count: number): Promise<readonly Seen[]> {
  while (seen().length < count) await more();
  return seen().slice(0, count);
}
const heightsOf = async (reader: Reader, count: number): Promise<readonly number[]> =>
  (await first(reader, count)).map(({ height }) => height);

describe.each(kinds)('$name', ({ name, says, serve }) => {
  it('gives each height once, in order, as it becomes readable, and lets its caller go', async () => {
    const { feed, follow, index } = await serve();
    const reader = await follow({ from: 114 });
    expect(await heightsOf(reader, 6)).toEqual(numbers(114, 119));
    await index.commit(coming.slice(0, 3));
    expect(await heightsOf(reader, 9)).toEqual(numbers(114, 122));
    expect(feed.followers).toBe(1);
    reader.leave();
    await until(() => feed.followers === 0);
  });

  it('can begin at a height that is not there yet', async () => {
    const { follow, index } = await serve();
    const reader = await follow({ from: 121 });
    await index.commit(coming.slice(0, 1));
    await index.commit(coming.slice(1, 3));
    expect(await heightsOf(reader, 2)).toEqual([121, 122]);
  });

  it('is refused where it would pass over heights, or none is near', async () => {
    const { feed, follow } = await serve();
    expect(await (await follow({ from: 99 })).end()).toBe(says.below);
    expect(await (await follow({ from: 132 })).end()).toBe(says.above);
    expect(feed.followers).toBe(0);
  });

  it('ends where what it gave was taken back, and says so', async () => {
    const { feed, follow, index } = await serve();
    const reader = await follow({ from: 117 });
    await first(reader, 3);
    await index.rewind(118, branchAbove(118, 4));
    expect(await reader.end()).toBe(says.rewound);
    expect(await heightsOf(reader, reader.seen().length)).toEqual(numbers(117, 119));
    expect(feed.followers).toBe(0);
  });

  it('ends where a record is damaged, and says so', async () => {
    const { follow, index } = await serve();
    const { store } = index;
    for (const name of ['blockByHeight', 'wholeBlock'] as const) {
      const read = store[name].bind(store) as (height: number) => Promise<never>;
      store[name] = (height): Promise<never> =>
        height === 118 ? Promise.reject(new StorageError('corrupt', 'block 118 is damaged')) : read(height);
    }
    const other = await follow({ from: 119 });
    const reader = await follow({ from: 117 });
    expect(await reader.end()).toBe(says.damaged);
    // Where several blocks are one message, what lacks some of them is none.
    const isGathered = name.startsWith('SubscribeIndexedBlocks');
    expect(reader.seen().map(({ height }) => height)).toEqual(isGathered ? [] : [117]);
    await index.commit(coming.slice(0, 1));
    expect(await heightsOf(other, 2)).toEqual([119, 120]);
  });

  it('ends with the daemon, and says so', async () => {
    const { follow, stop } = await serve();
    const reader = await follow({ from: 118 });
    await first(reader, 2);
    const ended = reader.end();
    await stop();
    expect(await ended).toBe(says.stopping);
  });
});

it.each(kindsThatCan('sealed'))('$name follows the sealed head where that is asked', async ({ serve }) => {
  const { follow, index } = await serve();
  const reader = await follow({ from: 114, finality: 'sealed' });
  expect(await heightsOf(reader, 2)).toEqual([114, 115]);
  // Who follows what is indexed has all of it by now.
  await first(await follow({ from: 114 }), 6);
  expect(reader.seen()).toHaveLength(2);
  index.change({ sealed: 117 });
  expect(await heightsOf(reader, 4)).toEqual(numbers(114, 117));
  expect(reader.seen()).toHaveLength(4);
  // Nothing is given before it is indexed.
  index.change({ sealed: 130 });
  expect(await heightsOf(reader, 6)).toEqual(numbers(114, 119));
  await index.commit(coming.slice(0, 1));
  expect(await heightsOf(reader, 7)).toEqual(numbers(114, 120));
});

it.each(kindsThatCan('proven'))('$name says what is proven, and can wait for it', async ({ serve }) => {
  const { follow, index } = await serve();
  index.change({ proven: { from: 104, to: 116 } });
  const told = numbers(103, 119).map((height) => ({ height, isProven: height >= 104 && height <= 116 }));
  expect(await first(await follow({ from: 103 }), 17)).toEqual(told);
  const reader = await follow({ from: 115, finality: 'proven' });
  await first(reader, 2);
  index.change({ proven: { from: 104, to: 118 } });
  expect(await first(reader, 4)).toEqual(numbers(115, 118).map((height) => ({ height, isProven: true })));
});

describe.each(kindsThatCan('behind'))('$name, told what was seen last,', ({ serve }) => {
  it.each([
    ['goes on behind it', { height: 117, id: idAt(117) }, 117, []],
    ['tells how far to go back for a block above the watermark', { height: 125, id: idAt(125) }, 119, [-119]],
    ['tells how far to go back for another one', { height: 117, id: idOf('a lie') }, 116, [-116]],
  ])('%s', async (_, behind, height, told) => {
    const { follow, index } = await serve();
    const reader = await follow({ behind });
    await first(reader, 1);
    await index.commit(coming.slice(0, 1));
    const all = [...told, ...numbers(height + 1, 120)];
    expect(await heightsOf(reader, all.length)).toEqual(all);
  });
});
