/** Callers in plain JavaScript may return anything. */
export function isThenable<T>(returned: T | Promise<T>): returned is Promise<T> {
  return typeof (returned as Partial<Promise<T>> | undefined)?.then === 'function';
}
