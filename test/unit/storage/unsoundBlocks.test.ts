import { describe, expect, it } from 'vitest';
import type { BlockEntry } from '../../../src/storage/index.js';
import { makeBlock, makeChain, seededCollection } from '../../support/storeBlocks.js';
import {
  begin,
  keyOf,
  repairAt,
  useStores,
  verifyAt,
  withRawDatabase,
} from '../../support/storeDirectory.js';
import { range } from '../../support/ranges.js';

/**
 * The store writes what it is given, once ids, links and order are right: that the bytes are those of the ids is proven
 * before. Verify proves it again, from the stored bytes alone.
 */

const chain = makeChain(1, [
  [seededCollection('a', 2)],
  [seededCollection('b', 1), seededCollection('c', 2)],
  [],
]);
const [first, second] = chain as [BlockEntry, BlockEntry];
const [b, c] = second.collections as [
  (typeof second.collections)[number],
  (typeof second.collections)[number],
];
/** A field that no message of ours has: number 15, value 1. */
const UNKNOWN_FIELD = Buffer.of(0x78, 0x01);

describe('verify of blocks whose bytes are not those of their ids', () => {
  const { filled, freshPath, open } = useStores();

  const withCollection = (changed: Partial<typeof c>): BlockEntry => ({
    block: second.block,
    collections: [b, { ...c, ...changed }],
  });
  const { block } = second;

  it.each([
    [
      'a block with a field that does not belong there',
      { ...second, block: { ...block, encoded: Buffer.concat([block.encoded, UNKNOWN_FIELD]) } },
      'block record of height 2: the block is not in canonical encoding',
    ],
    [
      'a collection with a field that does not belong there',
      withCollection({ encoded: Buffer.concat([c.encoded, UNKNOWN_FIELD]) }),
      'collection 1 of height 2: it is not in canonical encoding',
    ],
    [
      'a collection that is another one',
      withCollection({ encoded: seededCollection('d', 2).encoded }),
      'collection 1 of height 2: ',
    ],
    [
      'a collection that is no message',
      withCollection({ encoded: Buffer.of(0x0a, 0x7f) }),
      'collection 1 of height 2: ',
    ],
    [
      'a collection of another number of transactions',
      withCollection({ ranges: c.ranges.slice(0, 2) }),
      'block record of height 2: collection 1 has another number of transactions',
    ],
  ])('%s', async (_, entry, words) => {
    const path = await freshPath();
    await (await filled([first, entry, chain[2]!], path)).close();
    const { damages } = await verifyAt(path);
    expect(new Set(damages.map(({ height }) => height))).toEqual(new Set([2]));
    expect(damages.some(({ message }) => message.startsWith(words))).toBe(true);
    const repaired = await repairAt(path);
    expect(repaired).toMatchObject({ applied: true, holes: [{ from: 2, to: 2 }] });
    expect((await open(path)).coverage()).toEqual([range(1, 1), range(3, 3)]);
  });

  it('a body above the watermark whose block record is lost', async () => {
    const path = await freshPath();
    const store = await begin(open(path), 1);
    const stray = makeBlock(5, first.block.id, [seededCollection('e', 1)]);
    const top = makeBlock(7, first.block.id, []);
    await store.commit({ blocks: [first, stray, top], latestIndexedHeight: 1 });
    await store.close();
    await withRawDatabase(path, (database) => database.del(keyOf(0x10, 5)));
    const { damages } = await verifyAt(path);
    expect(damages.map(({ message }) => message)).toContain('body of height 5: it has no block record');
    expect(damages.map(({ kind }) => kind)).not.toContain('missing_block');
  });
});
