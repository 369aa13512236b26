import { describe, expect, it } from 'vitest';
import { BlockCollectionIndexer } from '../../../src/collections/index.js';
import { sha3, toIdentifier, type Identifier } from '../../../src/flow/index.js';
import { createMetrics, silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { ParentLinkError, type RangeStore } from '../../../src/storage/index.js';
import { chainWith, makeBlock, metaFrom, storeKinds, windowOf } from '../../support/index.js';

const FIRST = 100;
const ROOT = 110;
/** The root names a block that the spork before discarded. */
const discarded = toIdentifier(sha3(Buffer.from('discarded')));
const lower = chainWith(FIRST, ROOT - FIRST, () => []);
const root = makeBlock(ROOT, discarded, []);
const upper = [root, makeBlock(ROOT + 1, root.block.id, [])];
const range = { from: FIRST, to: ROOT - 1 };
const metrics = createMetrics({ version: 'test', node: 'test' });
/** Writes the whole range, as its line does. */
const fill = (run: RangeStore, inTable?: Identifier) => {
  const rootParentAt = (height: number) => (height === ROOT ? inTable : undefined);
  const common = { clock: systemClock, logger: silentLogger, metrics };
  const indexer = new BlockCollectionIndexer(
    { groupMaxHeights: 4, groupMaxBytes: 1e6 },
    { ...common, store: run, window: windowOf(run, { heights: 100 }), rootParentAt },
  );
  return Promise.all(lower.map(({ block }) => indexer.onReceivedCollectionsForBlock(block, [])));
};

describe.each(storeKinds)('a range below an unconfirmed root, on $name', ({ use }) => {
  const newHome = use();

  it.each([
    ['with the spork on record', [{ rootHeight: ROOT, sporkId: '02' }]],
    ['without', []],
  ])('is published once the table confirms it, %s', async (_, sporks) => {
    const home = await newHome();
    const store = await home.open();
    await store.initialise({ ...metaFrom(ROOT), sporks });
    await store.commit({ blocks: upper, latestIndexedHeight: ROOT + 1 });
    for (const inTable of [undefined, toIdentifier(Buffer.alloc(32, 0xbb))]) {
      await expect(fill(await store.ranges.run(range), inTable)).rejects.toThrow(ParentLinkError);
      await store.ranges.change({ dropped: [range] });
    }
    await fill(await store.ranges.run(range), discarded);
    expect(store.coverage()).toEqual([{ from: FIRST, to: ROOT + 1 }]);
    expect(store.meta()?.sporks.at(-1)).toMatchObject({ rootHeight: ROOT, rootParentId: discarded });
  });
});
