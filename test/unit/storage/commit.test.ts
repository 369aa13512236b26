import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/runtime/index.js';
import type { Clock } from '../../../src/runtime/index.js';
import { chainWith, seededCollection } from '../../support/storeBlocks.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { begin, metaFrom, useStores } from '../../support/storeDirectory.js';

/** Ten blocks from height 100, every other one with a collection. */
const chain = chainWith(100, 10, (index) => (index % 2 === 0 ? [seededCollection(`c${index}`, 2)] : []));

describe('a batch', () => {
  const { open, freshPath } = useStores();

  it('of many large blocks lets others have their turn, one of a few small ones does not', async () => {
    let turns = 0;
    const counting: Clock = {
      now: () => systemClock.now(),
      monotonic: () => systemClock.monotonic(),
      setTimer: (delayMs, callback) => {
        // Others are the store's own pauses.
        if (delayMs === 0) turns += 1;
        return systemClock.setTimer(delayMs, callback);
      },
    };
    const store = await begin(open(await freshPath(), {}, new RecordingLogger(), counting), 1);
    const large = chainWith(1, 8, (index) => [seededCollection(`large ${index}`, 1, 100 * 1024)]);
    await store.commit({ blocks: large.slice(0, 1), latestIndexedHeight: 1 });
    expect(turns).toBe(0);
    await store.commit({ blocks: large.slice(1), latestIndexedHeight: 8 });
    expect(turns).toBe(3);
    for (const { block, collections } of large)
      expect(await store.collectionsByHeight(block.height)).toMatchObject(
        collections.map(({ id }) => ({ id })),
      );
  });
});

describe('the record of a spork', () => {
  const { open, freshPath } = useStores();

  it('gets its id and its parent in whichever order they become known, and keeps both', async () => {
    const root = { rootHeight: 100, rootParentId: chain[0]!.block.parentId };
    for (const [first, second] of [
      [
        { rootHeight: 100, sporkId: '' },
        { ...root, sporkId: 'bb' },
      ],
      [
        { ...root, sporkId: '' },
        { rootHeight: 100, sporkId: 'bb' },
      ],
      [
        { rootHeight: 100, sporkId: 'bb' },
        { ...root, sporkId: 'bb' },
      ],
    ] as const) {
      const path = await freshPath();
      const store = await open(path);
      await store.initialise({ ...metaFrom(100), sporks: [first] });
      await store.commit({ blocks: chain.slice(0, 1), latestIndexedHeight: 100, spork: second });
      await store.close();
      expect((await open(path)).meta()?.sporks).toEqual([{ ...root, sporkId: 'bb' }]);
    }
  });
});
