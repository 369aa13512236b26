import type { Metrics } from '../../observability/index.js';
import { sleep } from '../../runtime/index.js';
import type { Clock, Timer } from '../../runtime/index.js';
import { ApiError, stopping } from '../view/ApiError.js';
import type { StatusSource } from '../view/statusDocument.js';
import { interfaces, READ_COST_MS, REQUEST_COST_MS, sentCostMs } from './costs.js';
import type { Interface } from './costs.js';
import { LoopBudget } from './LoopBudget.js';
import type { Lane } from './LoopBudget.js';
import type { Turns } from './turns.js';

/** Of the event loop's time, for all readers together, while the index is close to the head and not there. */
export const SHARE_AT_HEAD = 0.75;
/** Closer to the head than this, indexing is following and has time to spare. */
const AT_HEAD_HEIGHTS = 100;
/** Requests that wait for their turn, over all interfaces. Every connection for HTTP may have one here. */
export const MAX_WAITING_REQUESTS = 1_024;
/** For a request to wait for its turn. */
export const MAX_WAIT_MS = 10_000;
/** What waits is looked at this often at least: the index may have come to the head. */
const LOOK_EVERY_MS = 100;
/** One look lasts so long, and no further than the piece of work in hand. */
const LOOK_LIMIT_MS = 4;
/** Requests that are admitted at one look: what they cost is known only when they have been at work. */
const ADMITTED_AT_ONCE = 16;

/** Why a request got no turn: the `reason` of the metric. */
const turnedAway = ['queue_full', 'waited_too_long', 'caller_left', 'stopping'] as const;
type TurnedAway = (typeof turnedAway)[number];

export interface ReadGovernorOptions {
  /** Of the event loop's time, for all readers together, while the daemon catches up: above 0; 1 = no limit at any time. */
  readonly catchUpShare: number;
  /** What work takes here, relative to the machine that the costs were measured on (`machinePace`). Default: 1. */
  readonly pace?: number;
}

export interface ReadGovernorDependencies {
  readonly status: Pick<StatusSource, 'range'>;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'readRequestsWaiting' | 'readWait' | 'readRequestsTurnedAway'>;
}

/** A request that has to wait for its turn. */
export interface Waiting {
  /** True: it is served now. False: it has left. Expected errors: ApiError (busy after MAX_WAIT_MS, stopping). */
  readonly turn: Promise<boolean>;
  /** Its caller has gone. */
  readonly leave: () => void;
}

interface Waiter {
  readonly by: Interface;
  readonly sinceMs: number;
  readonly serve: (isServed: boolean) => void;
  readonly refuse: (error: ApiError) => void;
}

/**
 * Holds all readers together, plain requests and streams, to a share of the event loop while indexing has work to do:
 * `catchUpShare` while it catches up, SHARE_AT_HEAD close to the head, and no limit once all that the chain has is indexed.
 *
 * A request is admitted in the order of arrival, and what is made of it is counted: by measuring our own pieces of work, and by
 * what the rest is known to cost. While there is time left of the share all of that happens at once, with no timer and no promise. When there is
 * none, the pieces of admitted requests come first, then requests in their order; half of the share is the feed's, unless it
 * leaves it. So whatever is asked for comes, later, and nobody who waits is passed over.
 */
export class ReadGovernor implements Turns {
  readonly #catchUpShare: number;
  readonly #pace: number;
  readonly #status: ReadGovernorDependencies['status'];
  readonly #clock: Clock;
  readonly #metrics: ReadGovernorDependencies['metrics'];
  readonly #budget: LoopBudget;
  /** Requests in the order of arrival, at most MAX_WAITING_REQUESTS. */
  readonly #waiting = new Set<Waiter>();
  /** Work of admitted requests: at most one piece for each. None is admitted while a piece waits. */
  readonly #pieces: (() => void)[] = [];
  /** Goes on with the feed, which sends one event after another. */
  #feed: (() => void) | undefined;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: ReadGovernorOptions, dependencies: ReadGovernorDependencies) {
    this.#catchUpShare = options.catchUpShare;
    this.#pace = options.pace ?? 1;
    this.#status = dependencies.status;
    this.#clock = dependencies.clock;
    this.#metrics = dependencies.metrics;
    this.#budget = new LoopBudget({ share: () => this.#share() }, dependencies);
    for (const by of interfaces) {
      this.#metrics.readRequestsWaiting.set({ interface: by }, 0);
      this.#metrics.readWait.zero({ interface: by });
      for (const reason of turnedAway) this.#metrics.readRequestsTurnedAway.inc({ interface: by, reason }, 0);
    }
  }

  /**
   * For every request, before anything is done for it. `undefined`: it is served now. Expected errors: ApiError (busy) when too
   * many wait already.
   */
  admit(by: Interface): Waiting | undefined {
    if (this.#waiting.size === 0 && this.#pieces.length === 0 && this.#budget.mayBegin('requests')) {
      this.#spend('requests', REQUEST_COST_MS[by]);
      return undefined;
    }
    if (this.#waiting.size >= MAX_WAITING_REQUESTS) {
      this.#turnAway(by, 'queue_full');
      throw busy(`at most ${MAX_WAITING_REQUESTS} requests may wait for their turn`);
    }
    return this.#wait(by);
  }

  work<T>(task: () => T): T | Promise<T> {
    if (this.#pieces.length === 0 && this.#budget.mayBegin('requests')) {
      return this.#budget.measure('requests', task);
    }
    const run = (): Promise<T> => new Promise((resolve) => resolve(this.#budget.measure('requests', task)));
    return new Promise((resolve) => {
      this.#pieces.push(() => resolve(run()));
      this.#lookLater();
    });
  }

  pause(): Promise<void> {
    return sleep(this.#clock, 0);
  }

  sends(bytes: number): void {
    this.#spend('requests', sentCostMs(bytes));
  }

  /** So many questions are put to the store. */
  reads(count = 1): void {
    this.#spend('requests', count * READ_COST_MS);
  }

  /** Before each event of the feed: one per turn of the event loop, and none before there is time for it. */
  async feedTurn(): Promise<void> {
    await sleep(this.#clock, 0);
    if (this.#budget.mayBegin('feed')) return;
    await new Promise<void>((resolve) => {
      this.#feed = resolve;
      this.#lookLater();
    });
  }

  /** What an event of the feed takes of the event loop. */
  feedWork(task: () => void): void {
    this.#budget.measure('feed', task);
  }

  /** The feed puts a question to the store. */
  feedReads(): void {
    this.#spend('feed', READ_COST_MS);
  }

  /** Refuses what waits, and lets all that is under way come to its end. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const waiter of [...this.#waiting]) this.#refuse(waiter, 'stopping', stopping());
    this.#timer?.cancel();
    this.#look();
  }

  /** What costs so much at the pace of the machine it was measured on. */
  #spend(lane: Lane, costMs: number): void {
    this.#budget.spend(lane, costMs * this.#pace);
  }

  #share(): number | undefined {
    if (this.#closed) return undefined;
    const { latestIndexed, head } = this.#status.range();
    const lag = latestIndexed === null || head === null ? Infinity : head - latestIndexed;
    if (lag <= 0 || this.#catchUpShare >= 1) return undefined;
    return lag > AT_HEAD_HEIGHTS ? this.#catchUpShare : Math.max(SHARE_AT_HEAD, this.#catchUpShare);
  }

  #wait(by: Interface): Waiting {
    let leave = (): void => undefined;
    const turn = new Promise<boolean>((serve, refuse) => {
      const waiter: Waiter = { by, sinceMs: this.#clock.monotonic(), serve, refuse };
      this.#waiting.add(waiter);
      this.#metrics.readRequestsWaiting.inc({ interface: by });
      leave = () => {
        if (!this.#remove(waiter)) return;
        this.#turnAway(by, 'caller_left');
        serve(false);
        if (!this.#isAwaited()) this.#stopLooking();
      };
    });
    this.#lookLater();
    return { turn, leave: () => leave() };
  }

  #remove(waiter: Waiter): boolean {
    if (!this.#waiting.delete(waiter)) return false;
    this.#metrics.readRequestsWaiting.dec({ interface: waiter.by });
    return true;
  }

  #refuse(waiter: Waiter, reason: TurnedAway, error: ApiError): void {
    this.#remove(waiter);
    this.#turnAway(waiter.by, reason);
    waiter.refuse(error);
  }

  #turnAway(by: Interface, reason: TurnedAway): void {
    this.#metrics.readRequestsTurnedAway.inc({ interface: by, reason });
  }

  #isAwaited(): boolean {
    return this.#waiting.size > 0 || this.#pieces.length > 0 || this.#feed !== undefined;
  }

  #lookLater(): void {
    if (this.#timer !== undefined || !this.#isAwaited()) return;
    this.#timer = this.#clock.setTimer(this.#untilLookMs(), () => this.#look());
  }

  #stopLooking(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #untilLookMs(): number {
    const waits = [LOOK_EVERY_MS];
    if (this.#waiting.size > 0 || this.#pieces.length > 0) waits.push(this.#untilMs('requests'));
    if (this.#feed !== undefined) waits.push(this.#untilMs('feed'));
    return Math.min(...waits);
  }

  #untilMs(lane: 'requests' | 'feed'): number {
    return this.#budget.mayBegin(lane) ? 0 : this.#budget.waitMs(lane);
  }

  /** Goes on with what waits, as far as there is time for it. */
  #look(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonic();
    for (const waiter of this.#waiting) {
      if (nowMs - waiter.sinceMs < MAX_WAIT_MS) break;
      const message = `the request waited ${MAX_WAIT_MS / 1_000} s for its turn`;
      this.#refuse(waiter, 'waited_too_long', busy(message));
    }
    if (this.#feed !== undefined && this.#budget.mayBegin('feed')) {
      const goOn = this.#feed;
      this.#feed = undefined;
      goOn();
    }
    const hasTime = (): boolean =>
      this.#budget.mayBegin('requests') && this.#clock.monotonic() - nowMs < LOOK_LIMIT_MS;
    while (this.#pieces.length > 0 && hasTime()) this.#pieces.shift()?.();
    let admitted = 0;
    for (const waiter of this.#waiting) {
      if (this.#pieces.length > 0 || admitted === ADMITTED_AT_ONCE || !hasTime()) break;
      admitted += 1;
      this.#serve(waiter);
    }
    this.#lookLater();
  }

  #serve(waiter: Waiter): void {
    this.#remove(waiter);
    const { by, sinceMs } = waiter;
    this.#metrics.readWait.observe({ interface: by }, (this.#clock.monotonic() - sinceMs) / 1_000);
    this.#spend('requests', REQUEST_COST_MS[by]);
    waiter.serve(true);
  }
}

/** Somebody whose leaving is told by an event. */
interface Caller {
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

/** Waits for the turn of a caller who may leave meanwhile. As `Waiting.turn`. */
export async function turnOf({ turn, leave }: Waiting, caller: Caller, leaving: string): Promise<boolean> {
  caller.once(leaving, leave);
  try {
    return await turn;
  } finally {
    caller.off(leaving, leave);
  }
}

function busy(what: string): ApiError {
  const message = `${what}: readers have a share of the daemon's time while it catches up; ask again`;
  return new ApiError(503, 'busy', message);
}
