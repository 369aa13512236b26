/** Maximum keys per read: a page of large values would block the event loop. A larger request goes alone. */
const MAX_KEYS = 32;

type Values = (Buffer | undefined)[];

interface PendingRead {
  readonly keys: readonly Buffer[];
  readonly resolve: (values: Values) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Combines the reads of one turn of the event loop into one. Most of the cost of a small read is the round trip to
 * another thread, which is now paid once for all of them. Both functions read the values of some keys, in order, from one
 * moment, which is not before the call. Expected errors: those of `read`.
 */
export function batchedReads(read: (keys: Buffer[]) => Promise<Values>) {
  let pending: PendingRead[] = [];
  let waiting = 0;
  const flush = (): void => {
    const reads = pending;
    if (reads.length === 0) return;
    pending = [];
    waiting = 0;
    const share = (values: Values): void => {
      let from = 0;
      for (const { keys, resolve } of reads) resolve(values.slice(from, (from += keys.length)));
    };
    read(reads.flatMap(({ keys }) => keys)).then(share, () => {
      // One unreadable record must not fail the other reads.
      for (const { keys, resolve, reject } of reads) read([...keys]).then(resolve, reject);
    });
  };
  return (keys: readonly Buffer[]): Promise<Values> =>
    new Promise((resolve, reject) => {
      if (waiting + keys.length > MAX_KEYS) flush();
      if (pending.length === 0) setImmediate(flush);
      pending.push({ keys, resolve, reject });
      waiting += keys.length;
    });
}
