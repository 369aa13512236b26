import { childOf } from '../../runtime/index.js';
import { JobConsumer } from '../consumer/JobConsumer.js';
import type { JobConsumerDependencies, JobConsumerOptions } from '../consumer/JobConsumer.js';
import type { Job, JobHooks, JobId, Notifiable, WakeUp } from '../types.js';

export interface ComponentConsumerDependencies<J extends Job> extends JobConsumerDependencies<J> {
  /** Signals that there may be new jobs. Wake-ups before the consumer is ready cause one check afterwards. */
  readonly wakeUp: WakeUp;
  /** Notified after every finished job: the wake-up of the next queue. */
  readonly wakes?: Notifiable;
}

/** A `JobConsumer` with a life cycle: it starts, checks at every wake-up, and stops. One stage of a pipeline. */
export class ComponentConsumer<J extends Job> {
  readonly #consumer: JobConsumer<J>;
  readonly #wakeUp: WakeUp;

  constructor(options: JobConsumerOptions, dependencies: ComponentConsumerDependencies<J>) {
    const { wakeUp, wakes, hooks, ...others } = dependencies;
    this.#wakeUp = wakeUp;
    this.#consumer = new JobConsumer(options, {
      ...others,
      hooks: {
        ...(hooks?.pre === undefined ? {} : { pre: hooks.pre.bind(hooks) }),
        ...(hooks?.notReadable === undefined ? {} : { notReadable: hooks.notReadable.bind(hooks) }),
        ...postHook(hooks, wakes),
      },
    });
  }

  /** Resolves once the first check has ended. */
  get ready(): Promise<void> {
    return this.#consumer.ready;
  }

  get processedIndex(): number {
    return this.#consumer.processedIndex;
  }

  get running(): number {
    return this.#consumer.running;
  }

  size(): number {
    return this.#consumer.size();
  }

  notifyJobIsDone(id: JobId): boolean {
    return this.#consumer.notifyJobIsDone(id);
  }

  /**
   * Works until `signal` aborts, then waits for the running jobs, or until `giveUp` aborts too. Rejects only with an
   * unknown error of the worker, the jobs, the progress, a hook or the wake-up, and then without waiting for any job.
   */
  async run(signal: AbortSignal, giveUp?: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const ended = childOf(signal);
    const failed = this.#consumer.done.catch((error: unknown) => {
      ended.abort();
      throw error;
    });
    try {
      await this.#consumer.start();
      await this.#checkUntil(ended.signal);
    } catch (error) {
      failed.catch(() => undefined);
      await this.#consumer.stop(AbortSignal.abort());
      throw error;
    } finally {
      ended.abort();
    }
    await Promise.race([this.#consumer.stop(giveUp), failed]);
    await failed;
  }

  async #checkUntil(ended: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#wakeUp.wait(ended);
      } catch (error) {
        if (ended.aborted) return;
        throw error;
      }
      this.#consumer.check();
    }
  }
}

/** Runs the owner's hook, then the wake-up. Only a hook that returns a promise is awaited. */
function postHook<J extends Job>(
  hooks: JobHooks<J> | undefined,
  wakes: Notifiable | undefined,
): Pick<JobHooks<J>, 'post'> {
  if (wakes === undefined) return hooks?.post === undefined ? {} : { post: hooks.post.bind(hooks) };
  return {
    post: (job, progress) => {
      const returned = hooks?.post?.(job, progress);
      if (returned instanceof Promise) return returned.then(() => wakes.notify());
      wakes.notify();
    },
  };
}
