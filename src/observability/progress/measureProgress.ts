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

/** How far the index is, in the form of `/status`; `null`: not known. */
export interface Progress {
  readonly latestIndexed: number | null;
  readonly head: number | null;
  readonly lag: number | null;
  /** Heights made durable per second, over the window. */
  readonly rate: number;
  /** Seconds until the moving head is reached; `null` also while the gap does not close. */
  readonly eta: number | null;
  /** The readiness code that holds up the lowest missing height. */
  readonly heldUpBy?: string | undefined;
}

interface Sample {
  readonly atMs: number;
  readonly indexed: number;
  readonly head: number;
}

/** Rates are measured over this sliding window. */
const WINDOW_MS = 30_000;
/** How many samples are kept: the window is divided into as many slots. */
const MAX_SAMPLES = 120;

/**
 * Measures how fast the watermark moves and when it will reach the head. The function that it returns takes a sample: rates are
 * only right if it is called every few seconds.
 */
export function measureProgress(dependencies: { readonly clock: Clock; readonly source: ProgressSource }) {
  const { clock, source } = dependencies;
  /** Oldest first; at most `MAX_SAMPLES` and one at each end. */
  const samples: Sample[] = [];

  /** Keeps the sample if it is a slot away from the last one. Returns the first sample of the window. */
  const keep = (now: Sample): Sample => {
    const { atMs = -Infinity, indexed = 0 } = samples.at(-1) ?? {};
    // Indexed heights are gone, for example because another process rewound the database: start the measurement over.
    const isRewound = now.indexed < indexed;
    // Samples from before an outage, in which the head was unknown, do not count after it.
    if (isRewound || now.atMs - atMs > WINDOW_MS) samples.length = 0;
    if (samples.length === 0 || now.atMs - atMs >= WINDOW_MS / MAX_SAMPLES) samples.push(now);
    // Keep the newest sample older than the window: the window begins there.
    while ((samples[1]?.atMs ?? Infinity) <= now.atMs - WINDOW_MS) samples.shift();
    return samples[0] ?? now;
  };

  return (): Progress => {
    const latestIndexed = source.latestIndexedHeight() ?? null;
    const head = source.headHeight() ?? null;
    const heldUpBy = source.heldUpBy?.();
    if (latestIndexed === null || head === null)
      return { latestIndexed, head, lag: null, rate: 0, eta: null, heldUpBy };
    const now = { atMs: clock.monotonic(), indexed: latestIndexed, head };
    const oldest = keep(now);
    const seconds = (now.atMs - oldest.atMs) / 1000;
    const perSecond = (change: number): number => (seconds > 0 ? change / seconds : 0);
    const rate = perSecond(now.indexed - oldest.indexed);
    // A target that falls (history that is no longer wanted) must not count as speed.
    const closing = rate - perSecond(Math.max(0, now.head - oldest.head));
    const lag = Math.max(0, head - latestIndexed);
    const eta = closing > 0 && heldUpBy === undefined ? lag / closing : null;
    return { latestIndexed, head, lag, rate, eta: lag === 0 ? 0 : eta, heldUpBy };
  };
}
