import fc from 'fast-check';
import { expect, it } from 'vitest';
import { JobConsumer, MemoryProgress } from '../../../src/jobqueue/index.js';
import { range, settle } from './bench.js';

interface Run {
  readonly jobs: number;
  readonly maxProcessing: number;
  readonly maxSearchAhead: number;
  /** What happens, one number per step. */
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

/** The rule itself: what is done, and the contiguous prefix of it. */
class Model {
  readonly done = new Set<number>();
  prefix(): number {
    let index = 0;
    while (this.done.has(index + 1)) index += 1;
    return index;
  }
}

/** One life of a consumer. Ends when the steps do; what is not done then runs again in the next life. */
async function live(run: Run, stored: MemoryProgress, lastLife: boolean): Promise<void> {
  const start = stored.processedIndex() ?? 0;
  const model = new Model();
  for (const index of range(1, start)) model.done.add(index);
  const called: number[] = [];
  const running = new Map<number, () => void>();
  let available = start;

  const write = (index: number): void => {
    expect(index).toBeGreaterThan(stored.processedIndex() ?? 0);
    expect(index).toBeLessThanOrEqual(model.prefix());
    stored.setProcessedIndex(index);
  };
  const consumer = new JobConsumer<{ id: string; index: number }>(
    { maxProcessing: run.maxProcessing, maxSearchAhead: run.maxSearchAhead },
    {
      progress: {
        processedIndex: () =>
          run.asyncProgress ? Promise.resolve(stored.processedIndex()) : stored.processedIndex(),
        ...(run.ownersProgress
          ? {}
          : {
              setProcessedIndex: (index: number) => {
                if (!run.asyncProgress) {
                  write(index);
                  return;
                }
                return Promise.resolve().then(() => write(index));
              },
            }),
      },
      jobs: {
        head: () => (run.asyncReads ? Promise.resolve(available) : available),
        atIndex: (index) => {
          const job = index <= available ? { id: String(index % 3), index } : undefined;
          return run.asyncReads ? Promise.resolve(job) : job;
        },
      },
      worker: {
        run: (job, done) => {
          called.push(job.index);
          running.set(job.index, () => {
            running.delete(job.index);
            model.done.add(job.index);
            if (run.ownersProgress && model.prefix() > (stored.processedIndex() ?? 0)) write(model.prefix());
            done();
          });
          expect(running.size).toBeLessThanOrEqual(run.maxProcessing);
          if (run.maxSearchAhead > 0)
            expect(job.index - (stored.processedIndex() ?? 0)).toBeLessThanOrEqual(run.maxSearchAhead);
          // Some jobs are done before the worker returns.
          if (job.index % 7 === 0) running.get(job.index)?.();
          return run.asyncWorker ? Promise.resolve() : undefined;
        },
      },
    },
  );
  await consumer.start();

  const finish = (choice: number): void => {
    const indexes = [...running.keys()];
    const index = indexes[choice % indexes.length];
    if (index !== undefined) running.get(index)?.();
  };
  for (const step of run.steps) {
    const choice = Math.floor(step / 4);
    if (step % 4 === 0) {
      available = Math.min(run.jobs, available + (choice % 5));
      consumer.check();
    } else if (step % 4 === 1) {
      await Promise.resolve();
    } else {
      finish(choice);
    }
  }
  if (lastLife) {
    available = run.jobs;
    consumer.check();
    await settle();
    while (running.size > 0) {
      finish(0);
      await settle();
    }
  }
  const stopped = consumer.stop(AbortSignal.abort());
  await stopped;
  await consumer.done;
  // Each job once per life, in ascending order, from just above the stored progress.
  expect(called).toEqual(range(start + 1, start + called.length));
  expect(stored.processedIndex() ?? 0).toBe(model.prefix());
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
