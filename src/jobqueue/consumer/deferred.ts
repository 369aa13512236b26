/** A promise with its resolve and reject functions. */
export interface Deferred {
  readonly promise: Promise<void>;
  resolve(): void;
  reject(error: unknown): void;
}

export function deferred(): Deferred {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve: () => resolve(), reject: (error) => reject(error) };
}

/** Declares that a promise's rejection is delivered elsewhere as well. */
export function handledElsewhere(promise: Promise<unknown>): void {
  promise.catch(() => undefined);
}
