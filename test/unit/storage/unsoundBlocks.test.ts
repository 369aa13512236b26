import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observability/index.js';
import { repairStore, verifyStore } from '../../../src/storage/index.js';
import type { BlockEntry } from '../../../src/storage/index.js';
import { makeBlock, makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom, TEST_CHAIN, useStores, withRawDatabase } from '../../support/storeDirectory.js';

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

  const saidOf = async (entry: BlockEntry): Promise<string[]> => {
    const path = await freshPath();
    await (await filled([first, entry, chain[2]!], path)).close();
    const { damages } = await verifyStore({ path, chainId: TEST_CHAIN }, { logger: silentLogger });
    for (const { height } of damages) expect(height).toBe(2);
    const repaired = await repairStore({ path, chainId: TEST_CHAIN, apply: true }, { logger: silentLogger });
    expect(repaired).toMatchObject({ applied: true, holes: [{ from: 2, to: 2 }] });
    const store = await open(path);
    expect(store.coverage()).toEqual([
      { from: 1, to: 1 },
      { from: 3, to: 3 },
    ]);
    return damages.map(({ message }) => message);
  };
  const withCollection = (changed: Partial<typeof c>): BlockEntry => ({
    block: second.block,
    collections: [b, { ...c, ...changed }],
  });

  it('a block with a field that does not belong there', async () => {
    const encoded = Buffer.concat([second.block.encoded, UNKNOWN_FIELD]);
    expect(await saidOf({ ...second, block: { ...second.block, encoded } })).toContain(
      'block record of height 2: the block is not in canonical encoding',
    );
  });

  it('a collection with a field that does not belong there', async () => {
    const encoded = Buffer.concat([c.encoded, UNKNOWN_FIELD]);
    expect(await saidOf(withCollection({ encoded }))).toContain(
      'collection 1 of height 2: it is not in canonical encoding',
    );
  });

  it('a collection that is another one', async () => {
    const said = await saidOf(withCollection({ encoded: seededCollection('d', 2).encoded }));
    expect(said).toContainEqual(expect.stringMatching(/^collection 1 of height 2: /));
  });

  it('a collection that is no message', async () => {
    const said = await saidOf(withCollection({ encoded: Buffer.of(0x0a, 0x7f) }));
    expect(said).toContainEqual(expect.stringMatching(/^collection 1 of height 2: /));
  });

  it('a collection of another number of transactions', async () => {
    expect(await saidOf(withCollection({ ranges: c.ranges.slice(0, 2) }))).toContain(
      'block record of height 2: collection 1 has another number of transactions',
    );
  });

  it('a body above the watermark whose block record is lost', async () => {
    const path = await freshPath();
    const store = await open(path);
    await store.initialise(metaFrom(1));
    const stray = makeBlock(5, first.block.id, [seededCollection('e', 1)]);
    const top = makeBlock(7, first.block.id, []);
    await store.commit({ blocks: [first, stray, top], latestIndexedHeight: 1 });
    await store.close();
    await withRawDatabase(path, (database) => database.del(Buffer.from('100000000000000005', 'hex')));
    const { damages } = await verifyStore({ path, chainId: TEST_CHAIN }, { logger: silentLogger });
    expect(damages.map(({ message }) => message)).toContain('body of height 5: it has no block record');
    expect(damages.map(({ kind }) => kind)).not.toContain('missing_block');
  });
});
