import { describe, expect, it } from 'vitest';
import { WorkSignal } from '../../../src/jobqueue/index.js';
import { Bench, range, settle } from './bench.js';
import type { BenchOptions } from './bench.js';

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
const four = { stored: 2, maxProcessing: 4 };

type Case = [name: string, steps: string, called: number[], progress: number, options?: BenchOptions];

const cases: readonly Case[] = [
  ['2: start with stored 5, no jobs', '', [], 5, { stored: 5 }],
  ['6: no more than maxProcessing run', '+1 +2 +3 +4', [1, 2, 3], 0],
  ['7a: maxSearchAhead 5 holds job 6 back while job 1 is open', '+5 2* 3* 4* 5* +6', range(1, 5), 0, ahead5],
  ['7b: job 1 closes the gap and the window slides', '+5 2* 3* 4* 5* +6 +7 1*', range(1, 7), 5, ahead5],
  ['14: four jobs, done in another order', '+1 +2 +3 +4 3* 4* 1* 2*', range(1, 4), 4],
  ['15: after stop a running job still moves progress', '+1 +2 +3 +4 stop 1*', range(1, 3), 1],
  // Three slots cannot come into this state, for 7 starts only when one of them is free; four can.
  [
    '18: 3, 5 and 6 running, the others to 12 done: takes no more than one',
    '+12 4* 7* 8* 9* 10* 11* 12* check +13 +14',
    range(3, 13),
    2,
    four,
  ],
  [
    '19: the search bound counts from progress, however far that moves in a pass',
    '+20 4* 6* 7* 3* 5*',
    range(3, 11),
    7,
    { ...four, ...ahead5 },
  ],
  ['25: with maxProcessing 1 strictly one at a time', '+20 1* 2*', range(1, 3), 2, { maxProcessing: 1 }],
];

describe('conformance of the job queue', () => {
  it.each<Case>(cases)('%s', async (_, steps, called, progress, options) => {
    const bench = await new Bench(options).start();
    await act(bench, steps);
    expect(bench.called).toEqual(called);
    expect(bench.P).toBe(progress);
  });

  it('23: a check before start does nothing, and a stored progress wins over the default', async () => {
    const bench = new Bench({ stored: 100, defaultIndex: 10 });
    bench.available = 101;
    await bench.check();
    expect([bench.headReads, bench.called, bench.P]).toEqual([0, [], 100]);
    await bench.start();
    expect(bench.called).toEqual([101]);
    const empty = new Bench({ defaultIndex: 10 });
    empty.available = 12;
    await empty.start();
    expect([empty.called, empty.progress.processedIndex()]).toEqual([[11, 12], undefined]);
    await empty.finish(11);
    expect(empty.P).toBe(11);
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
    const bench = new Bench({
      wakeUp: new WorkSignal(),
      work: async ({ index }) => {
        if (index === 2) throw new Error('boom');
        await new Promise(() => undefined);
      },
    });
    bench.available = 2;
    await expect(bench.consumer.run(new AbortController().signal)).rejects.toThrow('boom');
  });
});
