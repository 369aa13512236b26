import type { Logger } from '../../observability/index.js';
import { AbortError, backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import { overlap } from '../../storage/index.js';
import type { BackfillPlan, HeightRange, IndexStore, OpenRange, RangeStore } from '../../storage/index.js';
import { FAILURES_BEFORE_DISPUTE, RETRY_BACKOFF } from '../plans.js';
import type { RangeJob } from '../ports.js';

export interface RunningRangesDependencies {
  readonly store: Pick<IndexStore, 'ranges'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Called when a range no longer runs. */
  readonly onOver: () => void;
}

interface Running {
  readonly range: HeightRange;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/** The ranges that run now, and when failed ranges may run again. */
export class RunningRanges {
  readonly #deps: RunningRangesDependencies;
  /** By first height; at most as many as the runner fills at once. */
  readonly #running = new Map<number, Running>();
  /** Monotonic milliseconds before which an open range is not run, by its first height; at most MAX_OPEN_RANGES. */
  readonly #notBeforeMs = new Map<number, number>();

  constructor(dependencies: RunningRangesDependencies) {
    this.#deps = dependencies;
  }

  has({ from }: HeightRange): boolean {
    return this.#running.has(from);
  }

  all(): readonly HeightRange[] {
    return [...this.#running.values()].map(({ range }) => range);
  }

  /**
   * The open ranges that neither run nor pause after a failure. Call it whenever ranges may have been closed: the pauses
   * of those are forgotten.
   */
  ready(open: readonly OpenRange[]): readonly OpenRange[] {
    const firsts = new Set(open.map(({ from }) => from));
    for (const from of this.#notBeforeMs.keys()) if (!firsts.has(from)) this.#notBeforeMs.delete(from);
    const nowMs = this.#deps.clock.monotonic();
    return open.filter(
      ({ from }) => !this.#running.has(from) && (this.#notBeforeMs.get(from) ?? -Infinity) <= nowMs,
    );
  }

  /** Infinity if no range pauses. */
  nextRetryInMs(): number {
    const nowMs = this.#deps.clock.monotonic();
    const due = [...this.#notBeforeMs.values()].filter((atMs) => atMs > nowMs).map((atMs) => atMs - nowMs);
    return Math.min(Infinity, ...due);
  }

  /** Lets the range run again at once. */
  clearPause({ from }: HeightRange): void {
    this.#notBeforeMs.delete(from);
  }

  /** Stops the chosen ranges. Resolves when they no longer run. */
  async giveBack(isChosen: (range: HeightRange) => boolean): Promise<void> {
    const stopped = [...this.#running.values()].filter(({ range }) => isChosen(range));
    for (const { controller } of stopped) controller.abort(new AbortError('the range is given back'));
    await Promise.all(stopped.map(({ ended }) => ended));
  }

  run(range: HeightRange, store: RangeStore): RangeJob {
    const controller = new AbortController();
    const planned = this.#deps.store.ranges.plans();
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    this.#running.set(range.from, { range, controller, ended });
    const over = async (change?: () => Promise<void>): Promise<void> => {
      this.#deps.store.ranges.release(store);
      try {
        await change?.();
      } finally {
        this.#running.delete(range.from);
        end();
        this.#deps.onOver();
      }
    };
    return {
      range,
      store,
      signal: controller.signal,
      succeed: async () => {
        await over();
        this.#logFilled(planned, range);
      },
      fail: (reason, { startOver = false } = {}) => over(() => this.#failed(range, reason, startOver)),
      release: () => over(),
    };
  }

  /** Logs plans that are filled: the commit of their last range has removed them. */
  #logFilled(before: readonly BackfillPlan[], range: HeightRange): void {
    const { logger, store } = this.#deps;
    const left = new Set(store.ranges.plans().map(({ id }) => id));
    for (const plan of before) {
      if (left.has(plan.id) || !overlap(plan, range)) continue;
      logger.info({ plan: plan.id, from: plan.from, to: plan.to }, 'backfill plan is filled');
    }
  }

  async #failed(range: HeightRange, reason: string, startOver: boolean): Promise<void> {
    const { clock, logger, random, store } = this.#deps;
    const before = store.ranges.open().find(({ from }) => from === range.from);
    const failures = (before?.failures ?? 0) + 1;
    const failed = [{ ...range, failures, reason }];
    await store.ranges.change({ failed, ...(startOver ? { dropped: [range] } : {}) });
    this.#notBeforeMs.set(range.from, clock.monotonic() + backoffMs(RETRY_BACKOFF, failures - 1, random));
    const fields = { from: range.from, to: range.to, failures, reason };
    if (failures === FAILURES_BEFORE_DISPUTE)
      logger.warn(fields, 'a range is disputed: it waits for "backfill redrive"');
    else logger.debug(fields, 'a range failed and runs again');
  }
}
