import { describe, expect, it } from 'vitest';
import {
  BlockCollectionIndexer,
  JobProcessor,
  MissingCollectionQueue,
} from '../../../src/collections/index.js';
import type { FinalizedBlock } from '../../../src/flow/index.js';
import { JobConsumer } from '../../../src/jobqueue/index.js';
import type { BlockJob } from '../../../src/jobqueue/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { seededRandom } from '../../../src/runtime/random.js';
import { MemoryIndexStore } from '../../support/memoryIndexStore.js';
import { block, collection, HandClock, settle, silent } from './meetingHarness.js';
import { windowOf } from '../../support/windowOf.js';

/** The whole line behind finality: the real job consumer, with the store's watermark as its progress. */
async function line(options: { head: number; windowHeights: number; namesAt: (height: number) => string[] }) {
  const { windowHeights, namesAt } = options;
  const store = await MemoryIndexStore.startingAt(1, { beforeCommit: settle });
  const clock = new HandClock();
  const metrics = createMetrics({ version: 'test', node: 'test' });
  const window = windowOf(store, { heights: windowHeights, head: () => options.head });
  const indexer = new BlockCollectionIndexer(
    { groupMaxHeights: 64, groupMaxBytes: 1e6 },
    { store, window, clock, metrics, logger: silent },
  );
  const mcq = new MissingCollectionQueue(window);
  let highestAsked = 0;
  const random = seededRandom(7);
  /** Answers each id once, after a few turns of the event loop, so that heights complete out of order. */
  const requests = {
    request: (height: number) => {
      highestAsked = Math.max(highestAsked, height - store.latestIndexedHeight());
      for (const each of mcq.missingIds(height)) {
        void (async () => {
          for (let turns = Math.floor(random.next() * 6); turns > 0; turns -= 1) await settle();
          processor.onCollection({
            collection: { ...collection(''), id: each },
            source: 'requester',
            receivedAtMs: 0,
          });
        })();
      }
    },
    cancel: () => undefined,
  };
  const fatal: unknown[] = [];
  const processor: JobProcessor = new JobProcessor({
    ...{ mcq, indexer, window, requests, clock, metrics, logger: silent },
    onFatal: (error) => fatal.push(error),
  });
  const consumer = new JobConsumer<BlockJob<FinalizedBlock>>(
    { maxProcessing: windowHeights, maxSearchAhead: windowHeights },
    {
      jobs: {
        head: () => options.head,
        atIndex: (height) => ({ id: String(height), height, block: block(height, namesAt(height)) }),
      },
      worker: processor,
      progress: { processedIndex: () => store.latestIndexedHeight() },
    },
  );
  return { store, consumer, mcq, window, fatal, highestAsked: () => highestAsked };
}

describe('from the job consumer to the store', () => {
  it('indexes a chain through a narrow window, with heights that complete out of order', async () => {
    const namesAt = (height: number): string[] =>
      Array.from({ length: height % 4 }, (_, index) => `c${height}.${index}`);
    const { store, consumer, mcq, window, fatal, highestAsked } = await line({
      head: 500,
      windowHeights: 16,
      namesAt,
    });
    await consumer.start();
    while (store.latestIndexedHeight() < 500 && fatal.length === 0) await settle();
    await consumer.stop();
    expect(fatal).toEqual([]);
    expect(consumer.processedIndex).toBe(500);
    expect(store.commits.flatMap((batch) => batch.blocks)).toHaveLength(500);
    expect(store.commits.length).toBeLessThan(500);
    expect(highestAsked()).toBeLessThanOrEqual(16);
    expect([mcq.size, window.bytesInHand]).toEqual([0, 0]);
  });
});
