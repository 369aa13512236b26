import { isThenable } from './isThenable.js';
import type { JobWindow } from './JobWindow.js';
import type { ConsumerProgress, Job, JobHooks } from '../types.js';

export interface FinishedJobsDependencies<J extends Job> {
  readonly window: JobWindow<J>;
  readonly progress: ConsumerProgress;
  readonly hooks: JobHooks<J>;
}

/** The jobs that have finished and are not accounted for yet. */
export class FinishedJobs<J extends Job> {
  readonly #window: JobWindow<J>;
  readonly #progress: ConsumerProgress;
  readonly #hooks: JobHooks<J>;
  /** Jobs finished since the last round, in order of completion; at most `maxProcessing` per round. */
  #jobs: J[] = [];

  constructor(dependencies: FinishedJobsDependencies<J>) {
    this.#window = dependencies.window;
    this.#progress = dependencies.progress;
    this.#hooks = dependencies.hooks;
  }

  get any(): boolean {
    return this.#jobs.length > 0;
  }

  add(job: J): void {
    this.#jobs.push(job);
  }

  /**
   * Accounts for everything finished since the last time: hooks around one write of progress, only if P moved. Rejects
   * with whatever a hook or the progress throws.
   */
  async settle(): Promise<void> {
    const jobs = this.#jobs;
    this.#jobs = [];
    const processed = await this.#newProgress();
    await this.#callHook('pre', jobs, processed);
    if (processed !== this.#window.processed) {
      await this.#progress.setProcessedIndex?.(processed);
      this.#window.moveTo(processed);
    }
    await this.#callHook('post', jobs, processed);
  }

  /** Awaits only promises: hundreds of jobs whose hooks return nothing do not cost a promise each. */
  async #callHook(name: 'pre' | 'post', jobs: readonly J[], progress: number): Promise<void> {
    if (this.#hooks[name] === undefined) return;
    for (const job of jobs) {
      const returned = this.#hooks[name](job, progress);
      if (isThenable(returned)) await returned;
    }
  }

  #newProgress(): number | Promise<number> {
    if (this.#progress.setProcessedIndex !== undefined) return this.#window.contiguous();
    return this.#ownersProgress();
  }

  async #ownersProgress(): Promise<number> {
    return (await this.#progress.processedIndex()) ?? this.#window.processed;
  }
}
