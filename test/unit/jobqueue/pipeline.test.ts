import { describe, expect, it } from 'vitest';
import { blockToJob, JobNotReadableError, jobToBlock, MemoryEntries } from '../../../src/jobqueue/index.js';
import { PersistedJobs, runPipeline, WorkSignal } from '../../../src/jobqueue/index.js';
import type { EntryStore, Job, JobHooks, PipelineStage } from '../../../src/jobqueue/index.js';
import { runTwoQueuePipeline } from '../../../docs/examples/two-queue-pipeline.js';
import { Bench, jobAt, range, settle } from './bench.js';

interface Block {
  readonly height: number;
  readonly word: string;
}
const block = (height: number): Block => ({ height, word: `w${height}` });

const codec = { entryToJob: blockToJob<Block>, jobToEntry: jobToBlock<Block> };

it('PersistedJobs gives entries consecutive indexes from the default one on, and reads them back as jobs', async () => {
  const store = new MemoryEntries<Block>();
  expect(await new PersistedJobs({}, { store, codec }).head()).toBe(0);
  const jobs = new PersistedJobs({ defaultIndex: 99 }, { store, codec });
  expect(await jobs.head()).toBe(99);
  const blocks = range(10, 14).map(block);
  expect(await Promise.all(blocks.map((each) => jobs.append(each)))).toEqual(range(100, 104));
  expect(await jobs.head()).toBe(104);
  const job = await jobs.atIndex(101);
  expect(job).toEqual({ id: '11', height: 11, block: blocks[1] });
  expect(jobToBlock(job!)).toBe(blocks[1]);
  expect(await jobs.atIndex(105)).toBeUndefined();
  // Where its store ends, whatever the default is.
  expect(await new PersistedJobs({ defaultIndex: 5 }, { store, codec }).append(block(2))).toBe(105);
});

it('PersistedJobs gives the index of an append that failed to the next, and wakes only for what is durable', async () => {
  const memory = new MemoryEntries<Block>();
  let fail = true;
  const store: EntryStore<Block> = {
    latestIndex: () => memory.latestIndex(),
    read: (index) => memory.read(index),
    append: async (index, entry) => {
      if (fail) throw new Error('disk full');
      memory.append(index, entry);
    },
  };
  let woken = 0;
  const wakes = { notify: () => void (woken += 1) };
  const jobs = new PersistedJobs({}, { store, codec, wakes });
  await expect(jobs.append(block(1))).rejects.toThrow('disk full');
  expect(woken).toBe(0);
  fail = false;
  expect(await jobs.append(block(2))).toBe(1);
  expect(woken).toBe(1);
});

describe('JobConsumer, run', () => {
  it('does nothing when it is told to stop before it runs, runs without a wake-up what it is told of, and waits for its jobs when it is stopped, no longer than it is given', async () => {
    const none = new Bench({ wakeUp: new WorkSignal() });
    await none.consumer.run(AbortSignal.abort());
    expect(none.headReads).toBe(0);
    const bench = new Bench();
    bench.available = 1;
    const [stop, enough] = [new AbortController(), new AbortController()];
    let ended = false;
    const running = bench.consumer.run(stop.signal, enough.signal).then(() => (ended = true));
    await bench.consumer.ready;
    await bench.push(2);
    stop.abort();
    await settle();
    expect([ended, bench.consumer.running]).toEqual([false, 2]);
    enough.abort();
    await running;
    expect(bench.P).toBe(0);
  });

  it('calls the hooks of its owner as its methods, and wakes the queue behind it after them', async () => {
    class Diary implements JobHooks<Job> {
      readonly lines: string[] = [];
      pre({ id }: Job, progress: number): void {
        this.lines.push(`pre ${id} at ${progress}`);
      }
      async post({ id }: Job, progress: number): Promise<void> {
        await settle();
        this.lines.push(`post ${id} at ${progress}`);
      }
      notReadable(index: number, { message }: JobNotReadableError): void {
        this.lines.push(`${index} ${message}`);
      }
    }
    const hooks = new Diary();
    const bench = new Bench({
      ...{ maxProcessing: 1, hooks, wakes: { notify: () => void hooks.lines.push('wakes') } },
      read: (index) => {
        if (index === 3) throw new JobNotReadableError('is busy');
        return jobAt(index);
      },
      work: (_, done) => done(),
    });
    bench.available = 3;
    const stop = new AbortController();
    const ended = bench.consumer.run(stop.signal);
    await bench.consumer.ready;
    stop.abort();
    await ended;
    expect(hooks.lines).toContain('3 is busy');
    expect(hooks.lines.filter((line) => line !== '3 is busy')).toEqual([
      ...['pre 1 at 1', 'post 1 at 1', 'wakes'],
      ...['pre 2 at 2', 'post 2 at 2', 'wakes'],
    ]);
    const { processedIndex, running } = bench.consumer;
    expect([processedIndex, running, bench.consumer.size()]).toEqual([2, 0, 0]);
    expect(bench.consumer.notifyJobIsDone('1')).toBe(false);
  });

  it('passes on what its wake-up throws', async () => {
    const { consumer } = new Bench({ wakeUp: { wait: () => Promise.reject(new Error('broken bell')) } });
    await expect(consumer.run(new AbortController().signal)).rejects.toThrow('broken bell');
  });
});

/** A stage that notes when it is told to stop, and then takes its time. */
function stage(name: string, log: string[]): PipelineStage {
  return {
    run: async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      log.push(`${name} stops`);
      await settle();
      log.push(`${name} stopped`);
    },
  };
}

it('runPipeline stops the others when one fails, one after the other, and rejects with its error', async () => {
  const log: string[] = [];
  const broken: PipelineStage = { run: () => Promise.reject(new Error('broken')) };
  const ended = runPipeline([stage('a', log), broken, stage('c', log)], new AbortController().signal);
  await expect(ended).rejects.toThrow('broken');
  expect(log).toEqual(['a stops', 'a stopped', 'c stops', 'c stopped']);
});

it('the example of the guide runs', async () => {
  const { words, letters } = await runTwoQueuePipeline(['flow', 'of', 'blocks']);
  expect(words).toEqual([4, 2, 6]);
  expect(letters).toBe(12);
});
