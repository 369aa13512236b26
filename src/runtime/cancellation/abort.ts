import { abortReason, isAbort } from './AbortError.js';

/** A signal that aborts with its parent or alone, and leaves no listener on a parent that lives much longer. */
export interface ChildSignal {
  readonly signal: AbortSignal;
  /** Default reason: that of the platform. */
  abort(reason?: Error): void;
}

export function childOf(parent: AbortSignal): ChildSignal {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(abortReason(parent));
  if (parent.aborted) onAbort();
  else parent.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => {
      parent.removeEventListener('abort', onAbort);
      controller.abort(reason);
    },
  };
}

/** True for the errors that an abort of this signal causes, which need no handling. */
export function wasAborted(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted && (isAbort(error) || error === signal.reason);
}

/**
 * Runs loops that end only by their signal. Resolves when `signal` aborts; when one of them fails, the others are
 * cancelled and it rejects with that error.
 */
export async function runTogether(
  signal: AbortSignal,
  loops: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const child = childOf(signal);
  const errors: unknown[] = [];
  await Promise.all(
    loops.map((loop) =>
      loop(child.signal).catch((error: unknown) => {
        if (!wasAborted(error, child.signal)) errors.push(error);
        child.abort();
      }),
    ),
  );
  child.abort();
  if (errors.length > 0) throw errors[0];
}

/** Waits for work, but not once the signal has aborted. Expected errors: the signal's abort reason. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(abortReason(signal));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
