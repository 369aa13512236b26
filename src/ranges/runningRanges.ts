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
  /** Aborts when the range must be given back. */
  readonly controller: Pick<AbortController, 'signal' | 'abort'>;
}

/** What is done at the end of a run. */
interface RunEnds {
  /** Returns how often the range has failed in a row. */
  readonly failed: (reason: string) => Promise<number | undefined>;
  /** Called last, whatever the outcome. */
  readonly over?: (isGivenBack: boolean) => Promise<void>;
}

export type RunningRanges<Run extends RangeRun> = ReturnType<typeof runningRanges<Run>>;

/** The ranges that run now. `onOver`: called when a range no longer runs. Must not throw. */
export function runningRanges<Run extends RangeRun>(
  book: Pick<SharedRangeBook, 'plans' | 'release'>,
  logger: Logger,
  onOver: () => void,
) {
  /** By first height; at most as many as the runner fills at once. */
  const running = new Map<number, { readonly run: Run; readonly ended: Promise<void> }>();

  /** Logs plans that are filled: the commit of their last range has removed them. */
  const logFilled = (before: readonly BackfillPlan[], range: HeightRange): void => {
    const left = new Set(book.plans().map(({ id }) => id));
    for (const { id, from, to } of before.filter((plan) => !left.has(plan.id) && overlap(plan, range)))
      logger.info({ plan: id, from, to }, 'backfill plan is filled');
  };

  return {
    has: ({ from }: HeightRange): boolean => running.has(from),
    all: (): readonly HeightRange[] => [...running.values()].map(({ run }) => run.range),
    /** Stops the chosen ranges. Resolves when they no longer run. */
    giveBack: async (isChosen: (run: Run) => boolean): Promise<void> => {
      const stopped = [...running.values()].filter(({ run }) => isChosen(run));
      for (const { run } of stopped) run.controller.abort(new AbortError('the range is given back'));
      await Promise.all(stopped.map(({ ended }) => ended));
    },
    begin: (run: Run, ends: RunEnds): RangeJob => {
      const { range, store, controller } = run;
      const planned = book.plans();
      let end = (): void => undefined;
      const begun = { run, ended: new Promise<void>((resolve) => (end = resolve)) };
      running.set(range.from, begun);
      const over = async (isGivenBack: boolean, last?: () => Promise<void>): Promise<void> => {
        book.release(store);
        try {
          await last?.();
        } finally {
          await ends.over?.(isGivenBack);
          // This process may have lost the range and taken it again.
          if (running.get(range.from) === begun) running.delete(range.from);
          end();
          onOver();
        }
      };
      return {
        range,
        store,
        signal: controller.signal,
        succeed: async () => {
          await over(false);
          logFilled(planned, range);
        },
        fail: (reason) =>
          over(false, async () => {
            const fields = { ...range, failures: await ends.failed(reason), reason };
            if (fields.failures === FAILURES_BEFORE_DISPUTE)
              logger.warn(fields, 'a range is disputed: it waits for "backfill redrive"');
            else logger.debug(fields, 'a range failed and runs again');
          }),
        release: () => over(true),
      };
    },
  };
}
