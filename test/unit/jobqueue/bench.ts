import { JobConsumer, MemoryProgress } from '../../../src/jobqueue/index.js';
import type { ConsumerProgress, Job, JobHooks, Notifiable, WakeUp } from '../../../src/jobqueue/index.js';
export { numbers as range } from '../../support/ranges.js';

interface NumberedJob extends Job {
  readonly index: number;
}

export const jobAt = (index: number): NumberedJob => ({ id: String(index), index });
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export interface BenchOptions extends Partial<ConstructorParameters<typeof JobConsumer>[0]> {
  readonly stored?: number | undefined;
  readonly hooks?: JobHooks<NumberedJob>;
  readonly progress?: ConsumerProgress;
  /** Called for each job; by default jobs run until the test says that they are done. */
  readonly work?: (job: NumberedJob, done: () => void) => void | Promise<void>;
  readonly read?: (index: number) => NumberedJob | undefined | Promise<NumberedJob | undefined>;
  readonly wakeUp?: WakeUp;
  readonly wakes?: Notifiable;
}

/** A queue on a workbench: jobs 1..available exist, and the test says when each is done. */
export class Bench {
  readonly progress: ConsumerProgress;
  readonly consumer: JobConsumer<NumberedJob>;
  readonly called: number[] = [];
  readonly asked: number[] = [];
  headReads = 0;
  available = 0;
  readonly #dones = new Map<number, () => void>();

  constructor({ stored, work, read, maxProcessing = 3, maxSearchAhead = 0, ...options }: BenchOptions = {}) {
    const { progress = new MemoryProgress(stored) } = options;
    this.progress = progress;
    this.consumer = new JobConsumer<NumberedJob>(
      { ...options, maxProcessing, maxSearchAhead },
      {
        ...options,
        progress,
        jobs: {
          head: () => {
            this.headReads += 1;
            return this.available;
          },
          atIndex: (index) => {
            this.asked.push(index);
            if (read !== undefined) return read(index);
            return index <= this.available ? jobAt(index) : undefined;
          },
        },
        worker: {
          run: (job, done) => {
            this.called.push(job.index);
            this.#dones.set(job.index, done);
            return work?.(job, done);
          },
        },
      },
    );
  }

  get P(): number {
    const stored = this.progress.processedIndex();
    return typeof stored === 'number' ? stored : 0;
  }

  async start(): Promise<this> {
    await this.consumer.start();
    return this;
  }

  async check(): Promise<void> {
    this.consumer.check();
    await settle();
  }

  /** `+n`: jobs up to n become available, one by one, each with a check. */
  async push(...indexes: number[]): Promise<void> {
    for (const index of indexes) {
      this.available = Math.max(this.available, index);
      await this.check();
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
