// The main module of a reader thread.
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';
import { redirectGrpcLog } from '../../access/index.js';
import { systemClock } from '../../runtime/index.js';
import type { ReaderOptions } from './messages.js';
import { serveReaders } from './serveReaders.js';

if (parentPort === null) throw new Error('this is for a thread of the daemon');
const fail = (error: unknown): void => {
  // Thrown later, so that the caller gets its response first; uncaught, it ends the thread.
  setImmediate(() => {
    throw error;
  });
};
const [options] = (await once(parentPort, 'message')) as [ReaderOptions];
await serveReaders(options, {
  port: parentPort,
  clock: systemClock,
  fail,
  // The gRPC library logs for the whole thread.
  onLogger: (logger) => redirectGrpcLog({ logger }),
});
// Open connections of callers and nodes must not delay the end.
process.exit();
