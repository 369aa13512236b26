import { unlessAborted } from './abort.js';

/** Runs a task once there is a place. Whoever aborts leaves the queue. Expected errors: those of the task; the signal's abort reason. */
type RunInPlace = <T>(task: () => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** Lets a fixed number of tasks run at once; the others wait, first come, first served. The caller bounds how many wait. */
export function places(count: number): RunInPlace {
  let free = count;
  const waiting = new Set<() => void>();
  return async (task, signal) => {
    if (free > 0) free -= 1;
    else
      await unlessAborted(signal, (resolve) => {
        waiting.add(resolve);
        return () => void waiting.delete(resolve);
      });
    try {
      return await task();
    } finally {
      const [next] = waiting;
      if (next === undefined) free += 1;
      else next();
    }
  };
}
