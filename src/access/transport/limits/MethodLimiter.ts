import type { Clock, Timer } from '../../../runtime/index.js';
import { unlessAborted } from '../../../runtime/index.js';
import { CallRate } from './CallRate.js';
import type { CallRateDependencies } from './CallRate.js';

/** Calls that may be sent at once after a quiet time, in seconds of the rate (at least one call). */
const BURST_SECONDS = 0.1;
const SECOND_MS = 1_000;

/** The present limit on the calls of a method to a node. */
export interface CallLimit {
  /** Calls per second that may be sent now; `undefined` = unlimited. */
  readonly ratePerSecond: number | undefined;
  /** The node's answers hold the rate down. */
  readonly isLearned: boolean;
  /** Milliseconds for which a rate limit that the node answered holds every call back; 0 = none does. */
  readonly pauseMs: number;
  /** Callers that wait. */
  readonly waiting: number;
}

/** Admits one call; handed back with its outcome. */
export interface Permit {
  /** Cuts of the rate before this call was sent: the answer to an older call says nothing about the present rate. */
  readonly cuts: number;
}

/** In order of priority: calls for the live range, forwarded calls, calls for history. */
const callRanks = ['live', 'forwarded', 'history'] as const;
export type CallRank = (typeof callRanks)[number];

/**
 * Calls that history leaves to the others, if the burst allows more than that, so that they need not wait for history.
 */
const LEFT_BY_HISTORY = 1;

/**
 * Paces the calls of one method to one access node: a token bucket at the rate that `CallRate` allows, and a queue of
 * callers for each rank.
 */
export class MethodLimiter {
  readonly #maxWaiting: number;
  readonly #clock: Clock;
  readonly #rate: CallRate;
  #tokens: number;
  #refilledAtMs: number;
  /** A queue for each rank, of functions that admit: they are called only while all queues before it are empty. */
  readonly #queues: Readonly<Record<CallRank, Set<() => void>>> = {
    live: new Set(),
    forwarded: new Set(),
    history: new Set(),
  };
  /** The next look at the queues, and when it is due in monotonic milliseconds. */
  #timer: { readonly timer: Timer; readonly atMs: number } | undefined;

  constructor(
    options: {
      /** Calls per second; 0 = no limit of ours. */
      readonly ratePerSecond: number;
      /** Callers that may wait at once; more are rejected. */
      readonly maxWaiting: number;
    },
    dependencies: CallRateDependencies,
  ) {
    this.#maxWaiting = options.maxWaiting;
    this.#clock = dependencies.clock;
    this.#rate = new CallRate(options, dependencies);
    this.#tokens = this.#burst();
    this.#refilledAtMs = this.#clock.monotonic();
  }

  /** True while a rate limit that the node answered holds every call back. */
  get heldBack(): boolean {
    return this.#clock.monotonic() < this.#rate.pausedUntilMs;
  }

  /** True while the node has refused so many consecutive calls that the rate is not the reason. */
  get refusesEverything(): boolean {
    return this.#rate.refusesEverything;
  }

  /** Calls per second that may be sent now; `undefined` = unlimited. */
  get ratePerSecond(): number | undefined {
    return this.#rate.perSecond;
  }

  /** `undefined` while nothing limits the calls. */
  get limit(): CallLimit | undefined {
    const { ratePerSecond } = this;
    const pauseMs = Math.max(0, this.#rate.pausedUntilMs - this.#clock.monotonic());
    if (ratePerSecond === undefined && pauseMs === 0) return undefined;
    const waiting = this.#waitingBefore('history');
    return { ratePerSecond, isLearned: this.#rate.isLearned, pauseMs, waiting };
  }

  /** True when no further caller of the rank may wait. */
  isFull(rank: CallRank = 'live'): boolean {
    return this.#queues[rank].size >= this.#maxWaiting;
  }

  /** Milliseconds until a new call of the rank could be sent, behind the calls that wait already. */
  delayMs(rank: CallRank = 'live'): number {
    return this.#delayMs(rank, this.#waitingBefore(rank));
  }

  /**
   * A permit if a call may be sent now, else the promise of one: first come, first served within a rank, after all ranks
   * before it. The caller checks `isFull` first. Expected errors: the signal's abort reason.
   */
  acquire(signal?: AbortSignal, rank: CallRank = 'live'): Permit | Promise<Permit> {
    if (this.#waitingBefore(rank) === 0 && this.delayMs(rank) === 0) return this.#take();
    return this.#wait(this.#queues[rank], signal);
  }

  /**
   * The node answered the call: the next pause is short again, and the adapted rate grows. True when it had refused
   * everything until then.
   */
  succeeded(permit: Permit): boolean {
    if (permit.cuts !== this.#rate.cuts) return false;
    if (!this.#rate.isLearned) return this.#rate.succeeded();
    this.#refill(this.#clock.monotonic());
    const wasShut = this.#rate.succeeded();
    this.#tokens = Math.min(this.#tokens, this.#burst());
    this.#schedule();
    return wasShut;
  }

  /** The node refused the call because of its rate limit. Of several calls under way together only the first counts. */
  rateLimited(permit: Permit): void {
    if (permit.cuts !== this.#rate.cuts) return;
    this.#rate.refused(this.#clock.monotonic());
    this.#tokens = 1;
    this.#refilledAtMs = this.#rate.pausedUntilMs;
  }

  #wait(queue: Set<() => void>, signal: AbortSignal | undefined): Promise<Permit> {
    return unlessAborted(signal, (resolve) => {
      const admit = (): void => resolve(this.#take());
      queue.add(admit);
      this.#schedule();
      return () => {
        queue.delete(admit);
        if (this.#waitingBefore('history') === 0) this.#cancelTimer();
      };
    });
  }

  /** The number of waiting callers of the rank and of all ranks before it. */
  #waitingBefore(rank: CallRank): number {
    const ranks = callRanks.slice(0, callRanks.indexOf(rank) + 1);
    return ranks.reduce((sum, each) => sum + this.#queues[each].size, 0);
  }

  #burst(): number {
    const rate = this.ratePerSecond;
    return rate === undefined ? 1 : Math.max(1, rate * BURST_SECONDS);
  }

  #take(): Permit {
    this.#rate.sent(this.#clock.monotonic());
    if (this.ratePerSecond !== undefined) this.#tokens -= 1;
    return { cuts: this.#rate.cuts };
  }

  #refill(now: number): void {
    const rate = this.ratePerSecond;
    if (rate === undefined || now <= this.#refilledAtMs) return;
    this.#tokens = Math.min(this.#burst(), this.#tokens + ((now - this.#refilledAtMs) / SECOND_MS) * rate);
    this.#refilledAtMs = now;
  }

  /** Milliseconds until a call of the rank may be sent behind this many others. */
  #delayMs(rank: CallRank, others: number): number {
    const now = this.#clock.monotonic();
    this.#refill(now);
    const pauseMs = Math.max(0, this.#rate.pausedUntilMs - now);
    const rate = this.ratePerSecond;
    if (rate === undefined) return pauseMs;
    const left = rank === 'history' ? Math.min(LEFT_BY_HISTORY, this.#burst() - 1) : 0;
    const missing = others + 1 + left - this.#tokens;
    return Math.max(pauseMs, missing > 0 ? (missing / rate) * SECOND_MS : 0);
  }

  /**
   * For the first caller of the first rank. Call it after every change that may let it go sooner: a timer that was set for
   * somebody else, or at another rate, may be due too late. One that is due too soon looks again.
   */
  #schedule(): void {
    const first = callRanks.find((rank) => this.#queues[rank].size > 0);
    if (first === undefined) return;
    // Whole milliseconds, rounded up: a timer that fires a fraction early would only be set again.
    const delayMs = Math.ceil(this.#delayMs(first, 0));
    const atMs = this.#clock.monotonic() + delayMs;
    if (this.#timer !== undefined && this.#timer.atMs <= atMs) return;
    this.#cancelTimer();
    const timer = this.#clock.setTimer(delayMs, () => {
      this.#timer = undefined;
      this.#admitWaiting();
    });
    this.#timer = { timer, atMs };
  }

  #admitWaiting(): void {
    for (const rank of callRanks) {
      for (const admit of this.#queues[rank]) {
        if (this.#delayMs(rank, 0) > 0) {
          this.#schedule();
          return;
        }
        admit();
      }
    }
  }

  #cancelTimer(): void {
    this.#timer?.timer.cancel();
    this.#timer = undefined;
  }
}
