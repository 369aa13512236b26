import type { Clock } from '../../runtime/index.js';

/** Where the heights come from; read at each sample. */
export interface ProgressSource {
  /** The watermark; `undefined` until known. */
  latestIndexedHeight(): number | undefined;
  /** The head, or the stop height where that is lower; `undefined` until known. */
  headHeight(): number | undefined;
  /** The code for which the lowest missing height is held up; `undefined` while it is not. */
  heldUpBy?(): string | undefined;
}

/** Progress as of one moment. */
export interface ProgressState {
  /** `waiting` until watermark and head are known, and while no node confirms the head. */
  readonly mode: 'waiting' | 'catching_up' | 'following';
  /** The readiness code for which the lowest missing height is held up. */
  readonly heldUpBy?: string | undefined;
  readonly latestIndexed: number | undefined;
  readonly head: number | undefined;
  readonly lag: number | undefined;
  /** Heights that became durable per second, over the window. */
  readonly ratePerSecond: number;
  /** Until the head is reached, the head's own movement included; `undefined` while the gap does not close. */
  readonly etaSeconds: number | undefined;
  /** Share of the way from where this catch-up began to the head, 0 to 1. */
  readonly fraction: number;
}

interface Sample {
  readonly atMs: number;
  readonly indexed: number;
  readonly head: number;
}

/** The sliding window behind every rate. */
const WINDOW_MS = 30_000;
/** Heights behind the head at which the daemon counts as following. */
const FOLLOWING_LAG = 10;
/** Heights behind the head at which a follower counts as catching up again. */
const CATCH_UP_LAG = 100;
/** More samples than this are not kept: the window is divided into so many slots. */
const MAX_SAMPLES = 120;

/** Measures how fast the watermark moves and when it will reach the head. */
export class ProgressMeter {
  readonly #clock: Clock;
  readonly #source: ProgressSource;
  /** Oldest first; at most `MAX_SAMPLES` and the two at the ends. */
  readonly #samples: Sample[] = [];
  #following = false;
  /** The watermark at which this catch-up began. */
  #base: number | undefined;

  constructor(dependencies: { readonly clock: Clock; readonly source: ProgressSource }) {
    this.#clock = dependencies.clock;
    this.#source = dependencies.source;
  }

  /** Takes a sample and answers with the state of now. Rates need it to be called at least every few seconds. */
  state(): ProgressState {
    const latestIndexed = this.#source.latestIndexedHeight();
    const head = this.#source.headHeight();
    const heldUpBy = this.#source.heldUpBy?.();
    if (latestIndexed === undefined || head === undefined) {
      return {
        mode: 'waiting',
        heldUpBy,
        latestIndexed,
        head,
        lag: undefined,
        ratePerSecond: 0,
        etaSeconds: undefined,
        fraction: 0,
      };
    }
    const now = { atMs: this.#clock.monotonic(), indexed: latestIndexed, head };
    const oldest = this.#keep(now);
    const seconds = (now.atMs - oldest.atMs) / 1000;
    const perSecond = (change: number): number => (seconds > 0 ? change / seconds : 0);
    const ratePerSecond = perSecond(now.indexed - oldest.indexed);
    const closingPerSecond = ratePerSecond - perSecond(now.head - oldest.head);
    const lag = Math.max(0, head - latestIndexed);
    const base = this.#turn(lag, latestIndexed);
    return {
      mode: this.#following ? 'following' : 'catching_up',
      latestIndexed,
      head,
      lag,
      ratePerSecond,
      heldUpBy,
      etaSeconds:
        lag === 0 ? 0 : closingPerSecond > 0 && heldUpBy === undefined ? lag / closingPerSecond : undefined,
      fraction: head > base ? Math.min(1, (latestIndexed - base) / (head - base)) : 1,
    };
  }

  /** Adds the sample when it is a slot away from the last one; answers with the sample that the window begins at. */
  #keep(now: Sample): Sample {
    const last = this.#samples.at(-1);
    if (last === undefined || now.atMs - last.atMs >= WINDOW_MS / MAX_SAMPLES) {
      this.#samples.push(now);
    }
    // The newest of those that are older than the window stays: the window begins there.
    while ((this.#samples[1]?.atMs ?? Infinity) <= now.atMs - WINDOW_MS) this.#samples.shift();
    return this.#samples[0] ?? now;
  }

  /**
   * Decides between catching up and following, and answers with the watermark at which this catch-up began. Between
   * the two thresholds the mode stays what it was, so that it does not flutter at the tip.
   */
  #turn(lag: number, indexed: number): number {
    this.#base ??= indexed;
    if (this.#following && lag > CATCH_UP_LAG) {
      this.#following = false;
      this.#base = indexed;
    }
    if (lag <= FOLLOWING_LAG) this.#following = true;
    return this.#base;
  }
}
