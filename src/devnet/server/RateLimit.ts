import type { Clock } from '../../runtime/index.js';

/** One token bucket per method for all callers, as in a Flow node's limiter. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  /** `perSecond` 0 = no limit. One second's worth of calls may come at once. */
  constructor(options: { readonly perSecond: number }, dependencies: { readonly clock: Clock }) {
    this.#perSecond = options.perSecond;
    this.#burst = Math.max(1, Math.floor(options.perSecond));
    this.#clock = dependencies.clock;
  }

  /** False when the call exceeds the limit. */
  admits(method: string): boolean {
    if (this.#perSecond === 0) return true;
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(method) ?? { tokens: this.#burst, atMs: now };
    this.#buckets.set(method, bucket);
    bucket.tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.atMs) / 1000) * this.#perSecond);
    bucket.atMs = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
}
