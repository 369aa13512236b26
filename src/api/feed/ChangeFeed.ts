import type { ReaderMetrics } from '../../observability/index.js';
import { every, sleep, type Clock, type Timer } from '../../runtime/index.js';
import type { BlockHead, IndexReader, StoredBlock } from '../../storage/index.js';
import { ApiError, busy, holeAt, rewound, stopping } from '../view/ApiError.js';
import { IndexView } from '../view/IndexView.js';
import { isProven, provenOnly, rangeWith, type IndexedRange } from '../view/indexedRange.js';
import type { StatusSource } from '../view/statusDocument.js';
import { cursorAt, followerKinds } from './following.js';
import type { Cursor, FeedSink, Following, GivenBlock, ProvenBlock, StartPoint } from './following.js';
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

/** What to send to a follower next. */
interface Sending {
  /** Its blocks, from `next` on. */
  readonly blocks: readonly BlockHead[];
  readonly send: (taken: () => void) => void;
}

type ReadNext = (at: Cursor) => Promise<Sending>;

/** A follower, beside what its own loop knows of it. */
interface Follower extends Pick<Following, 'kind'>, Pick<FeedSink, 'end'> {
  /** Ends its wait for something to send. */
  wake: () => void;
  /** Checks that found its event untaken: while the process stands still, there are none, and nobody can take anything. */
  untaken: number | undefined;
}

interface ChangeFeedDependencies {
  readonly reader: IndexReader;
  readonly status: Pick<StatusSource, 'range'>;
  readonly clock: Clock;
  readonly metrics: Pick<ReaderMetrics, 'feedFollowers' | 'feedEvents' | 'feedFollowersCut'>;
}

/**
 * The indexed chain as a feed: each follower gets each height once, in order, from its starting point, as soon as the
 * height can be read here. `notify` reports that the watermark or the sealed head moved; nothing is polled. A follower whose
 * last block is no longer indexed is told at once: its stream ends with `rewound`.
 *
 * A follower's next height is read only when its last event was taken, so nothing piles up for a slow one; one that takes
 * nothing for SEND_LIMIT_MS is cut. Events are read one at a time, so followers that catch up cannot crowd out requests.
 */
export class ChangeFeed {
  readonly #dependencies: ChangeFeedDependencies;
  readonly #clock: Clock;
  readonly #blocks: ReturnType<typeof recentHeights<StoredBlock>>;
  readonly #bodies: ReturnType<typeof recentBodies>;
  /** Of the reader, at the last `notify`. */
  #rewinds: number;
  readonly #followers = new Set<Follower>();
  /** The last turn of a follower: they take them one after another, first come, first served. */
  #turn: Promise<unknown> = Promise.resolve();
  #turns = 0;
  #timer: Timer | undefined;
  #closed = false;

  constructor(dependencies: ChangeFeedDependencies) {
    this.#dependencies = dependencies;
    this.#clock = dependencies.clock;
    const { reader } = dependencies;
    this.#rewinds = reader.rewinds();
    this.#blocks = recentHeights({ max: RECENT_BLOCKS, sizeOf: () => 1 }, reader, (height) =>
      reader.blockByHeight(height),
    );
    this.#bodies = recentBodies(reader);
    for (const kind of followerKinds) {
      dependencies.metrics.feedFollowers.set({ kind }, 0);
      dependencies.metrics.feedEvents.inc({ kind }, 0);
      dependencies.metrics.feedFollowersCut.inc({ kind }, 0);
    }
  }

  /** Open streams of all kinds. */
  get followers(): number {
    return this.#followers.size;
  }

  /** The starting point of a stream. Expected errors: those of `cursorAt`; ApiError (stopping). */
  async cursorAt(
    point: StartPoint,
    { waits = false, until = 'indexed' }: Partial<Pick<Following, 'waits' | 'until'>> = {},
  ): Promise<Cursor> {
    if (this.#closed) throw stopping();
    const view = new IndexView(this.#dependencies.reader, () => this.#rangeOf(until));
    return cursorAt(point, view, { waits });
  }

  /**
   * Starts sending, never before this returns. Returns a function to call when the follower has left. Expected errors:
   * ApiError (busy, stopping).
   */
  follow(following: Following, sink: FeedSink): () => void {
    const { until } = following;
    const read: ReadNext = async ({ next, rewind }) => {
      if (rewind !== undefined) return { blocks: [], send: (taken) => sink.send(rewind, taken) };
      const stored = await this.#blocks.get(next);
      // Read the next ones while this is sent, a group at a time.
      const last = rangeWith(next, this.#rangeOf(until))?.to ?? next;
      if (next % READ_AHEAD === 0) this.#blocks.prepare(next + 1, Math.min(last, next + READ_AHEAD));
      const range = this.#dependencies.status.range();
      const isSealed = next <= (range.sealed ?? -1);
      const event = { kind: 'height', stored, isSealed, isProven: isProven(next, range) } as const;
      return { blocks: [stored.block], send: (taken) => sink.send(event, taken) };
    };
    return this.#add(following, read, (reason) => sink.end(reason));
  }

  /**
   * Like `follow`, for blocks with their bodies: each event has one or more consecutive heights. Such a stream never rewinds, so
   * its `from` must not either.
   */
  followBodies(following: Following, sink: FeedSink<readonly ProvenBlock[]>): () => void {
    const { to = Infinity, until } = following;
    const read: ReadNext = async ({ next }) => {
      const range = this.#dependencies.status.range();
      const last = Math.min(to, rangeWith(next, this.#rangeOf(until))?.to ?? next);
      const blocks = (await this.#bodies.read(next, last)).map((whole) => ({
        ...whole,
        isProven: isProven(whole.block.height, range),
      }));
      // Read the next ones while these are sent.
      this.#bodies.prepare(next + blocks.length, last);
      return { blocks: blocks.map(({ block }) => block), send: (taken) => sink.send(blocks, taken) };
    };
    return this.#add(following, read, (reason) => sink.end(reason));
  }

  #add(following: Following, read: ReadNext, end: Follower['end']): () => void {
    if (this.#closed) throw stopping();
    if (this.#followers.size >= MAX_FOLLOWERS)
      throw busy(`at most ${MAX_FOLLOWERS} callers may follow the index at once`);
    const { kind } = following;
    const follower: Follower = { kind, end, wake: () => undefined, untaken: undefined };
    this.#followers.add(follower);
    this.#dependencies.metrics.feedFollowers.inc({ kind });
    if (this.#followers.size === 1) {
      this.#timer = every(this.#clock, LOOK_EVERY_MS, () => this.#cutLate());
    }
    void this.#lead(follower, following, read);
    return () => this.#remove(follower);
  }

  /** The watermark or the sealed head may have moved. Cheap, and never throws. */
  notify(): void {
    this.#rewinds = this.#dependencies.reader.rewinds();
    for (const { wake } of this.#followers) wake();
  }

  /** Ends every stream with `stopping`, and waits for the read in progress. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const follower of [...this.#followers]) this.#end(follower, stopping());
    await this.#turn.catch(() => undefined);
  }

  /** Sends to a follower, until it has all that it wants, or leaves. */
  async #lead(follower: Follower, { from, to = Infinity, until, waits = false }: Following, read: ReadNext) {
    let at = from;
    /** When the store was rewound since, the last block is to be compared with what is indexed now. */
    let rewinds = this.#rewinds;
    let taken = Promise.resolve();
    const isHere = (): boolean => this.#followers.has(follower);
    const hasNext = (): boolean =>
      rewinds !== this.#rewinds || at.rewind !== undefined || this.#isReadable(at.next, until, waits);
    /** False: nothing was sent, because it has left, or the store was rewound. */
    const sendNext = async (): Promise<boolean> => {
      this.#turns += 1;
      if (this.#turns % EVENTS_PER_BURST === 0) await sleep(this.#clock, 0);
      if (!isHere()) return false;
      if (rewinds !== this.#rewinds) {
        rewinds = this.#rewinds;
        if (at.last !== undefined) await this.#assertIndexed(at.last);
        return false;
      }
      // Otherwise the height above the hole would look like the next one.
      if (at.rewind === undefined && this.#isMissing(at.next, until))
        throw holeAt(at.next, this.#rangeOf(until));
      const { blocks, send } = await read(at);
      await this.#assertContinued(at.last, blocks);
      if (rewinds !== this.#rewinds || !isHere()) return false;
      const newest = blocks.at(-1);
      const last = newest === undefined ? at.last : { height: newest.height, id: newest.id };
      at = { next: at.next + blocks.length, rewind: undefined, last };
      follower.untaken = 0;
      taken = new Promise(send);
      return true;
    };

    // Nothing is sent before `follow` has returned.
    await Promise.resolve();
    try {
      while (isHere()) {
        if (!hasNext()) {
          await new Promise<void>((resolve) => (follower.wake = resolve));
          continue;
        }
        const turn = this.#turn.then(sendNext, sendNext);
        this.#turn = turn;
        if (await turn) {
          await taken;
          follower.untaken = undefined;
          if (!isHere()) return;
          this.#dependencies.metrics.feedEvents.inc({ kind: follower.kind });
          if (at.next > to) this.#end(follower);
        }
      }
    } catch (error) {
      // Errors after close are expected.
      if (!this.#closed) this.#end(follower, error);
    }
  }

  #isReadable(height: number, until: Following['until'], waits: boolean): boolean {
    const { latestIndexed, sealed } = this.#rangeOf(until);
    const indexed = latestIndexed ?? -1;
    const isReached = height <= (until === 'sealed' ? Math.min(indexed, sealed ?? -1) : indexed);
    return isReached && (!waits || !this.#isMissing(height, until));
  }

  /** In a hole of the coverage. */
  #isMissing(height: number, until: Following['until']): boolean {
    return rangeWith(height, this.#rangeOf(until)) === undefined;
  }

  #rangeOf(until: Following['until']): IndexedRange {
    const range = this.#dependencies.status.range();
    return until === 'proven' ? provenOnly(range) : range;
  }

  /**
   * The blocks of one chain, also where another process has rewound the store and this one has not heard of it yet. The
   * root block of a spork need not link to the block below. Expected errors: ApiError (rewound), `StorageError`.
   */
  async #assertContinued(last: GivenBlock | undefined, blocks: readonly BlockHead[]): Promise<void> {
    let below = last;
    for (const block of blocks) {
      if (below?.height === block.height - 1 && below.id !== block.parentId) {
        await this.#assertIndexed(below);
        await this.#assertIndexed(block);
      }
      below = block;
    }
  }

  /** Asks the store itself. Expected errors: ApiError (rewound), `StorageError`. */
  async #assertIndexed({ height, id }: GivenBlock): Promise<void> {
    const stored = await this.#dependencies.reader.blockByHeight(height);
    if (stored?.block.id !== id) throw rewound(height);
  }

  #end(follower: Follower, reason?: unknown): void {
    this.#remove(follower);
    follower.end(reason);
  }

  #remove(follower: Follower): void {
    if (!this.#followers.delete(follower)) return;
    this.#dependencies.metrics.feedFollowers.dec({ kind: follower.kind });
    if (this.#followers.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #cutLate(): void {
    for (const follower of [...this.#followers]) {
      if (follower.untaken === undefined) continue;
      follower.untaken += 1;
      if (follower.untaken <= SEND_LIMIT_MS / LOOK_EVERY_MS) continue;
      this.#dependencies.metrics.feedFollowersCut.inc({ kind: follower.kind });
      const message = `the caller did not accept an event for ${SEND_LIMIT_MS / 1_000} s; resume after the last height that you have`;
      this.#end(follower, new ApiError(408, 'overdue', message));
    }
  }
}
