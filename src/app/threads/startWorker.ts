import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { packageRoot } from '../../runtime/index.js';
import type { CertificatePort } from '../../proof/index.js';
import type { FromReader, ReaderOptions, ToReader } from './messages.js';

/** Heap limit of the thread that verifies certificates. It parses what nodes send, so nodes could exhaust it. */
const MAX_CERTIFICATES_HEAP_MIB = 512;

/** A reader thread, as its owner sees it. */
export interface ReaderHandle {
  post(message: ToReader): void;
  onMessage(listener: (message: FromReader) => void): void;
  /** Called once, when it has ended; with the uncaught error, if there was one. */
  onEnd(listener: (error: unknown) => void): void;
  /** Ends it at once. */
  terminate(): void;
}

export type StartReader = (options: ReaderOptions) => ReaderHandle;

/** Runs a reader in a thread that was started for it. */
export const runReader = (worker: Worker, options: ReaderOptions): ReaderHandle => {
  worker.postMessage(options);
  let uncaught: unknown;
  worker.on('error', (error) => (uncaught = error));
  return {
    post: (message) => worker.postMessage(message),
    onMessage: (listener) => worker.on('message', listener),
    onEnd: (listener) => worker.once('exit', () => listener(uncaught)),
    terminate: () => void worker.terminate(),
  };
};

/** Starts the thread that verifies certificates. */
export const startCertificates = (): CertificatePort =>
  new Worker(join(packageRoot, 'dist/certificates.js'), {
    name: 'certificates',
    resourceLimits: { maxOldGenerationSizeMb: MAX_CERTIFICATES_HEAP_MIB },
  });
