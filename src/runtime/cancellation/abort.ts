import { once } from 'node:events';
import { abortReason, isAbort } from './AbortError.js';

/**
 * Aborts with the first of its parents, or by its own `abort`, which removes its listeners from the parents: always call that in
 * the end. Unlike `AbortSignal.any`, it then leaves nothing on a parent that lives much longer.
 */
export function childOf(...parents: readonly AbortSignal[]): AbortController {
  const child = new AbortController();
  const { signal } = child;
  for (const parent of parents) {
    const onAbort = (): void => child.abort(abortReason(parent));
    if (parent.aborted) onAbort();
    parent.addEventListener('abort', onAbort, { signal });
  }
  return child;
}

/**
 * Waits for something that may be cancelled. `begin` starts the wait and returns a function that ends it. Once it is
 * settled, by `settle` or by an abort, that function has been called and no listener is left. Only the first settles.
 * Expected errors: the signal's abort reason; those of `begin`.
 */
export function unlessAborted<T = void>(
  signal: AbortSignal | undefined,
  begin: (settle: (value: T) => void) => () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(abortReason(signal));
      return;
    }
    const wait = { isOver: false, leave: (): void => undefined };
    const end = (finish: () => void): void => {
      if (wait.isOver) return;
      wait.isOver = true;
      signal?.removeEventListener('abort', onAbort);
      wait.leave();
      finish();
    };
    const onAbort = (): void => end(() => reject(abortReason(signal)));
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      wait.leave = begin((value) => end(() => resolve(value)));
    } catch (error) {
      end(() => undefined);
      throw error;
    }
    // `begin` settled it at once.
    if (wait.isOver) wait.leave();
  });
}

/** Resolves when the signal aborts. The listener stays until then: for a signal that does not outlive its caller. */
export async function whenAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** True for the errors that an abort of this signal causes, which need no handling. */
export function wasAborted(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted && (isAbort(error) || error === signal.reason);
}

type Loop = (signal: AbortSignal) => Promise<void>;

/**
 * Runs loops until `signal` aborts, then resolves. When one of them fails, cancels the others and rejects with that error.
 * `onBegun` receives a function that starts another loop beside them.
 */
export async function runTogether(
  signal: AbortSignal,
  loops: readonly Loop[],
  onBegun?: (begin: (loop: Loop) => void) => void,
): Promise<void> {
  const child = childOf(signal);
  const errors: unknown[] = [];
  const running: Promise<void>[] = [];
  const begin = (loop: Loop): void => {
    const run = loop(child.signal).catch((error: unknown) => {
      if (!wasAborted(error, child.signal)) errors.push(error);
      child.abort();
    });
    running.push(run);
  };
  loops.forEach(begin);
  onBegun?.(begin);
  await whenAborted(child.signal);
  await Promise.all(running);
  if (errors.length > 0) throw errors[0];
}

/** Waits for work, but not once the signal has aborted. Expected errors: the signal's abort reason; those of the work. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // A failure after the abort is dropped.
  const ended = work.catch(() => undefined);
  return unlessAborted<Promise<T>>(signal, (settle) => {
    void ended.then(() => settle(work));
    return () => undefined;
  });
}

/** Runs a task once there is a place. An abort leaves the queue. Expected errors: those of the task; the signal's abort reason. */
type RunInPlace = <T>(task: () => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** Runs at most `count` tasks at once; the rest wait in order of arrival. The caller bounds how many wait. */
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
