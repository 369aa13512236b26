import { describe, expect, it } from 'vitest';
import { JobNotReadableError, MemoryProgress } from '../../../src/jobqueue/index.js';
import { Bench, jobAt, range, settle, type BenchOptions } from './bench.js';

it.each([
  [{ maxProcessing: 0 }, 'maxProcessing'],
  [{ maxProcessing: 1.5 }, 'maxProcessing'],
  [{ maxSearchAhead: -1 }, 'maxSearchAhead'],
  [{ defaultIndex: -2 }, 'defaultIndex'],
  [{ defaultIndex: 0.5 }, 'defaultIndex'],
])('refuses %j', (options, name) => {
  expect(() => new Bench(options)).toThrow(name);
});

it('ignores a job that is done twice, and one it does not know', async () => {
  const posts: string[] = [];
  const post = ({ index }: { readonly index: number }, progress: number): void =>
    void posts.push(`${index} at ${progress}`);
  const bench = await new Bench({ hooks: { post } }).start();
  await bench.push(1, 2, 3, 4);
  await bench.finish(2, 2);
  expect(bench.consumer.notifyJobIsDone('2')).toBe(false);
  await settle();
  expect(bench.called).toEqual([1, 2, 3, 4]);
  await bench.finish(1, 1);
  expect(bench.P).toBe(2);
  expect(posts).toEqual(['2 at 0', '1 at 2']);
  expect([7, 3].map((id) => bench.consumer.notifyJobIsDone(String(id)))).toEqual([false, true]);
  await settle();
  expect(bench.P).toBe(3);
});

it('rejects start when progress cannot be read', async () => {
  const processedIndex = () => Promise.reject(new Error('unreadable'));
  const { called, consumer } = new Bench({ progress: { processedIndex } });
  for (const end of [consumer.start(), consumer.ready, consumer.done])
    await expect(end).rejects.toThrow('unreadable');
  await consumer.stop();
  expect(called).toEqual([]);
});

it('asks once for each job that it has room for, and needs memory by what runs, however far the head is', async () => {
  const bench = await new Bench({ maxProcessing: 4, maxSearchAhead: 8 }).start();
  await bench.push(100_000_000);
  expect(bench.consumer.size()).toBe(4);
  for (let index = 1; index <= 500; index += 1) await bench.finish(index);
  expect(bench.P).toBe(500);
  expect(bench.asked).toEqual(range(1, 504));
  const short = await new Bench({ maxProcessing: 4 }).start();
  await short.push(2);
  expect(short.asked).toEqual([1, 2]);
});

const boom = (): never => {
  throw new Error('boom');
};
const unwritable = (): MemoryProgress =>
  Object.assign(new MemoryProgress(), { setProcessedIndex: () => boom() });
const atTwo = (job: { readonly index: number }, fails: () => undefined): undefined =>
  job.index === 2 ? fails() : undefined;

it.each<[string, progress: number, hooks: readonly string[], BenchOptions]>([
  ['a worker inside its call', 0, [], { work: (job) => atTwo(job, boom) }],
  ['the promise of a worker', 0, [], { work: async (job) => atTwo(job, boom) }],
  ['the hook before progress moves', 0, [], { hooks: { pre: boom } }],
  ['the hook after it has moved', 1, ['pre 1'], { hooks: { post: boom } }],
  ['the write of progress', 0, ['pre 1'], { progress: unwritable() }],
  ['the read of a job', 1, ['pre 1', 'post 1'], { read: (index) => (index === 3 ? boom() : jobAt(index)) }],
])('an unknown error of %s reaches the owner, and nothing goes on', async (_, progress, hooks, options) => {
  const told: string[] = [];
  const bench = await new Bench({
    maxProcessing: 2,
    ...options,
    hooks: {
      pre: ({ index }) => void told.push(`pre ${index}`),
      post: ({ index }) => void told.push(`post ${index}`),
      ...options.hooks,
    },
  }).start();
  const owner = expect(bench.consumer.done).rejects.toThrow('boom');
  await bench.push(1, 2, 3);
  await bench.finish(1);
  await owner;
  await bench.push(4);
  expect(bench.called).toEqual([1, 2]);
  const stopped = bench.consumer.stop();
  await bench.finish(2);
  await stopped;
  expect(told).toEqual(hooks);
  expect(bench.P).toBe(progress);
});

it('with a progress that its owner moves: forgets a job that is done after progress has passed it, follows it over indexes that it never handed out, and ends when it goes down', async () => {
  const progress = { index: 100, processedIndex: () => progress.index };
  const bench = new Bench({ progress, maxSearchAhead: 3 });
  bench.available = 200;
  await bench.start();
  progress.index = 102;
  await bench.check();
  expect(bench.called).toEqual([101, 102, 103]);
  await bench.finish(101, 102);
  expect(bench.called).toEqual([101, 102, 103, 104, 105]);
  expect(bench.consumer.size()).toBe(3);
  progress.index = 150;
  await bench.finish(103, 104, 105);
  expect(bench.called.slice(5)).toEqual([151, 152, 153]);
  expect(bench.consumer.size()).toBe(3);
  const owner = expect(bench.consumer.done).rejects.toThrow('progress went down from 150 to 149');
  progress.index = 149;
  await bench.check();
  await owner;
});

it('stop: before start is the end, as it may be started once', async () => {
  const { consumer } = await new Bench().start();
  await expect(consumer.start()).rejects.toThrow('started before');
  const bench = new Bench();
  await bench.consumer.stop();
  await bench.consumer.done;
  await expect(bench.start()).rejects.toThrow('stopped before');
  expect(bench.headReads).toBe(0);
});

it('stop: does not wait at all with a patience that is over, and takes no answer afterwards', async () => {
  const bench = await new Bench().start();
  await bench.push(1);
  await bench.consumer.stop(AbortSignal.abort());
  expect(bench.consumer.notifyJobIsDone('1')).toBe(false);
  await bench.check();
  expect(bench.P).toBe(0);
});

it('stop: takes a worker for returned that cancels its job, and its abort for no error', async () => {
  const cancel = new AbortController();
  const bench = await new Bench({
    work: () =>
      new Promise((_, reject) => {
        cancel.signal.addEventListener('abort', () => reject(cancel.signal.reason as Error));
      }),
  }).start();
  await bench.push(1, 2);
  const stopped = bench.consumer.stop();
  cancel.abort();
  await stopped;
  await bench.consumer.done;
  expect(bench.P).toBe(0);
});

describe('is immune to the six faults', () => {
  it('1: a check that arrives as a pass reaches its end causes another pass', async () => {
    // The check comes in each of the microtasks around the end of the pass, one distance per round.
    for (let distance = 0; distance < 12; distance += 1) {
      const bench = await new Bench().start();
      bench.consumer.check();
      for (let i = 0; i < distance; i += 1) await Promise.resolve();
      bench.available = 1;
      bench.consumer.check();
      await settle();
      expect(bench.called).toEqual([1]);
    }
  });

  it('3: a job that cannot be read just now holds back neither progress nor the jobs below it', async () => {
    const notReadable: number[] = [];
    let readable = false;
    const bench = await new Bench({
      maxProcessing: 5,
      read: (index) => {
        if (index === 3 && !readable) throw new JobNotReadableError('later');
        return jobAt(index);
      },
      hooks: { notReadable: (index) => void notReadable.push(index) },
    }).start();
    await bench.push(5);
    expect(bench.called).toEqual([1, 2]);
    expect(notReadable).toEqual([3]);
    await bench.finish(1, 2);
    expect(bench.P).toBe(2);
    readable = true;
    await bench.check();
    expect(bench.called).toEqual([1, 2, 3, 4, 5]);
  });

  it('4: stop waits for the promise that the worker returned', async () => {
    const ends: (() => void)[] = [];
    const bench = await new Bench({
      work: (_, done) => new Promise<void>((resolve) => ends.push(resolve)).then(done),
    }).start();
    await bench.push(1, 2);
    let stopped = false;
    const stopping = bench.consumer.stop().then(() => (stopped = true));
    for (const end of ends) {
      await settle();
      expect(stopped).toBe(false);
      end();
    }
    await stopping;
    expect(bench.P).toBe(2);
  });

  it('6: done may be called from anywhere: nothing runs inside it', async () => {
    const log: string[] = [];
    const bench = await new Bench({
      maxProcessing: 1,
      work: (job, done) => {
        log.push(`begin ${job.index}`);
        done();
        log.push(`end ${job.index}`);
      },
      hooks: { post: (job) => void log.push(`post ${job.index}`) },
    }).start();
    await bench.push(2);
    expect(log).toEqual(['begin 1', 'end 1', 'post 1', 'begin 2', 'end 2', 'post 2']);
  });
});
