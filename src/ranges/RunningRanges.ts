import type { Logger } from '../observability/index.js';
import { AbortError } from '../runtime/index.js';
import { overlap } from '../storage/index.js';
import type { BackfillPlan, HeightRange, RangeStore, SharedRangeBook } from '../storage/index.js';
import { FAILURES_BEFORE_DISPUTE } from './plans.js';
import type { RangeJob } from './ports.js';

/** A range that is being filled. */
export interface RangeRun {
  readonly range: HeightRange;
  readonly store: RangeStore;
  /** Aborts when the range is to be given back. */
  readonly controller: Pick<AbortController, 'signal' | 'abort'>;
}

/** What is done at the end of a run. */
interface RunEnds {
  /** Returns how often the range has failed in a row. */
  readonly failed: (reason: string) => Promise<number | undefined>;
  /** Whatever the outcome, in the end. */
  readonly over?: (isGivenBack: boolean) => Promise<void>;
}

/** The ranges that run now. */
export class RunningRanges<Run extends RangeRun> {
  readonly #book: Pick<SharedRangeBook, 'plans' | 'release'>;
  readonly #logger: Logger;
  readonly #onOver: () => void;
  /** By first height; at most as many as the runner fills at once. */
  readonly #running = new Map<number, { readonly run: Run; readonly ended: Promise<void> }>();

  /** `onOver`: called when a range no longer runs. Must not throw. */
  constructor(book: Pick<SharedRangeBook, 'plans' | 'release'>, logger: Logger, onOver: () => void) {
    this.#book = book;
    this.#logger = logger;
    this.#onOver = onOver;
  }

  has({ from }: HeightRange): boolean {
    return this.#running.has(from);
  }

  all(): readonly HeightRange[] {
    return [...this.#running.values()].map(({ run }) => run.range);
  }

  /** Stops the chosen ranges. Resolves when they no longer run. */
  async giveBack(isChosen: (run: Run) => boolean): Promise<void> {
    const stopped = [...this.#running.values()].filter(({ run }) => isChosen(run));
    for (const { run } of stopped) run.controller.abort(new AbortError('the range is given back'));
    await Promise.all(stopped.map(({ ended }) => ended));
  }

  begin(run: Run, ends: RunEnds): RangeJob {
    const { range, store, controller } = run;
    const planned = this.#book.plans();
    let end = (): void => undefined;
    const running = { run, ended: new Promise<void>((resolve) => (end = resolve)) };
    this.#running.set(range.from, running);
    const over = async (isGivenBack: boolean, last?: () => Promise<void>): Promise<void> => {
      this.#book.release(store);
      try {
        await last?.();
      } finally {
        await ends.over?.(isGivenBack);
        // This process may have lost the range and taken it again.
        if (this.#running.get(range.from) === running) this.#running.delete(range.from);
        end();
        this.#onOver();
      }
    };
    return {
      range,
      store,
      signal: controller.signal,
      succeed: async () => {
        await over(false);
        this.#logFilled(planned, range);
      },
      fail: (reason) =>
        over(false, async () => this.#logFailed({ ...range, failures: await ends.failed(reason), reason })),
      release: () => over(true),
    };
  }

  /** Logs plans that are filled: the commit of their last range has removed them. */
  #logFilled(before: readonly BackfillPlan[], range: HeightRange): void {
    const left = new Set(this.#book.plans().map(({ id }) => id));
    for (const { id, from, to } of before.filter((plan) => !left.has(plan.id) && overlap(plan, range)))
      this.#logger.info({ plan: id, from, to }, 'backfill plan is filled');
  }

  #logFailed(fields: HeightRange & { readonly failures: number | undefined; readonly reason: string }): void {
    if (fields.failures === FAILURES_BEFORE_DISPUTE)
      this.#logger.warn(fields, 'a range is disputed: it waits for "backfill redrive"');
    else this.#logger.debug(fields, 'a range failed and runs again');
  }
}
