// The main module of a reader thread.
import { parentPort, workerData } from 'node:worker_threads';
import { redirectLibraryLogs } from '../../access/index.js';
import { systemClock } from '../../runtime/index.js';
import type { ReaderData } from './messages.js';
import { serveReaders } from './serveReaders.js';

if (parentPort === null) throw new Error('this is for a thread of the daemon');
await serveReaders(workerData as ReaderData, {
  port: parentPort,
  clock: systemClock,
  // Thrown later, so that the caller gets its response first; uncaught, it ends the thread.
  fail: (error) =>
    void setImmediate(() => {
      throw error;
    }),
  // Libraries log for the whole thread.
  onLogger: (logger) => redirectLibraryLogs({ logger }),
});
// Open connections of callers and nodes must not delay the end. What has failed is thrown first.
setImmediate(() => process.exit());
