// What a reader thread runs.
import { parentPort, workerData } from 'node:worker_threads';
import { redirectGrpcLog } from '../../access/index.js';
import { silentLogger } from '../../observability/index.js';
import { systemClock } from '../../runtime/index.js';
import type { ReaderOptions } from './messages.js';
import { serveReaders } from './serveReaders.js';

if (parentPort === null) throw new Error('this is for a thread of the daemon');
redirectGrpcLog({ logger: silentLogger });
const fail = (error: unknown): void => {
  // Uncaught, it ends the thread and is told to whoever began it; the caller gets its answer first.
  setImmediate(() => {
    throw error;
  });
};
await serveReaders(workerData as ReaderOptions, { port: parentPort, clock: systemClock, fail });
// Nothing that a caller or a node left behind holds up the end.
process.exit();
