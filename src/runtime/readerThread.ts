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

let prepared: Worker | undefined;

/**
 * Has a reader thread load its modules while this thread loads those of the daemon, which takes as long: readers are served
 * a quarter of a second sooner. It does not keep the process alive, and waits for its first message.
 */
export function prepareReaderThread(): void {
  let worker: Worker;
  try {
    worker = started();
  } catch {
    // When the thread is needed, a new one fails as well, and it is said.
    return;
  }
  const forget = (): void => {
    if (prepared === worker) prepared = undefined;
  };
  worker.on('error', forget).on('exit', forget).unref();
  prepared = worker;
}

/** The thread that was prepared, or else a new one. Its options are the first message that it takes. */
export function takeReaderThread(): Worker {
  const worker = prepared ?? started();
  prepared = undefined;
  worker.ref();
  return worker;
}

/** Ends the thread that was prepared, where no readers are served. */
export function dismissReaderThread(): void {
  void prepared?.terminate();
  prepared = undefined;
}

/** Sets the heap growth of all threads: V8 has one setting for the whole process. */
function started(): Worker {
  setFlagsFromString(HEAP_GROWTH_FLAG);
  return new Worker(join(packageRoot, 'dist/readers.js'), {
    name: 'readers',
    resourceLimits: { maxOldGenerationSizeMb: MAX_READER_HEAP_MIB },
  });
}
