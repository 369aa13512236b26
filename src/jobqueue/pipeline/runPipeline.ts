import { childOf, whenAborted } from '../../runtime/index.js';

/** Anything that works until its signal aborts: `JobConsumer`, a producer, a pipeline. */
export interface PipelineStage {
  /** Resolves after the signal aborted and its work has returned; rejects only with an unknown error. */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Runs stages together until `signal` aborts, all of them have ended, or one fails. Then they are stopped in order, so
 * that the next stage can still take what the previous one finishes. Rejects with the first error. Stages are joined by
 * their wake-ups: the `wakes` of one is the `wakeUp` of the next.
 */
export async function runPipeline(stages: readonly PipelineStage[], signal: AbortSignal): Promise<void> {
  const errors: unknown[] = [];
  const over = childOf(signal);
  const running = stages.map((stage) => {
    const stop = new AbortController();
    const ended = stage.run(stop.signal).catch((error: unknown) => {
      errors.push(error);
      over.abort();
    });
    return { stop, ended };
  });

  void Promise.all(running.map(({ ended }) => ended)).then(() => over.abort());
  await whenAborted(over.signal);
  for (const { stop, ended } of running) {
    stop.abort();
    await ended;
  }
  if (errors.length > 0) throw errors[0];
}
