// A reader thread that loops for ever at the first request for block 100.
import { parentPort, workerData } from 'node:worker_threads';
import { serveReaders } from '../../src/app/threads/serveReaders.js';
import type { ReaderData } from '../../src/app/threads/messages.js';
import { systemClock } from '../../src/runtime/index.js';

if (parentPort === null) throw new Error('this is for a thread');
const fail = (error: unknown): never => {
  throw error;
};
const stringify = JSON.stringify.bind(JSON);
JSON.stringify = ((value: unknown) => {
  const [block] = Array.isArray(value) ? (value as { header?: { height?: string } }[]) : [];
  while (block?.header?.height === '100');
  return stringify(value);
}) as typeof JSON.stringify;
await serveReaders(workerData as ReaderData, { port: parentPort, clock: systemClock, fail });
process.exit();
