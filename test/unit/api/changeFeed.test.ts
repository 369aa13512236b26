import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApiError, changeFeed, type IndexedRange } from '../../../src/api/index.js';
import { MAX_FOLLOWERS, SEND_LIMIT_MS } from '../../../src/api/feed/changeFeed.js';
import type { FeedEvent, StartPoint } from '../../../src/api/feed/following.js';
import type { Identifier } from '../../../src/flow/index.js';
import { createReaderMetrics } from '../../../src/observability/index.js';
import type { BlockEntry, WholeBlock } from '../../../src/storage/index.js';
import { branchAbove, chainOf, idOf, MemoryIndexStore, scraped, smallChain } from '../../support/index.js';
import { numbers as heights, transactionWith, VirtualClock } from '../../support/index.js';

const FIRST = 100;
/** As many are read once for all followers. */
const RECENT_HEIGHTS = 64;
const chain = chainOf(FIRST, 80, (index) => (index % 3 === 0 ? [[transactionWith()], []] : []));

/** A reader of the feed that takes what it is sent when the test says so, or at once. */
class Reader {
  readonly events: FeedEvent[] = [];
  ended: unknown;
  #taken: (() => void) | undefined;
  leave = (): void => undefined;
  readonly #world: World;
  readonly #atOnce: boolean;

  constructor(world: World, atOnce: boolean) {
    this.#world = world;
    this.#atOnce = atOnce;
  }

  send(event: FeedEvent, taken: () => void): void {
    expect(this.ended).toBeUndefined();
    expect(this.#taken, 'an event while the one before is not taken').toBeUndefined();
    if (event.kind === 'height')
      expect(event.stored.block.height).toBeLessThanOrEqual(this.#world.range.latestIndexed!);
    this.events.push(event);
    if (this.#atOnce) taken();
    else this.#taken = taken;
  }

  end(reason: unknown): void {
    this.ended = reason;
  }

  take(): boolean {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
    // Saying it twice changes nothing.
    taken?.();
    return taken !== undefined;
  }

  get heights(): number[] {
    return this.events.map((event) => (event.kind === 'height' ? event.stored.block.height : -event.height));
  }
}

class World {
  readonly clock = new VirtualClock();
  readonly metrics = createReaderMetrics();
  readonly reads: number[] = [];
  sealed: number | null = null;
  head: number | null = null;
  /** Where it is set, heights are missing between. */
  coverage: IndexedRange['coverage'];
  heard: IndexedRange | undefined;
  readonly feed: ReturnType<typeof changeFeed>;
  readonly store: MemoryIndexStore;

  private constructor(store: MemoryIndexStore) {
    this.store = store;
    const read = store.blockByHeight.bind(store);
    store.blockByHeight = (height) => {
      this.reads.push(height);
      return read(height);
    };
    this.feed = changeFeed({
      reader: store,
      status: { range: () => this.range },
      clock: this.clock,
      metrics: this.metrics,
    });
  }

  static async with(blocks: number): Promise<World> {
    const world = new World(await MemoryIndexStore.startingAt(FIRST));
    await world.commit(blocks);
    return world;
  }

  get latest(): number {
    return this.store.latestIndexedHeight();
  }

  /** What the feed hears of it: of now, or of an earlier moment. */
  get range(): IndexedRange {
    return this.heard ?? this.now();
  }

  now(): IndexedRange {
    const { coverage, head, latest, sealed } = this;
    const firstIndexed = coverage?.at(-1)?.from ?? FIRST;
    return { firstIndexed, latestIndexed: latest, head, sealed, ...(coverage && { coverage }) };
  }

  async commit(count: number): Promise<void> {
    const from = this.latest + 1 - FIRST;
    await this.store.commit(batchOf(this.latest, chain.slice(from, from + count)));
    this.feed.notify();
  }

  /** Another process rewinds the store and goes on with other blocks; the feed has not heard of it yet. */
  async rewindUnheard(height: number, blocks: readonly BlockEntry[]): Promise<void> {
    await this.store.rewind(height);
    await this.store.commit(batchOf(this.latest, blocks));
  }

  /** The same, of which it hears at once. */
  async rewind(...other: Parameters<World['rewindUnheard']>): Promise<void> {
    await this.rewindUnheard(...other);
    await this.hear();
  }

  async hear(): Promise<void> {
    this.feed.notify();
    await this.clock.settle();
  }

  async follow(
    point: StartPoint,
    { atOnce = true, until = 'indexed' }: { atOnce?: boolean; until?: 'indexed' | 'sealed' } = {},
  ): Promise<Reader> {
    const reader = new Reader(this, atOnce);
    const from = await this.feed.cursorAt(point);
    reader.leave = this.feed.follow({ kind: 'blocks', from, until }, reader);
    expect(reader.events).toEqual([]);
    return reader;
  }

  async value(name: string): Promise<number> {
    return (await scraped(this.metrics)).value(name, { kind: 'blocks' });
  }
}

const batchOf = (latest: number, blocks: readonly BlockEntry[]) => ({
  blocks,
  latestIndexedHeight: latest + blocks.length,
});
const refusal = (promise: Promise<unknown>) => promise.catch((error: unknown) => error);

const seen = (height: number, blockId: Identifier | undefined = idOf(`block ${height}`)) => ({
  lastSeen: { height, blockId },
});
const heightAlone = (height: number) => ({ lastSeen: { height, blockId: undefined } });
const at = (next: number) => ({ next, rewind: undefined, last: undefined });
const behind = (height: number) => ({ ...at(height + 1), last: { height, id: idOf(`block ${height}`) } });
const rewound = (height: number, blockId: Identifier | undefined) => ({
  next: height + 1,
  rewind: { kind: 'rewind', height, blockId },
  last: blockId && { height, id: blockId },
});
const refused = (reason: string) => ({ reason });
const idAt = (height: number): Identifier => chain[height - FIRST]!.block.id;
const below = chain[0]!.block.parentId;
/** Heights 103 to 105 are missing. */
const holed = {
  coverage: [
    { from: FIRST, to: 102 },
    { from: 106, to: 109 },
  ],
};
const lie = idOf('a lie');

it.each<[what: string, world: object, point: StartPoint, expected: object]>([
  ['the first height', {}, { height: FIRST }, at(FIRST)],
  ['a height below it', {}, { height: 99 }, refused('below_first_indexed')],
  ['the one that is indexed next', {}, { height: 110 }, at(110)],
  ['one above it', {}, { height: 111 }, refused('not_yet_indexed')],
  ['one above it, behind the head', { head: 115 }, { height: 116 }, at(116)],
  ['one further above the head', { head: 115 }, { height: 117 }, refused('not_yet_indexed')],
  ['a block', {}, { blockId: idAt(104) }, at(104)],
  ['an unknown block', {}, { blockId: idAt(110) }, refused('unknown_id')],
  ['the sealed head, which is unknown', {}, 'sealed', refused('not_yet_indexed')],
  ['the sealed head', { sealed: 107 }, 'sealed', at(107)],
  ['the sealed head, above what is indexed', { sealed: 200 }, 'sealed', at(109)],
  ['what comes next', {}, 'next', at(110)],
  ['what comes next, in an empty store', { blocks: 0 }, 'next', at(FIRST)],
  ['behind a block that is indexed', {}, seen(104), behind(104)],
  ['behind the newest block', {}, seen(109), behind(109)],
  ['behind the block below the first one', {}, seen(99), at(100)],
  ['behind a height', {}, heightAlone(104), at(105)],
  ['behind a block above the watermark', {}, seen(110), rewound(109, idAt(109))],
  ['behind a block far above it', {}, seen(5000), rewound(109, idAt(109))],
  ['behind a height above it', {}, heightAlone(110), rewound(109, idAt(109))],
  ['behind another block than is indexed', {}, seen(104, lie), rewound(103, idAt(103))],
  // Below the first height, the parent of the first block is all that is known.
  ['behind another block than the first one', {}, seen(100, lie), rewound(99, below)],
  ['behind a block, in an empty store', { blocks: 0 }, seen(104), rewound(99, undefined)],
  ['where heights between would be passed over', {}, seen(98), refused('below_first_indexed')],
  ['behind a height in a hole', holed, heightAlone(104), refused('hole')],
  ['behind the last height of a hole', holed, heightAlone(105), at(106)],
])('where a stream begins %s', async (_, { blocks = 10, ...heads }: { blocks?: number }, point, expected) => {
  const world = Object.assign(await World.with(blocks), heads);
  expect({ ...at(0), ...((await refusal(world.feed.cursorAt(point))) as object) }).toMatchObject(expected);
});

it('a follower has its next height read only when the last one was taken, and shares what is read with those who want it about the same time', async () => {
  const world = await World.with(20);
  const reader = await world.follow({ height: 100 }, { atOnce: false });
  await world.clock.advance(20_000);
  expect(reader.heights).toEqual([100]);
  expect(world.reads).toEqual([100]);
  reader.take();
  await world.clock.advance(1_000);
  expect(world.reads).toEqual([100, 101]);
  for (let count = 0; count < 20; count += 1) await world.follow({ height: 115 });
  await world.clock.settle();
  expect(world.reads.slice(2)).toEqual([115, 116, 117, 118, 119]);
  expect(await world.value('feed_events_total')).toBe(1 + 20 * 5);
});

it('a follower leaves nothing behind, in whichever way it goes', async () => {
  const world = await World.with(20);
  for (let round = 0; round < 3; round += 1) {
    const gone = await world.follow('next');
    const late = await world.follow({ height: 100 }, { atOnce: false });
    const ahead = await world.follow({ height: 119 });
    await world.clock.settle();
    await world.rewind(118, []);
    await world.commit(1);
    gone.leave();
    await world.clock.advance(2 * SEND_LIMIT_MS);
    expect([late.ended, ahead.ended]).toMatchObject([{ reason: 'overdue' }, { reason: 'rewound' }]);
    expect(world.feed.followers).toBe(0);
    expect(await world.value('feed_followers')).toBe(0);
    expect(await world.value('feed_followers_cut_total')).toBe(round + 1);
    expect(world.clock.pendingTimers).toBe(0);
  }
});

it('a follower leaves the newest heights that it read in memory, and no more', async () => {
  const world = await World.with(RECENT_HEIGHTS + 10);
  await world.follow({ height: FIRST });
  await world.clock.advance(1_000);
  const reads = world.reads.length;
  await world.follow({ height: world.latest + 1 - RECENT_HEIGHTS });
  await world.clock.advance(1_000);
  expect(world.reads.slice(reads)).toEqual([]);
  await world.follow({ height: world.latest - RECENT_HEIGHTS });
  await world.clock.advance(1_000);
  expect(world.reads.slice(reads)).toContain(world.latest - RECENT_HEIGHTS);
});

it('a follower that is one too many is refused, until another one leaves', async () => {
  const world = await World.with(1);
  const one = await world.follow('next');
  while (world.feed.followers < MAX_FOLLOWERS) await world.follow('next');
  const from = await world.feed.cursorAt('next');
  const oneMore = () =>
    world.feed.follow({ kind: 'digests', from, until: 'indexed' }, new Reader(world, true));
  expect(oneMore).toThrow(ApiError);
  expect(await world.value('feed_followers')).toBe(MAX_FOLLOWERS);
  for (let twice = 0; twice < 2; twice += 1) one.leave();
  oneMore();
  expect(oneMore).toThrow('at most 200 callers');
});

describe('a rewind by another process', () => {
  const idsOf = (reader: Reader): string[] =>
    reader.events.flatMap((event) => (event.kind === 'height' ? [event.stored.block.id] : []));
  const branchIds = (from: number, to: number) =>
    heights(from, to).map((each) => idOf(`other block ${each}`));
  const isRewound = { code: 409, reason: 'rewound' };

  it('ends the stream of whoever has a block that is gone, at once, and of nobody else', async () => {
    const world = await World.with(10);
    const ahead = await world.follow({ height: 104 });
    const resumed = await world.follow({ lastSeen: { height: 109, blockId: idOf('block 109') } });
    const notBegun = await world.follow({ height: 110 });
    const slow = await world.follow({ height: 103 }, { atOnce: false });
    await world.clock.settle();
    expect(ahead.heights).toEqual(heights(104, 109));
    await world.rewind(105, []);
    expect([ahead.ended, resumed.ended]).toMatchObject([isRewound, isRewound]);
    expect(ahead.ended).toMatchObject({ message: expect.stringContaining('height 109') as string });
    await world.store.commit(batchOf(105, branchAbove(105, 6)));
    world.feed.notify();
    while (slow.take()) await world.clock.settle();
    expect(idsOf(slow).slice(3)).toEqual(branchIds(106, 111));
    expect(idsOf(notBegun)).toEqual(branchIds(110, 111));
    expect([slow.ended, notBegun.ended]).toEqual([undefined, undefined]);
    expect(ahead.heights).toEqual(heights(104, 109));
    expect(world.feed.followers).toBe(2);
  });

  // What is read is newer than what is known of it.
  it('is noticed by the next block before anybody tells of it', async () => {
    const world = await World.with(10);
    const reader = await world.follow({ height: 104 });
    const last = await world.follow({ lastSeen: { height: 108, blockId: idOf('block 108') } });
    await world.clock.settle();
    world.store.rewinds = () => 0;
    await world.rewind(107, branchAbove(107, 3));
    expect(reader.heights).toEqual(heights(104, 109));
    expect([reader.ended, last.ended]).toMatchObject([isRewound, isRewound]);
    // Who has the new block and is about to get an old one that is still cached is told too, instead of getting it.
    const resumed = await world.follow({ lastSeen: { height: 108, blockId: idOf('other block 108') } });
    await world.clock.settle();
    expect([resumed.heights, resumed.ended]).toMatchObject([[], isRewound]);
  });

  it.each(['blocks', 'bodies'])('lets no read of %s that it overtakes into the cache', async (what) => {
    const world = await World.with(10);
    const { store } = world;
    let goOn = (): void => undefined;
    const held = new Promise<void>((resolve) => (goOn = resolve));
    const [blockByHeight, wholeBlock] = [store.blockByHeight.bind(store), store.wholeBlock.bind(store)];
    const late = async <T>(read: Promise<T>): Promise<T> => held.then(() => read);
    store.blockByHeight = (height) => late(blockByHeight(height));
    store.wholeBlock = (height) => late(wholeBlock(height));
    const got: string[] = [];
    const following = { from: { next: 108, rewind: undefined, last: undefined }, until: 'indexed' } as const;
    const follow = (): void => {
      const sink = {
        send: (sent: FeedEvent | readonly WholeBlock[], taken: () => void) => {
          const blocks = 'kind' in sent ? (sent.kind === 'height' ? [sent.stored] : []) : sent;
          got.push(...blocks.map(({ block }) => block.id));
          taken();
        },
        end: () => undefined,
      };
      if (what === 'bodies') world.feed.followBodies({ kind: 'indexed_blocks', ...following }, sink);
      else world.feed.follow({ kind: 'blocks', ...following }, sink);
    };
    follow();
    await world.clock.settle();
    Object.assign(store, { blockByHeight, wholeBlock });
    await world.rewindUnheard(105, branchAbove(105, 4));
    world.feed.notify();
    goOn();
    await world.clock.settle();
    expect(got).toEqual(branchIds(108, 109));
    got.length = 0;
    follow();
    await world.clock.settle();
    expect(got).toEqual(branchIds(108, 109));
  });

  it('is not what a spork does, whose root block need not link to the block below', async () => {
    const world = await World.with(10);
    const reader = await world.follow({ height: 108 });
    await world.store.commit(batchOf(109, branchAbove(108, 4).slice(1)));
    await world.hear();
    expect(reader.heights).toEqual(heights(108, 112));
    expect(reader.ended).toBeUndefined();
  });
});

it('the end of the feed waits for the read under way, whose failure is no bug', async () => {
  const world = await World.with(3);
  let fail: ((error: Error) => void) | undefined;
  world.store.blockByHeight = () => new Promise((_, reject) => (fail = reject));
  const reader = await world.follow({ height: 100 });
  while (fail === undefined) await world.clock.settle();
  let isClosed = false;
  const closing = world.feed.close().then(() => (isClosed = true));
  await world.clock.settle();
  expect(isClosed).toBe(false);
  fail(new Error('the database is closed'));
  await closing;
  expect(reader.ended).toMatchObject({ reason: 'stopping' });
  // Nobody is let in any more.
  expect(await refusal(world.feed.cursorAt('next'))).toMatchObject({ reason: 'stopping' });
  expect(world.clock.pendingTimers).toBe(0);
  await world.feed.close();
});

describe('whatever commits, rewinds, slow readers and disconnects do', () => {
  const [who, sealed] = [fc.nat(20), fc.boolean()];
  const step = fc.oneof(
    fc.record({ do: fc.constant('commit' as const), count: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ do: fc.constant('rewind' as const), by: fc.nat(8), more: fc.nat(12) }),
    fc.record({ do: fc.constant('follow' as const), back: fc.nat(10), atOnce: fc.boolean(), sealed }),
    fc.record({ do: fc.constantFrom('take' as const, 'leave' as const, 'resume' as const), who }),
    fc.record({ do: fc.constant('seal' as const), behind: fc.nat(5) }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 100, 4_000) }),
    fc.record({ do: fc.constantFrom('hear' as const, 'turn' as const, 'settle' as const) }),
  );

  it('every follower gets every height of one chain once and in order, and nobody is left with blocks that are gone', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
        const world = await World.with(10);
        const { store } = world;
        // What is read is newer than what was heard of it.
        const rewinds = store.rewinds.bind(store);
        const hear = (): void => {
          const heard = rewinds();
          store.rewinds = () => heard;
          world.heard = world.now();
          world.feed.notify();
        };
        hear();
        const topId = async () => (await store.blockByHeight(world.latest))!.block.id;
        let branches = 0;
        const grow = async (count: number): Promise<void> => {
          const [from, below] = [world.latest, await topId()];
          const name = `branch ${(branches += 1)}`;
          const idAt = (height: number) => (height === from ? below : idOf(`${name} ${height}`));
          const empty = Array.from({ length: count }, () => []);
          await store.commit(batchOf(from, smallChain(from + 1, empty, undefined, idAt)));
        };
        const all: { reader: Reader; from: number; sealed: boolean }[] = [];
        const join = async (point: StartPoint, from: number, atOnce: boolean, sealed: boolean) => {
          const reader = await world.follow(point, { atOnce, until: sealed ? 'sealed' : 'indexed' });
          all.push({ reader, from, sealed });
        };
        for (const now of steps) {
          const one = 'who' in now ? all[now.who % Math.max(1, all.length)] : undefined;
          if (now.do === 'commit') await grow(now.count);
          else if (now.do === 'rewind') {
            await store.rewind(Math.max(FIRST, world.latest - now.by));
            if (now.more > 0) await grow(now.more);
          } else if (now.do === 'seal') world.sealed = Math.max(world.sealed ?? 0, world.latest - now.behind);
          else if (now.do === 'follow') {
            const from = Math.max(FIRST, world.range.latestIndexed! + 1 - now.back);
            await join({ height: from }, from, now.atOnce, now.sealed);
          } else if (now.do === 'take') one?.reader.take();
          else if (now.do === 'wait') await world.clock.advance(now.ms);
          else if (now.do === 'turn') await world.clock.turn();
          else if (now.do === 'settle') await world.clock.settle();
          else if (now.do === 'hear') hear();
          else if (one !== undefined) {
            one.reader.leave();
            all.splice(all.indexOf(one), 1);
            const last = one.reader.events.at(-1);
            if (now.do === 'leave' || last?.kind !== 'height') continue;
            const { height, id } = last.stored.block;
            // A block of heights that nobody has heard of is refused meanwhile.
            await join({ lastSeen: { height, blockId: id } }, height + 1, true, one.sealed).catch(
              (error: unknown) => expect(error).toBeInstanceOf(ApiError),
            );
          }
          for (const { reader, sealed } of all)
            if (sealed) expect(reader.heights.at(-1) ?? -1).toBeLessThanOrEqual(world.sealed ?? -1);
        }
        // Everything that is there comes in the end.
        world.sealed = world.latest;
        hear();
        for (let quiet = false; !quiet;) {
          await world.clock.advance(10);
          quiet = !all.map(({ reader }) => reader.take()).includes(true);
        }
        const going = all.filter(({ reader }) => reader.ended === undefined);
        for (const { reader, from } of all) {
          const { ended, events } = reader;
          const blocks = events.flatMap((event) => (event.kind === 'height' ? [event.stored.block] : []));
          const begun = events[0]?.kind === 'rewind' ? events[0].height + 1 : from;
          expect(blocks.map(({ height }) => height)).toEqual(heights(begun, begun + blocks.length - 1));
          for (const [at, block] of blocks.entries())
            if (at > 0) expect(block.parentId).toBe(blocks[at - 1]!.id);
          if (ended !== undefined) expect(ended).toMatchObject({ code: 409, reason: 'rewound' });
          else if (begun <= world.latest) expect(blocks.at(-1)?.id).toBe(await topId());
          else expect(blocks).toEqual([]);
        }
        expect(await world.value('feed_followers')).toBe(going.length);
        await world.feed.close();
        expect(world.clock.pendingTimers).toBe(0);
      }),
      { numRuns: 150 },
    );
  });
});
