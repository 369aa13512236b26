import { describe, expect, it } from 'vitest';
import { parseIdentifier, ZERO_ID } from '../../../src/flow/index.js';
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

describe('what is committed can be read', () => {
  const { filled, open, freshPath } = useStores();

  it('gives back a block by height and by id, with its canonical bytes and counts', async () => {
    const chain = makeChain(100, [[], [seededCollection('a', 2), seededCollection('b', 3)]]);
    const store = await filled(chain);
    const expected = { block: chain[1]!.block, transactionCounts: [2, 3] };
    expect(await store.blockByHeight(101)).toEqual(expected);
    expect(await store.blockById(chain[1]!.block.id)).toEqual(expected);
    expect(await store.blockByHeight(100)).toEqual({ block: chain[0]!.block, transactionCounts: [] });
  });

  it('serves a collection in its wire form', async () => {
    const collection = seededCollection('a', 3);
    const chain = makeChain(7, [[seededCollection('z', 1), collection]]);
    const store = await filled(chain);
    expect(await store.collection(collection.id)).toEqual({
      id: collection.id,
      place: { height: 7, collectionIndex: 1 },
      blockId: chain[0]!.block.id,
      encoded: collection.encoded,
    });
    const all = await store.collectionsByHeight(7);
    expect(all?.map(({ id }) => id)).toEqual(chain[0]!.block.collectionIds);
    expect(all?.[1]?.encoded).toEqual(collection.encoded);
  });

  it('serves a transaction as its wire bytes, with its place', async () => {
    const collection = seededCollection('a', 3);
    const chain = makeChain(7, [[seededCollection('z', 1), collection]]);
    const store = await filled(chain);
    const id = transactionIdsOf(collection)[2]!;
    expect(await store.transaction(id)).toEqual({
      id,
      place: { height: 7, collectionIndex: 1, transactionIndex: 2 },
      blockId: chain[0]!.block.id,
      collectionId: collection.id,
      encoded: Buffer.from(transactionsOf(collection)[2]!),
    });
  });

  it('knows a block of no collections, and a collection of no transactions', async () => {
    const empty = makeCollection([]);
    const store = await filled(makeChain(0, [[], [empty]]));
    expect(await store.collectionsByHeight(0)).toEqual([]);
    expect((await store.collection(empty.id))?.encoded).toHaveLength(0);
    expect((await store.blockByHeight(1))?.transactionCounts).toEqual([0]);
  });

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

  it('answers nothing for what it does not hold', async () => {
    const store = await filled(makeChain(100, [[seededCollection('a', 1)]]));
    const unknown = parseIdentifier('ab'.repeat(32))!;
    for (const height of [99, 101, -1, 0.5, Number.NaN, 2 ** 60]) {
      expect(await store.blockByHeight(height)).toBeUndefined();
      expect(await store.collectionsByHeight(height)).toBeUndefined();
    }
    expect(await store.blockById(ZERO_ID)).toBeUndefined();
    expect(await store.collection(unknown)).toBeUndefined();
    expect(await store.transaction(unknown)).toBeUndefined();
    expect(await store.collectionPlaces(unknown, 10)).toEqual([]);
    expect(await store.transactionPlaces(unknown, 10)).toEqual([]);
  });

  it('reads nothing of a store that was never initialised', async () => {
    const store = await open(await freshPath());
    expect(store.meta()).toBeUndefined();
    expect(store.latestIndexedHeight()).toBe(0);
    expect(store.latestBlock()).toBeUndefined();
    expect(store.hasHeight(0)).toBe(false);
    expect(await store.blockByHeight(0)).toBeUndefined();
    expect(await store.transaction(ZERO_ID)).toBeUndefined();
  });

  it('hands out transactions that pin no larger buffer', async () => {
    const collection = seededCollection('a', 50, 4 * KIB);
    const store = await filled(makeChain(1, [[collection]]));
    const { encoded } = (await store.transaction(transactionIdsOf(collection)[0]!))!;
    expect(encoded.buffer.byteLength).toBeLessThanOrEqual(Math.max(encoded.length, Buffer.poolSize));
  });
});

describe('repeated ids', () => {
  const { filled } = useStores();

  it('keeps all positions and answers with the lowest', async () => {
    const shared = makeTransaction('shared');
    const sharedId = transactionIdsOf(makeCollection([shared]))[0]!;
    const twice = makeCollection([makeTransaction('x'), shared, shared]);
    const once = makeCollection([shared]);
    const chain = makeChain(10, [[seededCollection('a', 1)], [twice, once, twice], [], [once]]);
    const store = await filled(chain);
    expect(await store.transactionPlaces(sharedId, 100)).toEqual([
      { height: 11, collectionIndex: 0, transactionIndex: 1 },
      { height: 11, collectionIndex: 0, transactionIndex: 2 },
      { height: 11, collectionIndex: 1, transactionIndex: 0 },
      { height: 11, collectionIndex: 2, transactionIndex: 1 },
      { height: 11, collectionIndex: 2, transactionIndex: 2 },
      { height: 13, collectionIndex: 0, transactionIndex: 0 },
    ]);
    expect(await store.transactionPlaces(sharedId, 2)).toHaveLength(2);
    expect(await store.collectionPlaces(twice.id, 100)).toEqual([
      { height: 11, collectionIndex: 0 },
      { height: 11, collectionIndex: 2 },
    ]);
    expect(await store.collectionPlaces(once.id, 100)).toEqual([
      { height: 11, collectionIndex: 1 },
      { height: 13, collectionIndex: 0 },
    ]);
    expect((await store.transaction(sharedId))?.place).toEqual({
      height: 11,
      collectionIndex: 0,
      transactionIndex: 1,
    });
    expect((await store.transaction(sharedId))?.collectionId).toBe(twice.id);
    expect((await store.collection(once.id))?.place).toEqual({ height: 11, collectionIndex: 1 });
  });
});
