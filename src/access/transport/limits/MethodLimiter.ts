import type { Clock, Timer } from '../../../runtime/index.js';
import { abortReason, doublingMs } from '../../../runtime/index.js';

/** Pause after the node answered with a rate limit: short, doubling while it keeps doing so. */
const PAUSE = { minMs: 250, maxMs: 4_000 };
/** What remains of the rate after that. */
const RATE_CUT = 0.5;
/** Neither the adapted rate nor the share of a process falls below it. */
const MIN_RATE_PER_SECOND = 1;
/** Recovery per second at full pace, as a share of the rate at which the limit was hit. */
const RECOVERY_SHARE = 0.05;
/** What each success adds to a rate that doubles every second at full pace. */
const DOUBLING_STEP = Math.LN2;
/** After this many consecutive refusals, the last of them of a lone call, the rate was not the reason. */
const REFUSALS_OF_EVERYTHING = 4;
/**
 * Without a configured rate, the adapted one is dropped once it reaches this multiple of the rate at which the limit
 * was hit.
 */
const RELEASE_MULTIPLE = 2;
/** Calls that may be sent at once after a quiet time, in seconds of the rate (at least one call). */
const BURST_SECONDS = 0.1;
const SECOND_MS = 1_000;

export interface MethodLimiterDependencies {
  readonly clock: Clock;
  /** Processes that share the rate, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
}

export interface MethodLimiterOptions {
  /** Calls per second; 0 = no limit of ours. */
  readonly ratePerSecond: number;
  /** Callers that may wait at once; more are rejected. */
  readonly maxWaiting: number;
}

/** What keeps a method of a node from being called as often as one likes. */
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

interface Waiter {
  readonly admit: () => void;
}

/** Priority: the line that follows the head, then forwarded calls, then history. */
export const callRanks = ['live', 'forwarded', 'history'] as const;
export type CallRank = (typeof callRanks)[number];

/**
 * Calls that history leaves free for the others where that many may be sent at once, so that they need not wait for it.
 */
const LEFT_BY_HISTORY = 1;

/**
 * Paces the calls of one method to one access node: a token bucket for the configured rate, and what the node's own
 * "rate limit reached" answers teach. Each such answer holds the method back (250 ms doubling to 4 s) and halves the
 * rate, which then grows with every successful call (additive increase, multiplicative decrease). Consecutive refusals
 * without a success between them are one episode. It began at the rate that was too high for the node: half of that is
 * safe, and is reached again by doubling. If the node refused everything for a while, our rate was not the reason: it
 * doubles until the next refusal.
 */
export class MethodLimiter {
  readonly #rateOfAll: number;
  readonly #sharers: () => number;
  readonly #maxWaiting: number;
  readonly #clock: Clock;
  /** Set while the node's answers hold the rate below the configured one (or below no limit). */
  #adaptedRate: number | undefined;
  /** The rate at which the node first refused in the present episode. */
  #ceiling = 0;
  /** Below this rate the adapted one doubles every second. */
  #doublesBelow = 0;
  #pausedUntilMs = -Infinity;
  #pauses = 0;
  #cuts = 0;
  #tokens: number;
  #refilledAtMs: number;
  #secondStartedMs: number;
  #sentThisSecond = 0;
  #sentLastSecond = 0;
  /** A queue for each rank: its callers are admitted only while no queue before it has any. */
  readonly #lines: Readonly<Record<CallRank, Set<Waiter>>> = {
    live: new Set(),
    forwarded: new Set(),
    history: new Set(),
  };
  #timer: Timer | undefined;

  constructor(options: MethodLimiterOptions, dependencies: MethodLimiterDependencies) {
    this.#rateOfAll = options.ratePerSecond;
    this.#sharers = dependencies.sharers ?? (() => 1);
    this.#maxWaiting = options.maxWaiting;
    this.#clock = dependencies.clock;
    this.#tokens = this.#burst();
    this.#refilledAtMs = this.#secondStartedMs = this.#clock.monotonic();
  }

  /** True while a rate limit that the node answered holds every call back. */
  get heldBack(): boolean {
    return this.#clock.monotonic() < this.#pausedUntilMs;
  }

  /** True while the node has refused so many consecutive calls that the rate is not the reason. */
  get refusesEverything(): boolean {
    return this.#pauses >= REFUSALS_OF_EVERYTHING;
  }

  /** Calls per second that may be sent now; `undefined` = unlimited. */
  get ratePerSecond(): number | undefined {
    const adapted = this.#adaptedRate;
    const configured = this.#configuredRate;
    return adapted === undefined || configured === undefined
      ? (adapted ?? configured)
      : Math.min(adapted, configured);
  }

  /** `undefined` while nothing limits the calls. */
  get limit(): CallLimit | undefined {
    const { ratePerSecond } = this;
    const pauseMs = Math.max(0, this.#pausedUntilMs - this.#clock.monotonic());
    if (ratePerSecond === undefined && pauseMs === 0) return undefined;
    const waiting = this.#waitingBefore('history');
    return { ratePerSecond, isLearned: this.#adaptedRate !== undefined, pauseMs, waiting };
  }

  /** This process's share of it. */
  get #configuredRate(): number | undefined {
    const rate = this.#rateOfAll;
    if (rate <= 0) return undefined;
    return Math.max(Math.min(rate, MIN_RATE_PER_SECOND), rate / Math.max(1, this.#sharers()));
  }

  /** True when no further caller of the rank may wait. */
  isFull(rank: CallRank = 'live'): boolean {
    return this.#lines[rank].size >= this.#maxWaiting;
  }

  /** Milliseconds until a new call of the rank could be sent, behind those that wait before it. */
  delayMs(rank: CallRank = 'live'): number {
    return this.#delayMs(rank, this.#waitingBefore(rank));
  }

  /**
   * A permit if a call may be sent now, else the promise of one; first come, first served within a rank, and only what
   * the ranks before it leave of the rate. The caller checks `isFull` first. Expected errors: the signal's abort
   * reason.
   */
  acquire(signal?: AbortSignal, rank: CallRank = 'live'): Permit | Promise<Permit> {
    if (this.#waitingBefore(rank) === 0 && this.delayMs(rank) === 0) return this.#take();
    return this.#wait(this.#lines[rank], signal);
  }

  /**
   * The node answered the call: the pause starts short again and the adapted rate grows. True when it had refused
   * everything until then.
   */
  succeeded(permit: Permit): boolean {
    if (permit.cuts !== this.#cuts) return false;
    const wasShut = this.refusesEverything;
    this.#pauses = 0;
    this.#grow();
    return wasShut;
  }

  #grow(): void {
    if (this.#adaptedRate === undefined) return;
    const doubles = this.#adaptedRate < this.#doublesBelow;
    const step = doubles ? DOUBLING_STEP : (RECOVERY_SHARE * this.#ceiling) / this.#adaptedRate;
    const grown = this.#adaptedRate + step;
    const enough = this.#configuredRate ?? this.#ceiling * RELEASE_MULTIPLE;
    this.#refill(this.#clock.monotonic());
    this.#adaptedRate = grown >= enough ? undefined : grown;
    this.#tokens = Math.min(this.#tokens, this.#burst());
  }

  /** The node answered with its rate limit. Of the calls that were under way together only the first counts. */
  rateLimited(permit: Permit): void {
    if (permit.cuts !== this.#cuts) return;
    const now = this.#clock.monotonic();
    this.#rollSecond(now);
    const observed = Math.max(this.#sentLastSecond, this.#sentThisSecond, MIN_RATE_PER_SECOND);
    const refusedRate = Math.min(this.ratePerSecond ?? Infinity, observed);
    if (this.#pauses === 0) {
      this.#ceiling = refusedRate;
      this.#doublesBelow = refusedRate * RATE_CUT;
    }
    this.#adaptedRate = Math.max(MIN_RATE_PER_SECOND, refusedRate * RATE_CUT);
    if (this.#configuredRate !== undefined) {
      this.#adaptedRate = Math.min(this.#adaptedRate, this.#configuredRate);
    }
    this.#cuts += 1;
    this.#tokens = 1;
    this.#pausedUntilMs = now + doublingMs(PAUSE, this.#pauses);
    this.#refilledAtMs = this.#pausedUntilMs;
    this.#pauses += 1;
    if (this.refusesEverything) this.#doublesBelow = Infinity;
    this.#cancelTimer();
    this.#schedule();
  }

  #wait(line: Set<Waiter>, signal: AbortSignal | undefined): Promise<Permit> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        admit: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve(this.#take());
        },
      };
      const onAbort = (): void => {
        line.delete(waiter);
        if (this.#nobodyWaits) this.#cancelTimer();
        if (signal !== undefined) reject(abortReason(signal));
      };
      if (signal?.aborted === true) {
        reject(abortReason(signal));
        return;
      }
      signal?.addEventListener('abort', onAbort, { once: true });
      line.add(waiter);
      this.#schedule();
    });
  }

  get #nobodyWaits(): boolean {
    return this.#waitingBefore('history') === 0;
  }

  /** Waiting callers of the rank and of those before it. */
  #waitingBefore(rank: CallRank): number {
    const ranks = callRanks.slice(0, callRanks.indexOf(rank) + 1);
    return ranks.reduce((sum, each) => sum + this.#lines[each].size, 0);
  }

  #burst(): number {
    const rate = this.ratePerSecond;
    return rate === undefined ? 1 : Math.max(1, rate * BURST_SECONDS);
  }

  #take(): Permit {
    const now = this.#clock.monotonic();
    this.#rollSecond(now);
    this.#sentThisSecond += 1;
    if (this.ratePerSecond !== undefined) this.#tokens -= 1;
    return { cuts: this.#cuts };
  }

  #refill(now: number): void {
    const rate = this.ratePerSecond;
    if (rate === undefined || now <= this.#refilledAtMs) return;
    this.#tokens = Math.min(this.#burst(), this.#tokens + ((now - this.#refilledAtMs) / SECOND_MS) * rate);
    this.#refilledAtMs = now;
  }

  #rollSecond(now: number): void {
    const elapsed = now - this.#secondStartedMs;
    if (elapsed < SECOND_MS) return;
    this.#sentLastSecond = elapsed < 2 * SECOND_MS ? this.#sentThisSecond : 0;
    this.#sentThisSecond = 0;
    this.#secondStartedMs = now;
  }

  /** Milliseconds until a call of the rank may be sent behind so many others. */
  #delayMs(rank: CallRank, others: number): number {
    const now = this.#clock.monotonic();
    this.#refill(now);
    const pauseMs = Math.max(0, this.#pausedUntilMs - now);
    const rate = this.ratePerSecond;
    if (rate === undefined) return pauseMs;
    const left = rank === 'history' ? Math.min(LEFT_BY_HISTORY, this.#burst() - 1) : 0;
    const missing = others + 1 + left - this.#tokens;
    return Math.max(pauseMs, missing > 0 ? (missing / rate) * SECOND_MS : 0);
  }

  #schedule(): void {
    const first = callRanks.find((rank) => this.#lines[rank].size > 0);
    if (this.#timer !== undefined || first === undefined) return;
    // Whole milliseconds, rounded up: a timer that fires a fraction early would only be set again.
    this.#timer = this.#clock.setTimer(Math.ceil(this.#delayMs(first, 0)), () => {
      this.#timer = undefined;
      this.#admitWaiting();
    });
  }

  #admitWaiting(): void {
    for (const rank of callRanks) {
      const line = this.#lines[rank];
      for (const waiter of line) {
        if (this.#delayMs(rank, 0) > 0) {
          this.#schedule();
          return;
        }
        line.delete(waiter);
        waiter.admit();
      }
    }
  }

  #cancelTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
