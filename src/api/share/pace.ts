import { createHash } from 'node:crypto';
import type { Clock } from '../../runtime/index.js';
import { HASHED_BYTES, HASHING_COST_MS } from './costs.js';

/** The middle one counts: a run that is interrupted says nothing. */
const RUNS = 9;
/** A clock that jumps, or a machine that stands still just then, must neither free readers of all cost nor shut them out. */
const MIN_PACE = 0.1;
const MAX_PACE = 10;

/**
 * How long work takes on this machine, relative to the one that the costs of reads (`costs.ts`) were measured on: 0.5 on one
 * that is twice as fast. Takes some 10 ms of the event loop: for the start of the process.
 */
export function machinePace(dependencies: { readonly clock: Pick<Clock, 'monotonic'> }): number {
  const { clock } = dependencies;
  const bytes = Buffer.alloc(HASHED_BYTES, 1);
  const times = Array.from({ length: RUNS }, () => {
    const startedMs = clock.monotonic();
    createHash('sha3-256').update(bytes).digest();
    return clock.monotonic() - startedMs;
  });
  times.sort((left, right) => left - right);
  const median = times[(RUNS - 1) / 2] ?? HASHING_COST_MS;
  return Math.min(MAX_PACE, Math.max(MIN_PACE, median / HASHING_COST_MS));
}
