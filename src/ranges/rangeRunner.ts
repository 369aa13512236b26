import { setMaxListeners } from 'node:events';
import type { Logger } from '../observability/index.js';
import { asError, childOf, isAbort, OperatorError, places } from '../runtime/index.js';
import { runTogether, whenAborted } from '../runtime/index.js';
import { isCorruption, RangeLostError, type FoundDamage, type HeightRange } from '../storage/index.js';
import type { RangeJob, WorkSource } from './ports.js';

/** How the line of a range ended, unless it was stopped. */
export type RangeOutcome =
  | { readonly kind: 'published' }
  /** See `RangeJob.fail`. */
  | { readonly kind: 'failed'; readonly reason: string };

/** A line at work on one range. */
export interface RangeLine {
  /** Rejects only with an error that ends the daemon, or with `RangeLostError`. */
  readonly outcome: Promise<RangeOutcome>;
  /** Ends the line and waits for its last write. Call it once. Expected errors: `RangeLostError`. */
  close(): Promise<void>;
}

/** A range that is being filled. */
export interface RunningRange<L extends RangeLine> {
  readonly job: RangeJob;
  readonly line: L;
}

/** Fills several missing ranges at once: takes them from the work source, runs a line for each, and returns the outcome. */
export function rangeRunner<L extends RangeLine>(parts: {
  /** Ranges filled concurrently (`backfill.parallelRanges`). */
  readonly parallelRanges: number;
  readonly source: WorkSource;
  readonly startLine: (job: RangeJob) => Promise<L>;
  /** Called when a range is published. Must not throw. */
  readonly onPublished?: (range: HeightRange) => void;
  /** Called when a stored block beside a range is damaged; the range runs again. Must not throw. */
  readonly onDamage?: (damage: FoundDamage) => void;
  readonly logger: Logger;
}) {
  const { logger, onDamage, onPublished, parallelRanges, source, startLine } = parts;
  /** At most `parallelRanges`. */
  const running = new Set<RunningRange<L>>();

  /** `undefined`: give the range back. Rejects with the error of the line, or with a bug that shows while it closes. */
  const outcomeOf = async (job: RangeJob, signal: AbortSignal): Promise<RangeOutcome | undefined> => {
    const line = await startLine(job);
    const run = { job, line };
    running.add(run);
    const over = childOf(signal, job.signal);
    // Only a bug: the next worker to take the range meets a fault that an operator must fix, too.
    let bug: { readonly error: unknown } | undefined;
    line.outcome.catch((error: unknown) => {
      if (!(error instanceof OperatorError) && !isAbort(error)) bug = { error };
    });
    const givenBack = whenAborted(over.signal).then(() => undefined);
    const outcome = await Promise.race([line.outcome, givenBack]).finally(async () => {
      over.abort();
      await line.close().finally(() => running.delete(run));
    });
    if (bug !== undefined) throw asError(bug.error);
    return outcome;
  };

  const fill = async (job: RangeJob, signal: AbortSignal): Promise<void> => {
    let outcome: RangeOutcome | undefined;
    try {
      if (!signal.aborted) outcome = await outcomeOf(job, signal);
    } catch (error) {
      // After `RangeLostError`, another process has the range, and every write is refused, the first and last included.
      if (isCorruption(error) && onDamage !== undefined) {
        const { damage: reason = error.message, height } = error;
        onDamage({ height, what: reason });
        // Nothing heals a height that is not covered yet: the range starts over.
        outcome = { kind: 'failed', reason };
      } else if (!(error instanceof RangeLostError)) {
        await job.release();
        throw error;
      }
    }
    if (outcome === undefined) return job.release();
    if (outcome.kind === 'failed') return job.fail(outcome.reason);
    logger.debug(job.range, 'a range is filled');
    await job.succeed();
    onPublished?.(job.range);
  };

  return {
    /** The ranges that are being filled, lowest first. */
    running: (): readonly RunningRange<L>[] =>
      [...running].sort((a, b) => a.job.range.from - b.job.range.from),
    /** Resolves when `signal` has aborted and every line is closed. Rejects with an unexpected error, once all lines are closed. */
    run: async (signal: AbortSignal): Promise<void> => {
      const inTurn = places(1);
      const fillAll = async (ended: AbortSignal): Promise<void> => {
        // A listener or two for each range: Node.js warns of a leak from eleven on.
        setMaxListeners(2 * parallelRanges + 8, ended);
        for (;;) {
          const job = await inTurn(() => source.next(ended));
          if (job === undefined) return;
          await fill(job, ended);
        }
      };
      await runTogether(signal, new Array<typeof fillAll>(parallelRanges).fill(fillAll));
    },
  };
}
