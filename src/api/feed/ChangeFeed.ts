import type { ReaderMetrics } from '../../observability/index.js';
import { every, sleep, type Clock, type Timer } from '../../runtime/index.js';
import type { BlockHead, IndexReader, StoredBlock } from '../../storage/index.js';
import { ApiError, busy, holeAt, rewound, stopping } from '../view/ApiError.js';
import { IndexView } from '../view/IndexView.js';
import { isProven, provenOnly, rangeWith, type IndexedRange } from '../view/indexedRange.js';
import type { StatusSource } from '../view/statusDocument.js';
import { cursorAt, followerKinds } from './following.js';
import type {
  Cursor,
  FeedSink,
  Following,
  GivenBlock,
  ProvenBlock,
  RewindEvent,
  StartPoint,
} from './following.js';
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

interface Follower extends Required<Pick<Following, 'kind' | 'until' | 'waits'>> {
  /** The last height that is wanted. */
  readonly to: number;
  /** Reads the next event, from `next` on. */
  readonly read: (follower: Follower) => Promise<Sending>;
  readonly end: FeedSink['end'];
  next: number;
  rewind: RewindEvent | undefined;
  last: GivenBlock | undefined;
  /** The store was rewound: `last` is to be compared with what is indexed now. */
  isDoubted: boolean;
  /** `queued`: its next event, or the comparison, waits to be read. */
  state: 'waiting' | 'queued' | 'sending';
  /** Checks that found its event untaken: while the process stands still, there are none, and nobody can take anything. */
  untaken: number;
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
  /** Followers whose next event is to be read, first come, first served; each at most once. */
  readonly #queue: Follower[] = [];
  #running: Promise<void> | undefined;
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
    const read = async ({ next, rewind }: Follower): Promise<Sending> => {
      if (rewind !== undefined) return { blocks: [], send: (taken) => sink.send(rewind, taken) };
      const stored = await this.#blocks.get(next);
      this.#readAhead(next, until);
      const range = this.#dependencies.status.range();
      const isSealed = next <= (range.sealed ?? -1);
      const event = { kind: 'height', stored, isSealed, isProven: isProven(next, range) } as const;
      return { blocks: [stored.block], send: (taken) => sink.send(event, taken) };
    };
    return this.#add(following, read, (reason) => sink.end(reason));
  }

  /** Reads what the follower will want next into the cache, a group at a time. */
  #readAhead(height: number, until: Following['until']): void {
    if (height % READ_AHEAD !== 0) return;
    const last = rangeWith(height, this.#rangeOf(until))?.to ?? height;
    for (let next = height + 1; next <= Math.min(last, height + READ_AHEAD); next += 1) {
      // The `get` of whoever wants it reports an error.
      this.#blocks.get(next).catch(() => undefined);
    }
  }

  /**
   * Like `follow`, for blocks with their bodies: each event has one or more consecutive heights. Such a stream never rewinds, so
   * its `from` must not either.
   */
  followBodies(following: Following, sink: FeedSink<readonly ProvenBlock[]>): () => void {
    const read = async ({ next, to, until }: Follower): Promise<Sending> => {
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

  #add(following: Following, read: Follower['read'], end: Follower['end']): () => void {
    if (this.#closed) throw stopping();
    if (this.#followers.size >= MAX_FOLLOWERS)
      throw busy(`at most ${MAX_FOLLOWERS} callers may follow the index at once`);
    const { from, kind, until, to = Infinity, waits = false } = following;
    const follower: Follower = {
      ...from,
      kind,
      until,
      to,
      waits,
      read,
      end,
      state: 'waiting',
      untaken: 0,
      isDoubted: false,
    };
    this.#followers.add(follower);
    this.#dependencies.metrics.feedFollowers.inc({ kind: follower.kind });
    if (this.#followers.size === 1) {
      this.#timer = every(this.#clock, LOOK_EVERY_MS, () => this.#cutLate());
    }
    this.#enqueue(follower);
    return () => this.#remove(follower);
  }

  /** The watermark or the sealed head may have moved. Cheap, and never throws. */
  notify(): void {
    const rewinds = this.#dependencies.reader.rewinds();
    const isRewound = rewinds !== this.#rewinds;
    this.#rewinds = rewinds;
    for (const follower of this.#followers) {
      follower.isDoubted ||= isRewound;
      this.#enqueue(follower);
    }
  }

  /** Ends every stream with `stopping`, and waits for the read in progress. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const follower of [...this.#followers]) this.#end(follower, stopping());
    await this.#running;
  }

  #enqueue(follower: Follower): void {
    if (follower.state !== 'waiting' || !this.#hasNext(follower)) return;
    follower.state = 'queued';
    this.#queue.push(follower);
    this.#running ??= this.#run();
  }

  #hasNext({ isDoubted, rewind, next, until, waits }: Follower): boolean {
    if (isDoubted || rewind !== undefined) return true;
    const { latestIndexed, sealed } = this.#rangeOf(until);
    const indexed = latestIndexed ?? -1;
    const isReached = next <= (until === 'sealed' ? Math.min(indexed, sealed ?? -1) : indexed);
    return isReached && (!waits || !this.#isMissing({ next, until }));
  }

  /** In a hole of the coverage. */
  #isMissing({ next, until }: Pick<Follower, 'next' | 'until'>): boolean {
    return rangeWith(next, this.#rangeOf(until)) === undefined;
  }

  #rangeOf(until: Following['until']): IndexedRange {
    const range = this.#dependencies.status.range();
    return until === 'proven' ? provenOnly(range) : range;
  }

  async #run(): Promise<void> {
    // Nothing is sent before `follow` has returned.
    await Promise.resolve();
    for (let sent = 1; this.#queue.length > 0; sent += 1) {
      if (sent % EVENTS_PER_BURST === 0) await sleep(this.#clock, 0);
      const follower = this.#queue.shift();
      if (follower === undefined || !this.#followers.has(follower)) continue;
      try {
        await this.#serve(follower);
      } catch (error) {
        // Errors after close are expected.
        if (!this.#closed) this.#end(follower, error);
      }
    }
    this.#running = undefined;
  }

  async #serve(follower: Follower): Promise<void> {
    if (follower.isDoubted) {
      follower.isDoubted = false;
      if (follower.last !== undefined) await this.#assertIndexed(follower.last);
    } else if (await this.#sendNext(follower)) return;
    follower.state = 'waiting';
    this.#enqueue(follower);
  }

  /** False: the store was rewound meanwhile, and nothing was sent. */
  async #sendNext(follower: Follower): Promise<boolean> {
    // Otherwise the height above the hole would look like the next one.
    if (follower.rewind === undefined && this.#isMissing(follower))
      throw holeAt(follower.next, this.#rangeOf(follower.until));
    const { blocks, send } = await follower.read(follower);
    await this.#assertContinued(follower, blocks);
    if (follower.isDoubted) return false;
    // It may have left in the meantime.
    if (!this.#followers.has(follower)) return true;
    follower.rewind = undefined;
    follower.next += blocks.length;
    const newest = blocks.at(-1);
    if (newest !== undefined) follower.last = { height: newest.height, id: newest.id };
    follower.state = 'sending';
    follower.untaken = 0;
    let isTaken = false;
    send(() => {
      if (isTaken || !this.#followers.has(follower)) return;
      isTaken = true;
      this.#dependencies.metrics.feedEvents.inc({ kind: follower.kind });
      follower.state = 'waiting';
      if (follower.next > follower.to) this.#end(follower);
      else this.#enqueue(follower);
    });
    return true;
  }

  /**
   * The blocks of one chain, also where another process has rewound the store and this one has not heard of it yet. The
   * root block of a spork need not link to the block below. Expected errors: ApiError (rewound), `StorageError`.
   */
  async #assertContinued({ last }: Follower, blocks: readonly BlockHead[]): Promise<void> {
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
      if (follower.state !== 'sending') continue;
      follower.untaken += 1;
      if (follower.untaken <= SEND_LIMIT_MS / LOOK_EVERY_MS) continue;
      this.#dependencies.metrics.feedFollowersCut.inc({ kind: follower.kind });
      const message = `the caller did not accept an event for ${SEND_LIMIT_MS / 1_000} s; resume after the last height that you have`;
      this.#end(follower, new ApiError(408, 'overdue', message));
    }
  }
}
