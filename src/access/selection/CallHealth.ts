import { doublingMs } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { NodeFault } from '../types.js';

/** The bounds of a penalty: how long a call, or a node, is asked last. */
const PENALTY = { minMs: 10_000, maxMs: 300_000 };
/** Consecutive failures before a call is penalized rather than just asked later. */
const FAILURES_BEFORE_PENALTY = 3;
/** A single failure moves a call behind the others for this long. */
const FAILING_MS = 10_000;
/** Consecutive failures after which a call rests while an equivalent one works. */
const FAILURES_BEFORE_REST = 2;
/** A silence counts as this many failures: it costs as much time. */
const FAILURES_PER_SILENCE = 2;
/** How long a call rests. */
const REST = { minMs: 10_000, maxMs: 120_000 };

/** Why a call, or a node, is not healthy. */
export interface CallRecord {
  readonly state: 'failing' | 'set_aside';
  readonly fault: NodeFault;
  /** Consecutive faults. */
  readonly count: number;
  /** The message of the node, or what was wrong with its answer. */
  readonly said: string;
  /** Monotonic milliseconds of the first of these faults. */
  readonly sinceMs: number;
  /** Monotonic milliseconds at which it is healthy again, unless it fails meanwhile. */
  readonly untilMs: number;
}

/**
 * The record of one call to a node, or of the node as a whole. Time is evaluated when read; there are no timers.
 */
export class CallHealth {
  readonly #clock: Clock;
  #failures = 0;
  #failingUntilMs = -Infinity;
  #penalties = 0;
  #penaltyUntilMs = -Infinity;
  #penaltyFor: NodeFault | undefined;
  #rests = 0;
  #restsUntilMs = -Infinity;
  #failedAtMs = -Infinity;
  #row:
    | { readonly fault: NodeFault; readonly count: number; readonly said: string; readonly sinceMs: number }
    | undefined;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
  }

  get state(): 'healthy' | 'failing' | 'set_aside' {
    const now = this.#clock.monotonic();
    if (now < this.#penaltyUntilMs) return 'set_aside';
    return now < this.#failingUntilMs ? 'failing' : 'healthy';
  }

  /** Why it is not healthy; `undefined` while it is. */
  get record(): CallRecord | undefined {
    const { state } = this;
    if (state === 'healthy' || this.#row === undefined) return undefined;
    const untilMs = state === 'set_aside' ? this.#penaltyUntilMs : this.#failingUntilMs;
    return { state, ...this.#row, untilMs };
  }

  /** When it failed last; -Infinity if never, or not since its last success. */
  get failedAtMs(): number {
    return this.#failedAtMs;
  }

  /** It failed twice in a row: the equivalent call is used for a while. */
  get rests(): boolean {
    return this.#clock.monotonic() < this.#restsUntilMs;
  }

  /** The equivalent call fails as well: this one may be used again at once. */
  endRest(): void {
    this.#restsUntilMs = -Infinity;
  }

  /** Clears the record. A penalty for a lie still runs its full time: one good answer does not undo a lie. */
  succeeded(): void {
    this.#failures = 0;
    this.#failingUntilMs = -Infinity;
    this.#rests = 0;
    this.#restsUntilMs = -Infinity;
    this.#failedAtMs = -Infinity;
    if (this.#penaltyFor === 'lied' && this.#clock.monotonic() < this.#penaltyUntilMs) return;
    this.#row = undefined;
    this.#penalties = 0;
    this.#penaltyUntilMs = -Infinity;
    this.#penaltyFor = undefined;
  }

  /**
   * Counts a fault. Lies and silences are penalized at once, failures the third time in a row, and from then on each
   * time until a success. Returns the length of a new penalty, or `undefined`.
   */
  report(fault: NodeFault, said: string): number | undefined {
    const now = this.#clock.monotonic();
    this.#row = { fault, said, count: (this.#row?.count ?? 0) + 1, sinceMs: this.#row?.sinceMs ?? now };
    this.#failedAtMs = now;
    this.#failures += fault === 'stale' ? FAILURES_PER_SILENCE : 1;
    if (this.#failures >= FAILURES_BEFORE_REST && now >= this.#restsUntilMs) {
      this.#restsUntilMs = now + doublingMs(REST, this.#rests);
      this.#rests += 1;
    }
    if (fault !== 'lied') this.#failingUntilMs = now + FAILING_MS;
    // A penalized call is made only if nothing better is left: that must not extend the penalty.
    if (now < this.#penaltyUntilMs) return undefined;
    if (fault === 'failing' && this.#failures < FAILURES_BEFORE_PENALTY) return undefined;
    const periodMs = doublingMs(PENALTY, this.#penalties);
    this.#penalties += 1;
    this.#penaltyUntilMs = now + periodMs;
    this.#penaltyFor = fault;
    return periodMs;
  }
}
