/** Anything that works until its signal aborts: `ComponentConsumer`, a producer, a pipeline. */
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
  const failed = new AbortController();
  const running = stages.map((stage) => {
    const stop = new AbortController();
    const ended = stage.run(stop.signal).catch((error: unknown) => {
      errors.push(error);
      failed.abort();
    });
    return { stop, ended };
  });

  await Promise.race([
    aborted(AbortSignal.any([signal, failed.signal])),
    Promise.all(running.map(({ ended }) => ended)),
  ]);
  for (const { stop, ended } of running) {
    stop.abort();
    await ended;
  }
  if (errors.length > 0) throw errors[0];
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
