import type { Clock } from '../../../runtime/index.js';

/** How many calls may be cancelled at once after a quiet time, and how many per second in the long run. */
const BURST = 500;
const PER_SECOND = 20;
const SECOND_MS = 1_000;

/**
 * How often calls on one connection may be cancelled. Since the rapid-reset attacks on HTTP/2 (CVE-2023-44487), servers
 * and proxies close connections on which streams are reset too fast (Node.js: 1,000 at once, 33 per second), and every
 * call on them is lost. A call beyond the budget is left to run out, and nobody waits for it.
 */
export class CancelBudget {
  readonly #clock: Clock;
  #left = BURST;
  #refilledAtMs: number;

  constructor(dependencies: { readonly clock: Clock }) {
    this.#clock = dependencies.clock;
    this.#refilledAtMs = this.#clock.monotonic();
  }

  /** True when one more call may be cancelled, which is counted. */
  take(): boolean {
    const nowMs = this.#clock.monotonic();
    const gained = ((nowMs - this.#refilledAtMs) / SECOND_MS) * PER_SECOND;
    this.#left = Math.min(BURST, this.#left + gained);
    this.#refilledAtMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
