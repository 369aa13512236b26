// Two queues in a row: the first measures words as they are appended, the second adds the measures up, in order.
// Run it from the repository with: npx tsx docs/examples/two-queue-pipeline.ts
// Outside of it, import from 'flow-collection-indexer/jobqueue'.
import { pathToFileURL } from 'node:url';
import {
  JobConsumer,
  MemoryEntries,
  MemoryProgress,
  PersistedJobs,
  runPipeline,
  WorkSignal,
} from '../../src/jobqueue/index.js';
import type { Job } from '../../src/jobqueue/index.js';

interface Word {
  readonly position: number;
  readonly text: string;
}
interface WordJob extends Job {
  readonly word: Word;
}
interface SumJob extends Job {
  readonly position: number;
  readonly letters: number;
}

export async function runTwoQueuePipeline(texts: readonly string[]) {
  const stop = new AbortController();
  const wakeMeasuring = new WorkSignal();
  const wakeAdding = new WorkSignal();

  // A producer appends; what it appended is there for the first queue under the indexes 1, 2, 3, …
  const words = new PersistedJobs<Word, WordJob>(
    {},
    {
      store: new MemoryEntries<Word>(),
      codec: { entryToJob: (word) => ({ id: String(word.position), word }), jobToEntry: (job) => job.word },
      wakes: wakeMeasuring,
    },
  );

  // The first queue works on three words at once; they may be finished in any order.
  const measures = new Map<number, number>();
  const measured = new MemoryProgress();
  const measuring = new JobConsumer<WordJob>(
    { maxProcessing: 3, maxSearchAhead: 10 },
    {
      jobs: words,
      progress: measured,
      wakeUp: wakeMeasuring,
      wakes: wakeAdding,
      worker: {
        run: async ({ word }, done) => {
          await Promise.resolve();
          measures.set(word.position, word.text.length);
          done();
        },
      },
    },
  );

  // The second queue reads what the first has stored. Its head is the first one's progress, so that it never meets a
  // gap; it works on one at a time, so that it adds up in order.
  let letters = 0;
  const added = new MemoryProgress();
  const adding = new JobConsumer<SumJob>(
    { maxProcessing: 1, maxSearchAhead: 0 },
    {
      jobs: {
        head: () => measured.processedIndex() ?? 0,
        atIndex: (index) => ({ id: String(index), position: index, letters: measures.get(index) ?? 0 }),
      },
      progress: added,
      wakeUp: wakeAdding,
      worker: {
        run: (job, done) => {
          letters += job.letters;
          done();
        },
      },
      hooks: {
        post: (_job, progress) => {
          if (progress === texts.length) stop.abort();
        },
      },
    },
  );

  const running = runPipeline([measuring, adding], stop.signal);
  for (const [offset, text] of texts.entries()) await words.append({ position: offset + 1, text });
  await running;
  return { words: [...measures].sort(([a], [b]) => a - b).map(([, length]) => length), letters };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { words, letters } = await runTwoQueuePipeline(['flow', 'of', 'blocks']);
  process.stdout.write(`${words.join(' + ')} = ${letters}\n`);
}
