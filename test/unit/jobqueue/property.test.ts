import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MemoryProgress } from '../../../src/jobqueue/index.js';
import { Bench, range, settle } from './bench.js';

interface Run {
  readonly jobs: number;
  readonly maxProcessing: number;
  readonly maxSearchAhead: number;
  readonly steps: readonly number[];
  /** Which of the reads, workers and progress writes answer with a promise. */
  readonly asyncReads: boolean;
  readonly asyncWorker: boolean;
  readonly asyncProgress: boolean;
  readonly ownersProgress: boolean;
}

const runs: fc.Arbitrary<Run> = fc.record({
  jobs: fc.integer({ min: 0, max: 40 }),
  maxProcessing: fc.integer({ min: 1, max: 8 }),
  maxSearchAhead: fc.integer({ min: 0, max: 12 }),
  steps: fc.array(fc.nat(1_000), { minLength: 60, maxLength: 160 }),
  asyncReads: fc.boolean(),
  asyncWorker: fc.boolean(),
  asyncProgress: fc.boolean(),
  ownersProgress: fc.boolean(),
});

/** One life of a consumer. Ends when the steps do; what is not done then runs again in the next life. */
async function live(run: Run, stored: MemoryProgress, lastLife: boolean): Promise<void> {
  const start = stored.processedIndex() ?? 0;
  const P = (): number => stored.processedIndex() ?? 0;
  const done = new Set(range(1, start));
  /** The rule itself: the contiguous prefix of what is done. */
  const prefix = (): number => {
    let index = 0;
    while (done.has(index + 1)) index += 1;
    return index;
  };
  const running = new Map<number, () => void>();
  const answer = <T>(isAsync: boolean, value: T): T | Promise<T> =>
    isAsync ? Promise.resolve(value) : value;

  const write = (index: number): void => {
    expect(index).toBeGreaterThan(P());
    expect(index).toBeLessThanOrEqual(prefix());
    stored.setProcessedIndex(index);
  };
  const setProcessedIndex = (index: number): void | Promise<void> =>
    run.asyncProgress ? Promise.resolve().then(() => write(index)) : write(index);
  const bench: Bench = new Bench({
    maxProcessing: run.maxProcessing,
    maxSearchAhead: run.maxSearchAhead,
    progress: {
      processedIndex: () => answer(run.asyncProgress, stored.processedIndex()),
      ...(run.ownersProgress ? {} : { setProcessedIndex }),
    },
    read: (index) =>
      answer(run.asyncReads, index <= bench.available ? { id: String(index % 3), index } : undefined),
    work: ({ index }, tell) => {
      running.set(index, () => {
        running.delete(index);
        done.add(index);
        if (run.ownersProgress && prefix() > P()) write(prefix());
        tell();
      });
      expect(running.size).toBeLessThanOrEqual(run.maxProcessing);
      if (run.maxSearchAhead > 0) expect(index - P()).toBeLessThanOrEqual(run.maxSearchAhead);
      // Some jobs are done before the worker returns.
      if (index % 7 === 0) running.get(index)?.();
      return run.asyncWorker ? Promise.resolve() : undefined;
    },
  });
  bench.available = start;
  await bench.start();

  const finish = (choice: number): void => {
    const indexes = [...running.keys()];
    const index = indexes[choice % indexes.length];
    if (index !== undefined) running.get(index)?.();
  };
  for (const step of run.steps) {
    const choice = Math.floor(step / 4);
    if (step % 4 === 0) {
      bench.available = Math.min(run.jobs, bench.available + (choice % 5));
      bench.consumer.check();
    } else if (step % 4 === 1) await Promise.resolve();
    else finish(choice);
  }
  if (lastLife) {
    bench.available = run.jobs;
    await bench.check();
    while (running.size > 0) {
      finish(0);
      await settle();
    }
  }
  await bench.consumer.stop(AbortSignal.abort());
  await bench.consumer.done;
  // Each job once per life, in ascending order, from just above the stored progress.
  expect(bench.called).toEqual(range(start + 1, start + bench.called.length));
  expect(P()).toBe(prefix());
}

it('JobConsumer against a model runs each job once per life, keeps its bounds, and progress is the contiguous prefix', async () => {
  await fc.assert(
    fc.asyncProperty(runs, fc.integer({ min: 0, max: 3 }), async (run, restarts) => {
      const stored = new MemoryProgress();
      for (let life = 0; life < restarts; life += 1) await live(run, stored, false);
      await live(run, stored, true);
      expect(stored.processedIndex() ?? 0).toBe(run.jobs);
    }),
    { numRuns: 100 },
  );
});
