import { doublingMs, unlessAborted, type Clock, type Timer } from '../../../runtime/index.js';

/** Pause after the node answered with a rate limit: short, doubling while it keeps doing so. */
const PAUSE = { minMs: 250, maxMs: 4_000 };
/** The share of the rate that remains after that. */
const RATE_CUT = 0.5;
/** The least adapted rate, and the least share of a process. */
const MIN_RATE_PER_SECOND = 1;
/** Recovery per second at full pace, as a share of the rate at which the limit was hit. */
const RECOVERY_SHARE = 0.05;
/** What each success adds to a rate that doubles every second at full pace. */
const DOUBLING_STEP = Math.LN2;
/** After this many consecutive refusals, the last ones of single calls, the rate is not the reason. */
const REFUSALS_OF_EVERYTHING = 4;
/**
 * Without a configured rate, the adapted one is dropped once it reaches this multiple of the rate at which the limit
 * was hit.
 */
const RELEASE_MULTIPLE = 2;
/** Calls that may be sent at once after a quiet time, in seconds of the rate (at least one call). */
const BURST_SECONDS = 0.1;
const SECOND_MS = 1_000;

/** Admits one call; handed back with its outcome. */
export interface Permit {
  /** Cuts of the rate before this call was sent: the answer to an older call says nothing about the present rate. */
  readonly cuts: number;
}

interface Options {
  /** Calls per second; 0 = no limit of ours. */
  readonly ratePerSecond: number;
  /** Callers of a rank that may wait at once. */
  readonly maxWaiting: number;
}

interface Dependencies {
  readonly clock: Clock;
  /** Processes that share the rate, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
}

/** In order of priority: calls for the live range, forwarded calls, calls for history. */
const callRanks = ['live', 'forwarded', 'history'] as const;
export type CallRank = (typeof callRanks)[number];

/**
 * Calls that history leaves to the others, if the burst allows more than that, so that they need not wait for history.
 */
const LEFT_BY_HISTORY = 1;

/**
 * Paces the calls of one method to one access node: a token bucket, and a queue of callers for each rank.
 *
 * The bucket is filled at the configured rate, adapted by the node's own "rate limit
 * reached" answers. Each such answer holds the method back (250 ms doubling to 4 s) and halves the rate, which then grows
 * with every successful call (additive increase, multiplicative decrease). Consecutive refusals without a success between
 * them are one episode. It began at a rate that was too high for the node: half of that is safe, and is reached again by
 * doubling. If the node refused everything for a while, or a call a second, our rate was not the reason: it doubles until the
 * next refusal.
 */
export class MethodLimiter {
  readonly #options: Options;
  readonly #clock: Clock;
  readonly #sharers: () => number;
  /** Set while the node's answers hold the rate below the configured one (or below no limit). */
  #adaptedRate: number | undefined;
  /** The rate at which the node first refused in the present episode. */
  #ceiling = 0;
  /** Below this rate the adapted one doubles every second. */
  #doublesBelow = 0;
  #pausedUntilMs = -Infinity;
  #pauses = 0;
  #cuts = 0;
  /** Calls sent of late, of which each counts for less the longer ago it was: at a steady pace, those of a second. */
  #sent = 0;
  #sentAtMs = 0;
  /** By how many calls the bucket was not full then. */
  #used = 0;
  #usedAtMs = 0;
  /** A queue for each rank, of functions that admit: they are called only while all queues before it are empty. */
  readonly #queues: Readonly<Record<CallRank, Set<() => void>>> = {
    live: new Set(),
    forwarded: new Set(),
    history: new Set(),
  };
  /** The next look at the queues. */
  #timer: Timer | undefined;

  constructor(options: Options, { clock, sharers = () => 1 }: Dependencies) {
    this.#options = options;
    this.#clock = clock;
    this.#sharers = sharers;
  }

  /** True while a rate limit that the node answered holds every call back. */
  get heldBack(): boolean {
    return this.#pauseMs > 0;
  }

  /** True while the node has refused so many consecutive calls that the rate is not the reason. */
  get refusesEverything(): boolean {
    return this.#pauses >= REFUSALS_OF_EVERYTHING;
  }

  /** Calls per second that may be sent now; `undefined` = unlimited. */
  get ratePerSecond(): number | undefined {
    const rate = Math.min(this.#adaptedRate ?? Infinity, this.#configuredRate ?? Infinity);
    return rate === Infinity ? undefined : rate;
  }

  /** `undefined` while nothing limits the calls. */
  get limit() {
    const { ratePerSecond } = this;
    if (ratePerSecond === undefined && !this.heldBack) return undefined;
    return {
      ratePerSecond,
      /** The node's answers hold the rate down. */
      isLearned: this.#adaptedRate !== undefined,
      /** Milliseconds. */
      pauseMs: this.#pauseMs,
      waiting: this.#waitingBefore('history'),
    };
  }

  /** Milliseconds until a call of the rank may be sent behind this many others. Default: behind all that wait already. */
  delayMs(rank: CallRank = 'live', others = this.#waitingBefore(rank)): number {
    const rate = this.ratePerSecond;
    if (rate === undefined) return this.#pauseMs;
    const burst = burstOf(rate);
    const left = rank === 'history' ? Math.min(LEFT_BY_HISTORY, burst - 1) : 0;
    const missing = this.#usedBy(rate) + others + 1 + left - burst;
    return Math.max(this.#pauseMs, (missing / rate) * SECOND_MS);
  }

  /**
   * A permit if a call may be sent now, else the promise of one: first come, first served within a rank, after all ranks
   * before it. `undefined`: no further caller of the rank may wait. Expected errors: the signal's abort reason.
   */
  acquire(signal?: AbortSignal, rank: CallRank = 'live'): Permit | Promise<Permit> | undefined {
    if (this.#waitingBefore(rank) === 0 && this.delayMs(rank) === 0) return this.#take();
    const queue = this.#queues[rank];
    if (queue.size >= this.#options.maxWaiting) return undefined;
    return unlessAborted(signal, (resolve) => {
      const admit = (): void => resolve(this.#take());
      queue.add(admit);
      this.#admitWaiting();
      return () => {
        queue.delete(admit);
        if (this.#waitingBefore('history') === 0) this.#timer?.cancel();
      };
    });
  }

  /**
   * The node answered the call: the next pause is short again, and the adapted rate grows. True when it had refused
   * everything until then.
   */
  succeeded(permit: Permit): boolean {
    if (permit.cuts !== this.#cuts) return false;
    const wasShut = this.refusesEverything;
    this.#pauses = 0;
    const adapted = this.#adaptedRate;
    if (adapted === undefined) return wasShut;
    const doubles = adapted < this.#doublesBelow;
    const grown = adapted + (doubles ? DOUBLING_STEP : (RECOVERY_SHARE * this.#ceiling) / adapted);
    const enough = this.#configuredRate ?? this.#ceiling * RELEASE_MULTIPLE;
    this.#adaptedRate = grown >= enough ? undefined : grown;
    this.#admitWaiting();
    return wasShut;
  }

  /** The node refused the call because of its rate limit. Of several calls under way together only the first counts. */
  rateLimited(permit: Permit): void {
    if (permit.cuts !== this.#cuts) return;
    const observed = Math.max(this.#sentInSecond(), MIN_RATE_PER_SECOND);
    const refusedRate = Math.min(this.ratePerSecond ?? Infinity, observed);
    if (this.#pauses === 0) {
      this.#ceiling = refusedRate;
      this.#doublesBelow = refusedRate * RATE_CUT;
    }
    const cut = Math.max(MIN_RATE_PER_SECOND, refusedRate * RATE_CUT);
    this.#adaptedRate = Math.min(cut, this.#configuredRate ?? Infinity);
    this.#cuts += 1;
    this.#pausedUntilMs = this.#clock.monotonic() + doublingMs(PAUSE, this.#pauses);
    this.#pauses += 1;
    if (this.refusesEverything || refusedRate <= MIN_RATE_PER_SECOND) this.#doublesBelow = Infinity;
    this.#used = burstOf(this.#adaptedRate) - 1;
    this.#usedAtMs = this.#pausedUntilMs;
  }

  /** Milliseconds until a rate limit that the node answered holds calls back no more; 0 = none does. */
  get #pauseMs(): number {
    return Math.max(0, this.#pausedUntilMs - this.#clock.monotonic());
  }

  /** This process's share of the configured rate. */
  get #configuredRate(): number | undefined {
    const rate = this.#options.ratePerSecond;
    if (rate <= 0) return undefined;
    return Math.max(Math.min(rate, MIN_RATE_PER_SECOND), rate / Math.max(1, this.#sharers()));
  }

  /** The number of waiting callers of the rank and of all ranks before it. */
  #waitingBefore(rank: CallRank): number {
    const ranks = callRanks.slice(0, callRanks.indexOf(rank) + 1);
    return ranks.reduce((sum, each) => sum + this.#queues[each].size, 0);
  }

  #take(): Permit {
    const nowMs = this.#clock.monotonic();
    this.#sent = this.#sentInSecond() + 1;
    this.#sentAtMs = nowMs;
    const rate = this.ratePerSecond;
    if (rate !== undefined) this.#used = this.#usedBy(rate) + 1;
    this.#usedAtMs = Math.max(this.#usedAtMs, nowMs);
    return { cuts: this.#cuts };
  }

  /** By how many calls the bucket is not full, if it was filled at this rate. */
  #usedBy(rate: number): number {
    const filledMs = Math.max(0, this.#clock.monotonic() - this.#usedAtMs);
    return Math.max(0, this.#used - (filledMs / SECOND_MS) * rate);
  }

  #sentInSecond(): number {
    return this.#sent * Math.exp((this.#sentAtMs - this.#clock.monotonic()) / SECOND_MS);
  }

  /**
   * Admits who may be sent now, and looks again when the next one may. Call it after every change that may let somebody go
   * sooner.
   */
  #admitWaiting(): void {
    this.#timer?.cancel();
    for (const rank of callRanks) {
      for (const admit of this.#queues[rank]) {
        // Whole milliseconds, rounded up: a timer that fires a fraction early would only be set again.
        const delayMs = Math.ceil(this.delayMs(rank, 0));
        if (delayMs > 0) {
          this.#timer = this.#clock.setTimer(delayMs, () => this.#admitWaiting());
          return;
        }
        admit();
      }
    }
  }
}

/** Calls that may be sent at once after a quiet time. */
function burstOf(rate: number): number {
  return Math.max(1, rate * BURST_SECONDS);
}
