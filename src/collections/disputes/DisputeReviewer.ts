import { doublingMs, sleep, wasAborted } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { disputeOf } from './Disputes.js';
import type { Disputes } from './Disputes.js';
import type { MissingCollectionQueue } from '../heights/MissingCollectionQueue.js';
import type { BlockReviewer, CollectionRequests } from '../ports.js';

/** How often heights are checked. */
const LOOK_MS = 1_000;
/** Younger heights may just be early: collections arrive after their block, and execution data later still. */
const REVIEW_AFTER_MS = 5_000;
/** After this many "no such collection" (or "not yet") answers for one id, its block is in doubt. */
const NOT_FOUND_BEFORE_DOUBT = 3;
/** Blocks reviewed per check, so that a whole window is not requested again just because the nodes lag. */
const REVIEWS_PER_LOOK = 8;
/** Pause before asking the nodes again for the same block. */
const REVIEW_AGAIN = { minMs: 2_000, maxMs: 30_000 };

export interface DisputeReviewerDependencies {
  readonly mcq: MissingCollectionQueue;
  readonly disputes: Disputes;
  /** Absent with `ediOnly`. */
  readonly requests?: Pick<CollectionRequests, 'trail'> | undefined;
  readonly reviewer: BlockReviewer;
  readonly clock: Clock;
}

/**
 * Reviews blocks whose guarantees are in doubt: execution data contradicts them, or the nodes do not know a collection.
 * Lowest height first, one at a time, with growing pauses.
 */
export class DisputeReviewer {
  readonly #deps: DisputeReviewerDependencies;

  constructor(dependencies: DisputeReviewerDependencies) {
    this.#deps = dependencies;
  }

  /** Resolves when the signal aborts. No expected errors. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await sleep(this.#deps.clock, LOOK_MS, signal);
        for (const height of this.#doubtful()) await this.#review(height, signal);
      }
    } catch (error) {
      if (!wasAborted(error, signal)) throw error;
    }
  }

  async #review(height: number, signal: AbortSignal): Promise<void> {
    const { clock, disputes, mcq, reviewer } = this.#deps;
    const verdict = await reviewer.review(height, signal);
    const record = mcq.get(height);
    if (record?.status !== 'collecting') return;
    disputes.reviewed(height, verdict);
    const dispute = disputeOf(record);
    dispute.nextReviewAtMs = clock.monotonic() + doublingMs(REVIEW_AGAIN, dispute.reviews);
    dispute.reviews += 1;
  }

  #doubtful(): number[] {
    const { clock, mcq } = this.#deps;
    const nowMs = clock.monotonic();
    const heights: number[] = [];
    for (const { height, queuedAtMs, dispute } of mcq.incomplete()) {
      const dueAtMs = dispute?.nextReviewAtMs ?? queuedAtMs + REVIEW_AFTER_MS;
      if (nowMs >= dueAtMs && this.#isInDoubt(height)) heights.push(height);
    }
    return heights.sort((a, b) => a - b).slice(0, REVIEWS_PER_LOOK);
  }

  #isInDoubt(height: number): boolean {
    const { disputes, mcq, requests } = this.#deps;
    if (disputes.accusedAt(height).length > 0) return true;
    if (requests === undefined) return false;
    return mcq.missingIds(height).some((id) => (requests.trail(id)?.notFound ?? 0) >= NOT_FOUND_BEFORE_DOUBT);
  }
}
