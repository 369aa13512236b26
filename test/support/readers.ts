import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { serveReaders } from '../../src/app/threads/serveReaders.js';
import type { FromReader } from '../../src/app/threads/messages.js';
import { handleOf } from '../../src/app/threads/startWorker.js';
import type { StartReader } from '../../src/app/threads/startWorker.js';
import { systemClock } from '../../src/runtime/index.js';

/** Readers on the thread of the test, for many daemons in one process. What ends them ends only them. */
export const readersHere: StartReader = (options) => {
  const { port1: ours, port2: theirs } = new MessageChannel();
  let tellEnd: (error: unknown) => void = () => undefined;
  let receive: (message: FromReader) => void = () => undefined;
  let hasEnded = false;
  const end = (error?: unknown): void => {
    if (hasEnded) return;
    hasEnded = true;
    // As with a thread, what was said before the end is heard.
    for (let said = receiveMessageOnPort(ours); said !== undefined; said = receiveMessageOnPort(ours)) {
      receive(said.message as FromReader);
    }
    ours.close();
    theirs.close();
    tellEnd(error);
  };
  void serveReaders(options, { port: theirs, clock: systemClock, fail: end }).then(() => end(), end);
  return {
    post: (message) => ours.postMessage(message),
    onMessage: (listener) => {
      receive = listener;
      ours.on('message', listener);
    },
    onEnd: (listener) => (tellEnd = listener),
    // Nothing ends what shares our thread; it hears the same as at a stop.
    terminate: () => ours.postMessage({ kind: 'stop' }),
  };
};

/** Readers on a thread of their own, which runs the sources. */
export const readersOfSources: StartReader = (options) =>
  handleOf(
    new Worker(new URL('sourceWorker.mjs', import.meta.url), {
      workerData: options,
      argv: [new URL('../../src/app/threads/readerEntry.ts', import.meta.url).href],
      execArgv: [],
    }),
  );
