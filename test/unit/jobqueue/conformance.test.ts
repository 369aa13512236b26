import { expect, it } from 'vitest';
import { WorkSignal } from '../../../src/jobqueue/index.js';
import { Bench, range, settle, type BenchOptions } from './bench.js';

/** Written as in docs/jobqueue.md: `+n` appears, `n*` is done; `stop` and `check` are what they say. */
async function act(bench: Bench, steps: string): Promise<void> {
  for (const step of steps.split(' ')) {
    if (step.startsWith('+')) await bench.push(Number(step.slice(1)));
    else if (step.endsWith('*')) await bench.finish(Number(step.slice(0, -1)));
    else if (step === 'stop') void bench.consumer.stop();
    else if (step === 'check') await bench.check();
  }
}

const ahead5 = { maxSearchAhead: 5 };
const from2 = { stored: 2 };
const four = { stored: 2, maxProcessing: 4 };
const three = '+1 +2 +3 +4 3*';

type Case = [name: string, steps: string, called: number[], progress: number, options?: BenchOptions];

// Numbered, so that a case can be named.
const cases: readonly Case[] = [
  ['1: start, no jobs', '', [], 0],
  ['2: start with stored 5, no jobs', '', [], 5, { stored: 5 }],
  ['3: one job', '+1', [1], 0],
  ['4: one job, done', '+1 1*', [1], 1],
  ['5: two jobs, done in order', '+1 +2 1* 2*', [1, 2], 2],
  ['6: no more than maxProcessing run', '+1 +2 +3 +4', [1, 2, 3], 0],
  ['7a: maxSearchAhead 5 holds job 6 back while job 1 is open', '+5 2* 3* 4* 5* +6', range(1, 5), 0, ahead5],
  ['7b: job 1 closes the gap and the window slides', '+5 2* 3* 4* 5* +6 +7 1*', range(1, 7), 5, ahead5],
  ['11: a new job takes the free slot, and the next one waits', `${three} 2* +5 +6`, range(1, 5), 0],
  ['12: progress passes all that was done above the gap', `${three} 2* +5 1*`, range(1, 5), 3],
  ['14: four jobs, done in another order', '+1 +2 +3 +4 3* 4* 1* 2*', range(1, 4), 4],
  ['15: after stop a running job still moves progress', '+1 +2 +3 +4 stop 1*', range(1, 3), 1],
  [
    '17: 3 and 5 running, 4 and 6..11 done: takes only 12',
    '+11 4* 6* 7* 8* 9* 10* 11* +12 +13',
    range(3, 12),
    2,
    from2,
  ],
  // Three slots cannot come into this state, for 7 starts only when one of them is free; four can.
  [
    '18: 3, 5 and 6 running, the others to 12 done: takes no more than one',
    '+12 4* 7* 8* 9* 10* 11* 12* check +13 +14',
    range(3, 13),
    2,
    four,
  ],
  ['19a: the search bound counts from progress', '+20 4* 6* 7*', range(3, 7), 2, { ...four, ...ahead5 }],
  ['19b: in the same pass', '+20 4* 6* 7* 3*', range(3, 9), 4, { ...four, ...ahead5 }],
  ['19c: however far that is', '+20 4* 6* 7* 3* 5*', range(3, 11), 7, { ...four, ...ahead5 }],
  ['21: 3 and 5 done, 4 and 6 running: takes 7', '+8 5* 3*', range(3, 7), 3, from2],
  ['22: may begin at index 0', '+10 0*', [0, 1, 2], 0, { defaultIndex: -1, maxSearchAhead: 2 }],
  ['23: a stored progress wins over the default', '+101', [101], 100, { stored: 100, defaultIndex: 10 }],
  ['24: without one the default is where it begins', '+12 11*', [11, 12], 11, { defaultIndex: 10 }],
  ['25: with maxProcessing 1 strictly one at a time', '+20 1* 2*', range(1, 3), 2, { maxProcessing: 1 }],
];

it.each<Case>(cases)('%s', async (_, steps, called, progress, options) => {
  const bench = await new Bench(options).start();
  await act(bench, steps);
  expect(bench.called).toEqual(called);
  expect(bench.P).toBe(progress);
});

it('26: signals before ready cause no check before start has finished, and exactly one after', async () => {
  const wakeUp = new WorkSignal();
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const bench = new Bench({ wakeUp, progress: { processedIndex: () => gate.then(() => 0) } });
  const stop = new AbortController();
  const ended = bench.consumer.run(stop.signal);
  for (let i = 0; i < 5; i += 1) wakeUp.notify();
  await settle();
  expect(bench.headReads).toBe(0);
  release();
  await bench.consumer.ready;
  expect(bench.headReads).toBe(1);
  await settle();
  expect(bench.headReads).toBe(2);
  stop.abort();
  await ended;
});

it('27: the runner rejects with it, without waiting for the jobs that hang', async () => {
  const work = ({ index }: { readonly index: number }): Promise<void> =>
    index === 2 ? Promise.reject(new Error('boom')) : new Promise(() => undefined);
  const bench = new Bench({ work });
  bench.available = 2;
  await expect(bench.consumer.run(new AbortController().signal)).rejects.toThrow('boom');
});
