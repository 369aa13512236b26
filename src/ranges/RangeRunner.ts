import { setMaxListeners } from 'node:events';
import type { Logger } from '../observability/index.js';
import type { RangeJob, WorkSource } from './ports.js';

/** How the line of a range ended by itself. */
export type RangeOutcome =
  | { readonly kind: 'published' }
  /** See `RangeJob.fail`. */
  | { readonly kind: 'failed'; readonly reason: string; readonly startOver?: boolean };

/** A line at work on one range. */
export interface RangeLine {
  /** Rejects only with an error that ends the daemon. */
  readonly outcome: Promise<RangeOutcome>;
  /** Ends the line and waits for its last write. Idempotent. */
  close(): Promise<void>;
}

export interface RangeRunnerOptions {
  /** Ranges filled concurrently (`backfill.parallelRanges`). */
  readonly parallelRanges: number;
}

export interface RangeRunnerDependencies<L extends RangeLine> {
  readonly source: WorkSource;
  readonly startLine: (job: RangeJob) => Promise<L>;
  /** Called when a range is published. Must not throw. */
  readonly onPublished?: () => void;
  readonly logger: Logger;
}

/** A range that is being filled. */
export interface RunningRange<L extends RangeLine> {
  readonly job: RangeJob;
  readonly line: L;
}

/** Fills several missing ranges at once: takes them from the work source, runs a line for each, and returns the outcome. */
export class RangeRunner<L extends RangeLine> {
  readonly #options: RangeRunnerOptions;
  readonly #dependencies: RangeRunnerDependencies<L>;
  /** At most `parallelRanges`. */
  readonly #running = new Set<RunningRange<L>>();

  constructor(options: RangeRunnerOptions, dependencies: RangeRunnerDependencies<L>) {
    this.#options = options;
    this.#dependencies = dependencies;
  }

  /** The ranges that are being filled, lowest first. */
  running(): readonly RunningRange<L>[] {
    return [...this.#running].sort((a, b) => a.job.range.from - b.job.range.from);
  }

  /** Resolves when `signal` has aborted and every line is closed. Rejects with an unexpected error, once all lines are closed. */
  async run(signal: AbortSignal): Promise<void> {
    const ended = new AbortController();
    // A listener or two for each range: Node.js warns of a leak from eleven on.
    setMaxListeners(2 * this.#options.parallelRanges + 8, ended.signal);
    const stop = (): void => ended.abort();
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    const failures: unknown[] = [];
    // The source allows one caller at a time.
    let turn: Promise<unknown> = Promise.resolve();
    const worker = async (): Promise<void> => {
      for (;;) {
        const next = turn.then(() => this.#dependencies.source.next(ended.signal));
        turn = next.catch(() => undefined);
        const job = await next;
        if (job === undefined) return;
        await this.#fill(job, ended.signal);
      }
    };
    const workers = Array.from({ length: this.#options.parallelRanges }, worker);
    await Promise.all(
      workers.map((running) =>
        running.catch((error: unknown) => {
          failures.push(error);
          stop();
        }),
      ),
    );
    signal.removeEventListener('abort', stop);
    if (failures.length > 0) throw failures[0];
  }

  async #fill(job: RangeJob, signal: AbortSignal): Promise<void> {
    const { logger, startLine } = this.#dependencies;
    const { from, to } = job.range;
    if (signal.aborted) return job.release();
    const line = await startLine(job);
    const running = { job, line };
    this.#running.add(running);
    const stopped = new AbortController();
    let outcome: RangeOutcome | undefined;
    try {
      outcome = await Promise.race([line.outcome, aborted(stopped.signal, signal, job.signal)]);
    } catch (error) {
      // Its write was refused because another process has the range by now.
      if (!job.signal.aborted) throw error;
    } finally {
      stopped.abort();
      await line.close();
      this.#running.delete(running);
    }
    if (outcome === undefined) return job.release();
    if (outcome.kind === 'published') {
      logger.debug({ from, to }, 'a range is filled');
      await job.succeed();
      this.#dependencies.onPublished?.();
      return;
    }
    return job.fail(outcome.reason, { startOver: outcome.startOver === true });
  }
}

/** Resolves when one of the signals aborts; removes its listeners when `unsubscribe` does. */
function aborted(unsubscribe: AbortSignal, ...signals: readonly AbortSignal[]): Promise<undefined> {
  return new Promise((resolve) => {
    if (signals.some((signal) => signal.aborted)) {
      resolve(undefined);
      return;
    }
    for (const signal of signals)
      signal.addEventListener('abort', () => resolve(undefined), { once: true, signal: unsubscribe });
  });
}
