import type { Clock } from '../../../runtime/index.js';
import { doublingMs } from '../../../runtime/index.js';

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
const SECOND_MS = 1_000;

export interface CallRateDependencies {
  readonly clock: Clock;
  /** Processes that share the rate, this one included. Default: it alone. */
  readonly sharers?: (() => number) | undefined;
}

/**
 * How fast one method of one access node may be called: the configured rate, adapted by the node's own "rate limit
 * reached" answers. Each such answer holds the method back (250 ms doubling to 4 s) and halves the rate, which then grows
 * with every successful call (additive increase, multiplicative decrease). Consecutive refusals without a success between
 * them are one episode. It began at a rate that was too high for the node: half of that is safe, and is reached again by
 * doubling. If the node refused everything for a while, our rate was not the reason: it doubles until the next refusal.
 */
export class CallRate {
  readonly #rateOfAll: number;
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
  #secondStartedMs: number;
  #sentThisSecond = 0;
  #sentLastSecond = 0;

  constructor(options: { readonly ratePerSecond: number }, dependencies: CallRateDependencies) {
    this.#rateOfAll = options.ratePerSecond;
    this.#sharers = dependencies.sharers ?? (() => 1);
    this.#secondStartedMs = dependencies.clock.monotonic();
  }

  /** Calls per second that may be sent now; `undefined` = unlimited. */
  get perSecond(): number | undefined {
    const adapted = this.#adaptedRate;
    const configured = this.#configuredRate;
    return adapted === undefined || configured === undefined
      ? (adapted ?? configured)
      : Math.min(adapted, configured);
  }

  /** The node's answers hold the rate down. */
  get isLearned(): boolean {
    return this.#adaptedRate !== undefined;
  }

  /** Monotonic milliseconds until which a rate limit that the node answered holds every call back. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs;
  }

  /** How often the rate was cut. */
  get cuts(): number {
    return this.#cuts;
  }

  /** True while the node has refused so many consecutive calls that the rate is not the reason. */
  get refusesEverything(): boolean {
    return this.#pauses >= REFUSALS_OF_EVERYTHING;
  }

  /** This process's share of the configured rate. */
  get #configuredRate(): number | undefined {
    const rate = this.#rateOfAll;
    if (rate <= 0) return undefined;
    return Math.max(Math.min(rate, MIN_RATE_PER_SECOND), rate / Math.max(1, this.#sharers()));
  }

  /** A call is sent now. */
  sent(nowMs: number): void {
    this.#rollSecond(nowMs);
    this.#sentThisSecond += 1;
  }

  /**
   * The node answered a call that was sent after the last cut: the next pause is short again, and the adapted rate grows.
   * True when it had refused everything until then.
   */
  succeeded(): boolean {
    const wasShut = this.refusesEverything;
    this.#pauses = 0;
    this.#grow();
    return wasShut;
  }

  /** The node refused a call that was sent after the last cut, because of its rate limit. */
  refused(nowMs: number): void {
    this.#rollSecond(nowMs);
    const observed = Math.max(this.#sentLastSecond, this.#sentThisSecond, MIN_RATE_PER_SECOND);
    const refusedRate = Math.min(this.perSecond ?? Infinity, observed);
    if (this.#pauses === 0) {
      this.#ceiling = refusedRate;
      this.#doublesBelow = refusedRate * RATE_CUT;
    }
    this.#adaptedRate = Math.max(MIN_RATE_PER_SECOND, refusedRate * RATE_CUT);
    if (this.#configuredRate !== undefined) {
      this.#adaptedRate = Math.min(this.#adaptedRate, this.#configuredRate);
    }
    this.#cuts += 1;
    this.#pausedUntilMs = nowMs + doublingMs(PAUSE, this.#pauses);
    this.#pauses += 1;
    if (this.refusesEverything) this.#doublesBelow = Infinity;
  }

  #grow(): void {
    if (this.#adaptedRate === undefined) return;
    const doubles = this.#adaptedRate < this.#doublesBelow;
    const step = doubles ? DOUBLING_STEP : (RECOVERY_SHARE * this.#ceiling) / this.#adaptedRate;
    const grown = this.#adaptedRate + step;
    const enough = this.#configuredRate ?? this.#ceiling * RELEASE_MULTIPLE;
    this.#adaptedRate = grown >= enough ? undefined : grown;
  }

  #rollSecond(nowMs: number): void {
    const elapsedMs = nowMs - this.#secondStartedMs;
    if (elapsedMs < SECOND_MS) return;
    this.#sentLastSecond = elapsedMs < 2 * SECOND_MS ? this.#sentThisSecond : 0;
    this.#sentThisSecond = 0;
    this.#secondStartedMs = nowMs;
  }
}
