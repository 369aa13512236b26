import type { AccessNode } from '../../access/index.js';
import { RunningAverage } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';

/** The state of a stream of blocks' collections. */
export type ExecutionDataState =
  /** Not running. */
  | 'off'
  /** Being opened, or pausing between two attempts; `lastError` has the last failure. */
  | 'connecting'
  /** Delivering, or waiting for the next block to be due. */
  | 'streaming'
  /** Paused by us: it is ahead of the window or of the blocks handed out, or the byte budget is used up. */
  | 'waiting_window'
  /** Nobody offers the stream, or not for the next height. */
  | 'unavailable';

interface StreamLimits {
  /** Most heights ahead of the stream that may be expected from it. */
  readonly lookaheadHeights: number;
  /** How long after its last sign of life a stream is still expected to deliver. */
  readonly freshMs: number;
}

/** A snapshot of the stream. */
export interface ExecutionDataStatus {
  readonly state: ExecutionDataState;
  readonly stateAgeMs: number;
  readonly node: string | undefined;
  readonly nextHeight: number;
  /** The height of the last message; `undefined` before the first. */
  readonly lastHeight: number | undefined;
  /** Time since the last message of any stream. */
  readonly lastMessageAgeMs: number | undefined;
  /** What ended the last stream; cleared by the next message. */
  readonly lastError: string | undefined;
  /** How long it has waited for the next height to be due; `undefined` when not waiting. */
  readonly earlyMs: number | undefined;
}

/** The current state of the stream, since when, its last message and error, and what it will deliver by its last sign of life and its pace. */
export class StreamState {
  readonly #limits: StreamLimits;
  readonly #clock: Clock;
  #now: ExecutionDataState = 'off';
  #sinceMs: number;
  /** The state to return to when waiting ends. */
  #resumed: ExecutionDataState = 'connecting';
  #lastMessage: { readonly height: number; readonly atMs: number } | undefined;
  /** The node that is followed or opened. */
  node: AccessNode | undefined;
  /** What ended the last stream; cleared by the next message. */
  lastError: string | undefined;

  #aliveAtMs: number | undefined;
  /** Milliseconds per height while data was due. */
  readonly #heightMs = new RunningAverage({ weight: 1 / 16 });

  constructor(limits: StreamLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#sinceMs = clock.monotonic();
  }

  get now(): ExecutionDataState {
    return this.#now;
  }

  enter(state: ExecutionDataState): void {
    if (state === this.#now) return;
    this.#now = state;
    this.#sinceMs = this.#clock.monotonic();
  }

  waiting(isWaiting: boolean): void {
    if (isWaiting) this.#resumed = this.#now;
    this.enter(isWaiting ? 'waiting_window' : this.#resumed);
  }

  came(height: number, atMs: number): void {
    this.#lastMessage = { height, atMs };
    this.lastError = undefined;
  }

  /** The stream opened without error, delivered, or is read again after we paused it. */
  alive(): void {
    this.#aliveAtMs = this.#clock.monotonic();
  }

  closed(): void {
    this.#aliveAtMs = undefined;
  }

  /** One height, due when it was requested, took this long until it was handed in. */
  took(durationMs: number): void {
    this.#heightMs.observe(durationMs);
  }

  /**
   * True when a height is expected within this time. `ahead`: its distance from the next height. A stream that we pause
   * does not go stale.
   */
  expects(ahead: number, withinMs: number): boolean {
    if (this.#aliveAtMs === undefined || ahead < 0 || ahead >= this.#limits.lookaheadHeights) return false;
    const isPausedByUs = this.#now === 'waiting_window';
    if (!isPausedByUs && this.#clock.monotonic() - this.#aliveAtMs > this.#limits.freshMs) return false;
    return (ahead + 1) * (this.#heightMs.value ?? 0) <= withinMs;
  }

  status(nextHeight: number, earlySinceMs: number | undefined): ExecutionDataStatus {
    const nowMs = this.#clock.monotonic();
    const message = this.#lastMessage;
    return {
      state: this.#now,
      stateAgeMs: nowMs - this.#sinceMs,
      node: this.node?.name,
      nextHeight,
      lastHeight: message?.height,
      lastMessageAgeMs: message === undefined ? undefined : nowMs - message.atMs,
      lastError: this.lastError,
      earlyMs: earlySinceMs === undefined ? undefined : nowMs - earlySinceMs,
    };
  }
}
