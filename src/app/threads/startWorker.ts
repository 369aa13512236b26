import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../../runtime/index.js';
import type { CertificatePort } from '../../proof/index.js';
import type { ReaderData } from './messages.js';

/** Heap limit of a reader thread; beyond it only that thread ends. Buffers do not count. */
export const MAX_READER_HEAP_MIB = 1_024;
/**
 * How far a heap, buffers beside it included, grows before it is collected as a whole: to three times what is in use. V8
 * itself chooses 1.1 to 4 times, and little more than the lower end for a heap as small as a reader's. Every value read
 * is a buffer, so it collected a whole heap for 8 MiB of them (docs/decisions/0013-heap-growth.md).
 */
const HEAP_GROWTH_FLAG = '--heap-growing-percent=200';

/** Heap limit of the thread that verifies certificates. It parses what nodes send, so nodes could exhaust it. */
const MAX_CERTIFICATES_HEAP_MIB = 512;

/** A reader thread, as its owner sees it. */
export interface ReaderHandle {
  postMessage(message: unknown): void;
  /** `error`: with what was not caught, just before its `exit`. */
  on(event: 'message' | 'error' | 'exit', listener: (what: unknown) => void): unknown;
  terminate(): unknown;
}

export type StartReader = (options: ReaderData) => ReaderHandle;

/** Starts a reader in its own thread. Sets the heap growth of all threads: V8 has one setting for the whole process. */
export const startWorker: StartReader = (options) => {
  setFlagsFromString(HEAP_GROWTH_FLAG);
  return new Worker(join(packageRoot, 'dist/readers.js'), {
    name: 'readers',
    workerData: options,
    resourceLimits: { maxOldGenerationSizeMb: MAX_READER_HEAP_MIB },
  });
};

export const startCertificates = (): CertificatePort =>
  new Worker(join(packageRoot, 'dist/certificates.js'), {
    name: 'certificates',
    resourceLimits: { maxOldGenerationSizeMb: MAX_CERTIFICATES_HEAP_MIB },
  });
