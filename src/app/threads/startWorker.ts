import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { readFileSync, realpathSync } from 'node:fs';
import { join, parse } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { messageOf, OperatorError, packageRoot, unlessThrown } from '../../runtime/index.js';
import type { CertificatePort } from '../../proof/index.js';
import { hasCode } from '../../storage/index.js';
import type { ReaderData } from './messages.js';

/** Heap limit of a reader thread; exceeding it ends only that thread. Buffers do not count. */
export const MAX_READER_HEAP_MIB = 1_024;
/**
 * How far a heap, external buffers included, grows before a full collection: to three times what is in use. V8 itself chooses
 * 1.1 to 4 times, and little more than the lower end for a heap as small as a reader's. Every value read is a buffer, so V8
 * collected the whole heap for 8 MiB of them (docs/decisions/0013-heap-growth.md).
 */
const HEAP_GROWTH_FLAG = '--heap-growing-percent=200';

const THREADS_ADVICE =
  'raise their limit to 64 at least (ulimit -u, TasksMax of the unit, the pids of the container)';

/** Heap limit of the thread that verifies certificates. It parses what nodes send, so nodes could exhaust it. */
const MAX_CERTIFICATES_HEAP_MIB = 512;

/** A reader thread, as its owner sees it. */
export interface ReaderHandle {
  postMessage(message: unknown): void;
  /** `error`: with the uncaught error, just before its `exit`. */
  on(event: 'message' | 'error' | 'exit', listener: (what: unknown) => void): unknown;
  terminate(): unknown;
}

export type StartReader = (options: ReaderData) => ReaderHandle;

/** Starts a reader in its own thread. Sets the heap growth of all threads: V8 has one setting for the whole process. */
export function readerStarter(): StartReader {
  const start = starterOf('readers', MAX_READER_HEAP_MIB);
  return (options) => {
    setFlagsFromString(HEAP_GROWTH_FLAG);
    return start(options);
  };
}

export function certificatesStarter(): () => CertificatePort {
  return starterOf('certificates', MAX_CERTIFICATES_HEAP_MIB);
}

/**
 * Starts a thread of the program, as long as its file has not changed since this was called: a newer version, installed by an
 * upgrade while the process runs, would not be compatible.
 */
function starterOf(name: string, heapMib: number) {
  const path = join(packageRoot, 'dist', `${name}.js`);
  const begunWith = digestOf(path);
  return (workerData?: unknown): Worker | ReturnType<typeof endedThread> => {
    if (digestOf(path) !== begunWith)
      return endedThread(`${path} was replaced or removed while this process runs: restart it`);
    // No thread starts without a current directory, and ours was removed. The daemon uses no path relative to it.
    if (unlessThrown(() => realpathSync.native('.')) === undefined) process.chdir(parse(packageRoot).root);
    try {
      return new Worker(path, { name, workerData, resourceLimits: { maxOldGenerationSizeMb: heapMib } });
    } catch (error) {
      if (!hasCode(error, 'ERR_WORKER_INIT_FAILED')) throw error;
      return endedThread(`No more threads may be started (${messageOf(error)}): ${THREADS_ADVICE}`);
    }
  };
}

/** `undefined`: it cannot be read. */
const digestOf = (path: string): string | undefined =>
  unlessThrown(() => createHash('sha256').update(readFileSync(path)).digest('hex'));

/** A handle that reports a thread that could not be started as ended. */
function endedThread(why: string) {
  const nothing = { postMessage: () => undefined, terminate: () => undefined };
  const thread = Object.assign(new EventEmitter(), nothing);
  setImmediate(() => {
    thread.emit('error', new OperatorError('unavailable', why));
    thread.emit('exit');
  });
  return thread;
}
