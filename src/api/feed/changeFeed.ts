import type { ReaderMetrics } from '../../observability/index.js';
import { every, places, sleep, type Clock } from '../../runtime/index.js';
import type { BlockHead, IndexReader } from '../../storage/index.js';
import { ApiError, busy, heightOutside, rewound, stopping } from '../view/ApiError.js';
import { IndexView } from '../view/IndexView.js';
import { isProven, provenOnly, rangeWith, type IndexedRange } from '../view/indexedRange.js';
import type { StatusSource } from '../view/statusDocument.js';
import { cursorAt, followerKinds } from './following.js';
import type { Cursor, FeedSink, Following, GivenBlock } from './following.js';
import type { HeightEvent, ProvenBlock, StartPoint } from './following.js';
import { recentBodies, recentHeights } from './recentHeights.js';

/** Maximum followers, of all kinds. For each, at most one untaken event is held. */
export const MAX_FOLLOWERS = 200;
/** How long an event may stay untaken, as on access nodes. */
export const SEND_LIMIT_MS = 30_000;
/** The most recently read blocks: all followers of the tip want the same one. */
const RECENT_BLOCKS = 64;
/** Blocks read at once for a follower behind the tip: one at a time, each would wait for the database. */
const READ_AHEAD = 8;
/** Events sent in one go before requests are served again: reads from the cache never yield. */
const EVENTS_PER_BURST = 64;
/** Interval of the check for late followers. */
const LOOK_EVERY_MS = 5_000;

/** A follower as the feed sees it. */
interface Follower {
  /** Ends its wait for something to send. */
  wake: () => void;
  readonly end: (reason?: unknown) => void;
}

/** Reads the next event, up to height `last`, and returns its blocks too: the first is the next one. */
type ReadNext<E> = (
  at: Cursor,
  last: number,
) => Promise<{ readonly blocks: readonly BlockHead[]; readonly event: E }>;

interface ChangeFeedDependencies {
  readonly reader: IndexReader;
  readonly status: Pick<StatusSource, 'range'>;
  readonly clock: Clock;
  readonly metrics: Pick<ReaderMetrics, 'feedFollowers' | 'feedEvents' | 'feedFollowersCut'>;
}

export type ChangeFeed = ReturnType<typeof changeFeed>;

/**
 * The indexed chain as a feed: each follower gets each height once, in order, from its starting point, as soon as the height can
 * be read here. `notify` reports that the watermark or the sealed head moved; nothing is polled. As soon as the last block of a
 * follower is no longer indexed, its stream ends with `rewound`.
 *
 * A follower's next height is read only when its last event was taken, so nothing piles up for a slow one; one that takes nothing
 * for SEND_LIMIT_MS is cut. Events are read one at a time, so followers that catch up cannot crowd out requests.
 */
export function changeFeed({ reader, status, clock, metrics }: ChangeFeedDependencies) {
  const recent = recentHeights({ max: RECENT_BLOCKS, sizeOf: () => 1 }, reader, (height) =>
    reader.blockByHeight(height),
  );
  const bodies = recentBodies(reader);
  const followers = new Set<Follower>();
  /** The reader's rewinds at the last `notify`. */
  let rewinds = reader.rewinds();
  /** One read at a time, across all followers. */
  const inTurn = places(1);
  let turns = 0;
  let isClosed = false;
  for (const kind of followerKinds) {
    metrics.feedFollowers.set({ kind }, 0);
    metrics.feedEvents.inc({ kind }, 0);
    metrics.feedFollowersCut.inc({ kind }, 0);
  }

  const rangeOf = (until: Following['until']): IndexedRange =>
    until === 'proven' ? provenOnly(status.range()) : status.range();
  /** Compares with the store. Expected errors: ApiError (rewound), `StorageError`. */
  const assertIndexed = async ({ height, id }: GivenBlock): Promise<void> => {
    const stored = await reader.blockByHeight(height);
    if (stored?.block.id !== id) throw rewound(height);
  };
  /**
   * The blocks are of one chain, even if another process rewound the store and this one has not noticed yet. The root block of a
   * spork need not link to the block below. Expected errors: ApiError (rewound), `StorageError`.
   */
  const assertContinued = async (
    last: GivenBlock | undefined,
    blocks: readonly BlockHead[],
  ): Promise<void> => {
    let below = last;
    for (const block of blocks) {
      if (below?.height === block.height - 1 && below.id !== block.parentId) {
        await assertIndexed(below);
        await assertIndexed(block);
      }
      below = block;
    }
  };

  const add = <E>(
    { from, kind, to = Infinity, until, waits = false }: Following,
    sink: FeedSink<E>,
    read: ReadNext<E>,
  ): (() => void) => {
    if (isClosed) throw stopping();
    if (followers.size >= MAX_FOLLOWERS)
      throw busy(`at most ${MAX_FOLLOWERS} callers may follow the index at once`);
    const leave = (): void => {
      if (!followers.delete(follower)) return;
      metrics.feedFollowers.dec({ kind });
      timer.cancel();
    };
    const end = (reason?: unknown): void => {
      leave();
      sink.end(reason);
    };
    const follower: Follower = { end, wake: () => undefined };
    /** Checks that found its event untaken, counted rather than timed: a suspended process cannot send either. */
    let untaken: number | undefined;
    const timer = every(clock, LOOK_EVERY_MS, () => {
      if (untaken === undefined) return;
      untaken += 1;
      if (untaken <= SEND_LIMIT_MS / LOOK_EVERY_MS) return;
      metrics.feedFollowersCut.inc({ kind });
      const message = `the caller did not accept an event for ${SEND_LIMIT_MS / 1_000} s; resume after the last height that you have`;
      end(new ApiError(408, 'overdue', message));
    });
    const isHere = (): boolean => followers.has(follower);
    let at = from;
    /** Rewinds taken into account: after a further one, the last block is compared with what is indexed. */
    let known = rewinds;
    let taken = Promise.resolve();
    const isReadable = (): boolean => {
      const range = rangeOf(until);
      const { latestIndexed, sealed } = range;
      const indexed = latestIndexed ?? -1;
      const isReached = at.next <= (until === 'sealed' ? Math.min(indexed, sealed ?? -1) : indexed);
      return isReached && (!waits || rangeWith(at.next, range) !== undefined);
    };
    const hasNext = (): boolean => known !== rewinds || at.rewind !== undefined || isReadable();
    /** False: nothing was sent, because the follower has left or the store was rewound. */
    const sendNext = async (): Promise<boolean> => {
      turns += 1;
      if (turns % EVENTS_PER_BURST === 0) await sleep(clock, 0);
      if (!isHere()) return false;
      if (known !== rewinds) {
        known = rewinds;
        if (at.last !== undefined) await assertIndexed(at.last);
        return false;
      }
      const range = rangeOf(until);
      const covering = rangeWith(at.next, range);
      // Otherwise the height above the hole would look like the next one.
      if (at.rewind === undefined && covering === undefined) throw heightOutside(at.next, range);
      const { blocks, event } = await read(at, Math.min(to, covering?.to ?? at.next));
      await assertContinued(at.last, blocks);
      if (known !== rewinds || !isHere()) return false;
      const newest = blocks.at(-1);
      // Not the block itself, which would keep its bytes in memory.
      const last = newest === undefined ? at.last : { height: newest.height, id: newest.id };
      at = { next: at.next + blocks.length, last };
      untaken = 0;
      taken = new Promise((resolve) => sink.send(event, resolve));
      return true;
    };
    /** Sends events until the follower has the last one that it wants, or leaves. */
    const lead = async (): Promise<void> => {
      // Nothing is sent before `follow` has returned.
      await Promise.resolve();
      while (isHere()) {
        if (!hasNext()) {
          await new Promise<void>((resolve) => (follower.wake = resolve));
          continue;
        }
        if (!(await inTurn(sendNext))) continue;
        await taken;
        untaken = undefined;
        if (!isHere()) return;
        metrics.feedEvents.inc({ kind });
        if (at.next > to) end();
      }
    };

    followers.add(follower);
    metrics.feedFollowers.inc({ kind });
    lead().catch((error: unknown) => {
      // Errors after close are expected.
      if (!isClosed) end(error);
    });
    return leave;
  };
  const readHeight: ReadNext<HeightEvent> = async ({ next }, last) => {
    const stored = await recent.get(next);
    // Read the next ones while this is sent, a group at a time.
    if (next % READ_AHEAD === 0) recent.prepare(next + 1, Math.min(last, next + READ_AHEAD));
    const range = status.range();
    const isSealed = next <= (range.sealed ?? -1);
    return {
      blocks: [stored.block],
      event: { kind: 'height', stored, isSealed, isProven: isProven(next, range) },
    };
  };

  return {
    /** Open streams of all kinds. */
    get followers(): number {
      return followers.size;
    },

    /** The starting point of a stream. Expected errors: those of `cursorAt`; ApiError (stopping). */
    cursorAt: async (
      point: StartPoint,
      { waits = false, until = 'indexed' }: Partial<Pick<Following, 'waits' | 'until'>> = {},
    ): Promise<Cursor> => {
      if (isClosed) throw stopping();
      return cursorAt(point, new IndexView(reader, () => rangeOf(until)), { waits });
    },

    /**
     * Starts sending, never before this returns. Returns a function to call when the follower has left. Expected errors:
     * ApiError (busy, stopping).
     */
    follow: (following: Following, sink: FeedSink): (() => void) =>
      add(following, sink, async (at, last) =>
        at.rewind === undefined ? readHeight(at, last) : { blocks: [], event: at.rewind },
      ),

    /** Like `follow`, for a stream that continues no earlier one: its `from` never rewinds. */
    followHeights: (following: Following, sink: FeedSink<HeightEvent>): (() => void) =>
      add(following, sink, readHeight),

    /** Like `followHeights`, for blocks with their bodies: each event has one or more consecutive heights. */
    followBodies: (following: Following, sink: FeedSink<readonly ProvenBlock[]>): (() => void) =>
      add(following, sink, async ({ next }, last) => {
        const range = status.range();
        const read = await bodies(next, last);
        const event = read.map((one) => ({ ...one, isProven: isProven(one.block.height, range) }));
        return { blocks: read.map(({ block }) => block), event };
      }),

    /** The watermark or the sealed head may have moved. Cheap, and never throws. */
    notify: (): void => {
      rewinds = reader.rewinds();
      for (const { wake } of followers) wake();
    },

    /** Ends every stream with `stopping`, and waits for the read in progress. Idempotent. */
    close: async (): Promise<void> => {
      isClosed = true;
      for (const { end } of [...followers]) end(stopping());
      await inTurn(() => Promise.resolve());
    },
  };
}
