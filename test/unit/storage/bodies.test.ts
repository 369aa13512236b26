import { describe, expect, it } from 'vitest';
import {
  makeChain,
  makeCollection,
  makeTransaction,
  seededCollection,
  transactionIdsOf,
  transactionsOf,
} from '../../support/storeBlocks.js';
import { useStores } from '../../support/storeDirectory.js';

const KIB = 1024;

/** What holds for LevelDB alone; what every store promises is in test/support/storeSuite/commits.ts. */
describe('the bodies of a block in LevelDB', () => {
  const { filled } = useStores();

  it.each([
    ['just below the bound of one value', 250],
    ['cut into chunks', 257],
    ['many chunks', 1500],
  ])('serves bodies of any size: %s', async (_, sizeKib) => {
    const collections = [
      seededCollection('before', 2),
      makeCollection([makeTransaction('big', sizeKib * KIB), makeTransaction('small')]),
      seededCollection('after', 2),
    ];
    const store = await filled(makeChain(5, [collections]));
    for (const collection of collections) {
      expect(Buffer.compare((await store.collection(collection.id))!.encoded, collection.encoded)).toBe(0);
      for (const [index, id] of transactionIdsOf(collection).entries()) {
        const { encoded } = (await store.transaction(id))!;
        expect(Buffer.compare(encoded, transactionsOf(collection)[index]!)).toBe(0);
      }
    }
    const all = await store.collectionsByHeight(5);
    const body = Buffer.concat(collections.map(({ encoded }) => encoded));
    expect(Buffer.concat(all!.map(({ encoded }) => encoded)).equals(body)).toBe(true);
  });

  it('hands out transactions that pin no larger buffer', async () => {
    const collection = seededCollection('a', 50, 4 * KIB);
    const store = await filled(makeChain(1, [[collection]]));
    const { encoded } = (await store.transaction(transactionIdsOf(collection)[0]!))!;
    expect(encoded.buffer.byteLength).toBeLessThanOrEqual(Math.max(encoded.length, Buffer.poolSize));
  });
});
