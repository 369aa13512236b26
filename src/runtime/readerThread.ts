import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { packageRoot } from './version.js';

/** Heap limit of a reader thread; beyond it only that thread ends. Buffers do not count. */
const MAX_READER_HEAP_MIB = 1_024;
/**
 * How far a heap, buffers beside it included, grows before it is collected as a whole: to three times what is in use. V8
 * itself chooses 1.1 to 4 times, and little more than the lower end for a heap as small as a reader's. Every value read
 * is a buffer, so it collected a whole heap for 8 MiB of them (docs/decisions/0013-heap-growth.md).
 */
const HEAP_GROWTH_FLAG = '--heap-growing-percent=200';

/**
 * Starts a reader thread, which loads its modules and then waits for its options, its first message. Sets the heap growth of
 * all threads: V8 has one setting for the whole process.
 */
export function startReaderThread(): Worker {
  setFlagsFromString(HEAP_GROWTH_FLAG);
  return new Worker(join(packageRoot, 'dist/readers.js'), {
    name: 'readers',
    resourceLimits: { maxOldGenerationSizeMb: MAX_READER_HEAP_MIB },
  });
}

/** A reader thread that loads its modules before anybody knows whether it is needed. */
export interface PreparedThread {
  /** The prepared thread, once; else, and if it has failed, a new one. */
  take(): Worker;
  /** Ends it where no readers are served. */
  dismiss(): void;
}

/**
 * Has a reader thread load while this thread loads the daemon, which takes as long: readers are served a quarter of a second
 * sooner. It does not keep the process alive.
 */
export function prepareReaderThread(): PreparedThread {
  let prepared: Worker | undefined;
  const forget = (): void => void (prepared = undefined);
  try {
    prepared = startReaderThread().on('error', forget).on('exit', forget);
    prepared.unref();
  } catch {
    // When the thread is needed, a new one fails as well, and it is said.
  }
  return {
    take: () => {
      const worker = prepared ?? startReaderThread();
      worker.ref();
      forget();
      return worker;
    },
    dismiss: () => {
      void prepared?.terminate();
      forget();
    },
  };
}
