import type { Clock } from '../../runtime/index.js';

/** The values that each sample reads. */
export interface ProgressSource {
  /** The watermark; `undefined` until known. */
  latestIndexedHeight(): number | undefined;
  /** The head, or the stop height where that is lower; `undefined` until known. */
  headHeight(): number | undefined;
  /** The readiness code that holds up the lowest missing height, if any. */
  heldUpBy?(): string | undefined;
}

export interface ProgressState {
  /** `waiting` until watermark and head are known, and while no node confirms the head. */
  readonly mode: 'waiting' | 'catching_up' | 'following';
  /** The readiness code that holds up the lowest missing height. */
  readonly heldUpBy?: string | undefined;
  readonly latestIndexed: number | undefined;
  readonly head: number | undefined;
  readonly lag: number | undefined;
  /** Heights made durable per second, over the window. */
  readonly ratePerSecond: number;
  /** Seconds until the moving head is reached; `undefined` while the gap does not close. */
  readonly etaSeconds: number | undefined;
  /** How much of this catch-up is done, 0 to 1. */
  readonly fraction: number;
}

interface Sample {
  readonly atMs: number;
  readonly indexed: number;
  readonly head: number;
}

/** Rates are measured over this sliding window. */
const WINDOW_MS = 30_000;
/** Heights behind the head at which the daemon counts as following. */
const FOLLOWING_LAG = 10;
/** Heights behind the head at which a follower counts as catching up again. */
const CATCH_UP_LAG = 100;
/** How many samples are kept: the window is divided into as many slots. */
const MAX_SAMPLES = 120;

/** The state without watermark or head. */
const UNKNOWN = { lag: undefined, ratePerSecond: 0, etaSeconds: undefined, fraction: 0 } as const;

export type ProgressMeter = ReturnType<typeof measureProgress>;

/** Measures how fast the watermark moves and when it will reach the head. */
export function measureProgress(dependencies: { readonly clock: Clock; readonly source: ProgressSource }) {
  const { clock, source } = dependencies;
  /** Oldest first; at most `MAX_SAMPLES` and one at each end. */
  const samples: Sample[] = [];
  let isFollowing = false;
  /** The watermark at which this catch-up began. */
  let begunAt: number | undefined;

  /** Takes a sample and returns the current state. Rates are only right if this is called every few seconds. */
  const state = (): ProgressState => {
    const latestIndexed = source.latestIndexedHeight();
    const head = source.headHeight();
    const heldUpBy = source.heldUpBy?.();
    if (latestIndexed === undefined || head === undefined)
      return { mode: 'waiting', heldUpBy, latestIndexed, head, ...UNKNOWN };
    const now = { atMs: clock.monotonic(), indexed: latestIndexed, head };
    const oldest = keep(now);
    const seconds = (now.atMs - oldest.atMs) / 1000;
    const perSecond = (change: number): number => (seconds > 0 ? change / seconds : 0);
    const ratePerSecond = perSecond(now.indexed - oldest.indexed);
    // A target that falls (history that is no longer wanted) must not count as speed.
    const closingPerSecond = ratePerSecond - perSecond(Math.max(0, now.head - oldest.head));
    const lag = Math.max(0, head - latestIndexed);
    const base = updateMode(lag, latestIndexed);
    return {
      mode: isFollowing ? 'following' : 'catching_up',
      latestIndexed,
      head,
      lag,
      ratePerSecond,
      heldUpBy,
      etaSeconds:
        lag === 0 ? 0 : closingPerSecond > 0 && heldUpBy === undefined ? lag / closingPerSecond : undefined,
      fraction: head > base ? Math.min(1, (latestIndexed - base) / (head - base)) : 1,
    };
  };

  /** Keeps the sample if it is a slot away from the last one. Returns the first sample of the window. */
  const keep = (now: Sample): Sample => {
    const { atMs = -Infinity, indexed = 0 } = samples.at(-1) ?? {};
    // Indexed heights are gone, for example because another process rewound the database: start the measurement over.
    const isRewound = now.indexed < indexed;
    if (isRewound) begunAt = undefined;
    // Samples from before an outage, in which the head was unknown, do not count after it.
    if (isRewound || now.atMs - atMs > WINDOW_MS) samples.length = 0;
    if (samples.length === 0 || now.atMs - atMs >= WINDOW_MS / MAX_SAMPLES) samples.push(now);
    // Keep the newest sample older than the window: the window begins there.
    while ((samples[1]?.atMs ?? Infinity) <= now.atMs - WINDOW_MS) samples.shift();
    return samples[0] ?? now;
  };

  /**
   * Decides between catching up and following, and returns the watermark at which this catch-up began. The mode keeps
   * its value between the two thresholds, so that it does not flap at the tip.
   */
  const updateMode = (lag: number, indexed: number): number => {
    begunAt ??= indexed;
    if (isFollowing && lag > CATCH_UP_LAG) {
      isFollowing = false;
      begunAt = indexed;
    }
    if (lag <= FOLLOWING_LAG) isFollowing = true;
    return begunAt;
  };

  return { state };
}
