import { EventEmitter } from 'node:events';
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { serveReaders } from '../../src/app/threads/serveReaders.js';
import type { StartReader } from '../../src/app/threads/startWorker.js';
import { systemClock } from '../../src/runtime/index.js';

/** Readers on the thread of the test, for many daemons in one process. What ends them ends only them. */
export const readersHere: StartReader = (options) => {
  const { port1: ours, port2: theirs } = new MessageChannel();
  const events = new EventEmitter();
  let hasEnded = false;
  const end = (error?: unknown): void => {
    if (hasEnded) return;
    hasEnded = true;
    // As with a thread, what was said before the end is heard.
    for (let said = receiveMessageOnPort(ours); said !== undefined; said = receiveMessageOnPort(ours))
      events.emit('message', said.message);
    ours.close();
    theirs.close();
    if (error !== undefined) events.emit('error', error);
    events.emit('exit');
  };
  void serveReaders(options, { port: theirs, clock: systemClock, fail: end }).then(() => end(), end);
  ours.on('message', (message) => events.emit('message', message));
  return {
    postMessage: (message) => ours.postMessage(message),
    on: events.on.bind(events),
    // Nothing ends what shares our thread; it hears the same as at a stop.
    terminate: () => ours.postMessage({ call: 'stop' }),
  };
};
