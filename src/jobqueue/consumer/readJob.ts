import { isThenable } from './isThenable.js';
import { JobNotReadableError } from '../JobNotReadableError.js';
import type { Job, JobHooks, Jobs } from '../types.js';

/**
 * The job at an index; `undefined` while there is none, or while it cannot be read, which is reported to the hook. A job
 * that is available synchronously is returned synchronously. Other errors of the jobs are passed on.
 */
export function readJob<J extends Job>(
  jobs: Jobs<J>,
  index: number,
  hooks: JobHooks<J>,
): J | undefined | Promise<J | undefined> {
  try {
    const job = jobs.atIndex(index);
    return isThenable(job) ? readLater(job, index, hooks) : job;
  } catch (error) {
    reportUnreadable(error, index, hooks);
    return undefined;
  }
}

async function readLater<J extends Job>(
  job: Promise<J | undefined>,
  index: number,
  hooks: JobHooks<J>,
): Promise<J | undefined> {
  try {
    return await job;
  } catch (error) {
    reportUnreadable(error, index, hooks);
    return undefined;
  }
}

function reportUnreadable<J extends Job>(error: unknown, index: number, hooks: JobHooks<J>): void {
  if (!(error instanceof JobNotReadableError)) throw error;
  hooks.notReadable?.(index, error);
}
