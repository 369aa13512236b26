import type { Clock } from '../../runtime/index.js';

/** Who spends: plain requests, and the streams that follow the index. */
const lanes = ['requests', 'feed'] as const;
export type Lane = (typeof lanes)[number];

/** Of the event loop's time, for each lane: what it may spend at once after a quiet time. */
const BURST_MS = 4;
/** Of what was overspent, so much is made good; a process that stood still for a minute has not worked for a minute. */
const MAX_DEBT_MS = 250;
/** A lane that has nothing left waits for what comes in during this time, beyond what it owes. */
const MIN_WAIT_MS = 1;

/**
 * Time of the event loop that readers may spend: it comes in at their share of all time, half of it to either lane, and what
 * a lane that has enough does not take goes to the other one. Spending is never refused: what is overspent is waited for.
 */
export class LoopBudget {
  readonly #share: () => number | undefined;
  readonly #clock: Clock;
  readonly #leftMs: Record<Lane, number> = { requests: BURST_MS, feed: BURST_MS };
  /** `undefined` while there is no limit. */
  #filledAtMs: number | undefined;

  constructor(
    options: {
      /** The readers' share at this moment, above 0 and at most 1; `undefined`: they may take all there is. */
      readonly share: () => number | undefined;
    },
    dependencies: { readonly clock: Clock },
  ) {
    this.#share = options.share;
    this.#clock = dependencies.clock;
  }

  /** True when something may be begun. What it costs is to be told to `spend`. */
  mayBegin(lane: Lane): boolean {
    const share = this.#share();
    if (share === undefined) {
      this.#fillUp();
      return true;
    }
    this.#fill(share);
    return this.#leftMs[lane] > 0;
  }

  spend(lane: Lane, costMs: number): void {
    this.#leftMs[lane] = Math.max(-MAX_DEBT_MS, this.#leftMs[lane] - costMs);
  }

  /** Does what takes the event loop, and spends what it took. Costs nothing while there is no limit. */
  measure<T>(lane: Lane, task: () => T): T {
    if (this.#filledAtMs === undefined) return task();
    const startedMs = this.#clock.monotonic();
    try {
      return task();
    } finally {
      this.spend(lane, this.#clock.monotonic() - startedMs);
    }
  }

  /** When a lane in which nothing may be begun is worth another look. */
  waitMs(lane: Lane): number {
    const share = this.#share() ?? 1;
    return MIN_WAIT_MS + Math.max(0, -this.#leftMs[lane]) / share;
  }

  #fillUp(): void {
    if (this.#filledAtMs === undefined) return;
    this.#filledAtMs = undefined;
    for (const lane of lanes) this.#leftMs[lane] = BURST_MS;
  }

  #fill(share: number): void {
    const nowMs = this.#clock.monotonic();
    if (this.#filledAtMs === undefined) {
      for (const lane of lanes) this.#leftMs[lane] = BURST_MS;
      this.#filledAtMs = nowMs;
    }
    const halfMs = ((nowMs - this.#filledAtMs) * share) / 2;
    this.#filledAtMs = nowMs;
    const overRequests = this.#add('requests', halfMs);
    const overFeed = this.#add('feed', halfMs + overRequests);
    this.#add('requests', overFeed);
  }

  /** Returns what the lane has no room for. */
  #add(lane: Lane, ms: number): number {
    const filledMs = this.#leftMs[lane] + ms;
    this.#leftMs[lane] = Math.min(BURST_MS, filledMs);
    return filledMs - this.#leftMs[lane];
  }
}
