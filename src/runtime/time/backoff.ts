import type { Random } from '../random.js';

/** A pause that doubles from `minMs` until it reaches `maxMs`. */
export interface BackoffBounds {
  readonly minMs: number;
  /** Jitter included. */
  readonly maxMs: number;
}

/** The share by which jitter may lengthen a pause, so that callers who started together drift apart. */
const JITTER = 0.25;
/** More doublings reach any bound; this keeps the power finite. */
const MAX_DOUBLINGS = 30;

/** The pause before attempt `attempt` (0 = the first pause), without jitter. */
export function doublingMs(bounds: BackoffBounds, attempt: number): number {
  return Math.min(bounds.maxMs, bounds.minMs * 2 ** Math.min(attempt, MAX_DOUBLINGS));
}

/**
 * Like `doublingMs` with jitter, which only lengthens the pause, up to `maxMs`: no node is asked earlier than announced, and
 * no pause lasts minutes (onflow/flow-go#3406: pauses of minutes made one bad node look like an outage).
 */
export function backoffMs(bounds: BackoffBounds, attempt: number, random: Random): number {
  return Math.min(bounds.maxMs, doublingMs(bounds, attempt) * (1 + JITTER * random.next()));
}
