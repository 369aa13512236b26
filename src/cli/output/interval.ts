import { systemClock } from '../../runtime/index.js';

/** Returns a function that is true at most once per interval, for the first time after one interval. */
export function atMostEvery(intervalMs: number): () => boolean {
  let lastAtMs = systemClock.monotonic();
  return () => {
    const nowMs = systemClock.monotonic();
    if (nowMs - lastAtMs < intervalMs) return false;
    lastAtMs = nowMs;
    return true;
  };
}
