import type { Random } from './random.js';

/** A pause that doubles from `minMs` until it reaches `maxMs`. */
export interface BackoffBounds {
  readonly minMs: number;
  /** Jitter included. */
  readonly maxMs: number;
}

/** By how much of itself chance may lengthen a pause, so that those who began together drift apart. */
const JITTER = 0.25;
/** Doublings after which any bound has long been reached: it keeps the power finite. */
const MAX_DOUBLINGS = 30;

/** The pause before attempt `attempt` (0 = the first pause), without jitter. */
export function doublingMs(bounds: BackoffBounds, attempt: number): number {
  return Math.min(bounds.maxMs, bounds.minMs * 2 ** Math.min(attempt, MAX_DOUBLINGS));
}

/**
 * As `doublingMs`, lengthened by chance, never shortened and never past `maxMs`: nobody is asked again sooner than announced,
 * and nobody waits for long (onflow/flow-go#3406: a bound of minutes made one bad node look like an outage).
 */
export function backoffMs(bounds: BackoffBounds, attempt: number, random: Random): number {
  return Math.min(bounds.maxMs, doublingMs(bounds, attempt) * (1 + JITTER * random.next()));
}
