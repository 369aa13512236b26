import { expect, it } from 'vitest';
import { WorkSignal } from '../../../src/jobqueue/index.js';
import { settle } from './bench.js';

it('causes exactly one more pass for a notify that comes during a pass', async () => {
  const signal = new WorkSignal();
  const stop = new AbortController();
  let passes = 0;
  const worker = (async () => {
    for (;;) {
      await signal.wait(stop.signal);
      passes += 1;
      if (passes === 1) {
        signal.notify();
        signal.notify();
        await settle();
        signal.notify();
      }
    }
  })();
  signal.notify();
  for (let i = 0; i < 10; i += 1) await settle();
  expect(passes).toBe(2);
  stop.abort();
  await expect(worker).rejects.toThrow();
});

it('rejects at once with an aborted signal, and keeps the wake-up', async () => {
  const signal = new WorkSignal();
  signal.notify();
  await expect(signal.wait(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  await signal.wait();
});

it('serves one waiter at a time', async () => {
  const signal = new WorkSignal();
  const first = signal.wait();
  expect(() => signal.wait()).toThrow('it already has one');
  signal.notify();
  await first;
});
