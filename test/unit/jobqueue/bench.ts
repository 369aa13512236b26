import { JobConsumer, MemoryProgress } from '../../../src/jobqueue/index.js';
import type { Job, JobHooks } from '../../../src/jobqueue/index.js';

export interface NumberedJob extends Job {
  readonly index: number;
}

export const jobAt = (index: number): NumberedJob => ({ id: String(index), index });

/** Lets everything that is due happen. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export interface BenchOptions {
  readonly maxProcessing?: number;
  readonly maxSearchAhead?: number;
  readonly defaultIndex?: number;
  readonly stored?: number | undefined;
  readonly hooks?: JobHooks<NumberedJob>;
  readonly progress?: MemoryProgress;
  /** Called for each job; by default jobs run until the test says that they are done. */
  readonly work?: (job: NumberedJob, done: () => void) => void | Promise<void>;
  readonly read?: (index: number) => NumberedJob | undefined | Promise<NumberedJob | undefined>;
}

/** A queue on a workbench: jobs 1..available exist, and the test says when each is done. */
export class Bench {
  readonly progress: MemoryProgress;
  readonly consumer: JobConsumer<NumberedJob>;
  /** Indexes in the order in which they were handed to the worker. */
  readonly called: number[] = [];
  readonly asked: number[] = [];
  headReads = 0;
  available = 0;
  readonly #dones = new Map<number, () => void>();

  constructor(options: BenchOptions = {}) {
    this.progress = options.progress ?? new MemoryProgress(options.stored);
    this.consumer = new JobConsumer<NumberedJob>(
      {
        maxProcessing: options.maxProcessing ?? 3,
        maxSearchAhead: options.maxSearchAhead ?? 0,
        ...(options.defaultIndex === undefined ? {} : { defaultIndex: options.defaultIndex }),
      },
      {
        progress: this.progress,
        ...(options.hooks === undefined ? {} : { hooks: options.hooks }),
        jobs: {
          head: () => {
            this.headReads += 1;
            return this.available;
          },
          atIndex: (index) => {
            this.asked.push(index);
            if (options.read !== undefined) return options.read(index);
            return index <= this.available ? jobAt(index) : undefined;
          },
        },
        worker: {
          run: (job, done) => {
            this.called.push(job.index);
            this.#dones.set(job.index, done);
            return options.work?.(job, done);
          },
        },
      },
    );
  }

  get P(): number {
    return this.progress.processedIndex() ?? 0;
  }

  async start(): Promise<this> {
    await this.consumer.start();
    return this;
  }

  /** `+n`: jobs up to n become available, one by one, each with a check. */
  async push(...indexes: number[]): Promise<void> {
    for (const index of indexes) {
      this.available = Math.max(this.available, index);
      this.consumer.check();
      await settle();
    }
  }

  /** `n*`: each job is done, one after the other. */
  async finish(...indexes: number[]): Promise<void> {
    for (const index of indexes) {
      const done = this.#dones.get(index);
      if (done === undefined) throw new Error(`job ${index} was not handed out`);
      done();
      await settle();
    }
  }
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}
