import { describe, expect, it } from 'vitest';
import { ApiError, lookupDocument, proofDocument } from '../../../src/api/index.js';
import { MAX_PLACES } from '../../../src/api/documents/lookupDocument.js';
import type { IndexedRange, LookupKind } from '../../../src/api/index.js';
import { MemoryIndexStore } from '../../support/memoryIndexStore.js';
import { idOf, smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';

const repeated = transactionWith({ gasLimit: 7n });
const chain = smallChain(100, [
  [[transactionWith(), repeated], [repeated]],
  [],
  [[transactionWith(), repeated]],
]);
const range = { firstIndexed: 100, latestIndexed: 102, head: 110, sealed: null };

async function lookup(kind: LookupKind, key: string, within: IndexedRange = range) {
  const store = await MemoryIndexStore.startingAt(100);
  await store.commit({ blocks: chain, latestIndexedHeight: 102 });
  return lookupDocument(store, kind, key, () => within);
}

async function refusal(kind: LookupKind, key: string, within: IndexedRange = range) {
  const error: unknown = await lookup(kind, key, within).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return error instanceof ApiError ? error.body() : error;
}

describe('lookupDocument', () => {
  it('finds a block by height and by id, with the size of each collection', async () => {
    const [first] = chain;
    const document = await lookup('block', '100');
    expect(document).toMatchObject({
      kind: 'block',
      id: first!.block.id,
      height: 100,
      header: { id: first!.block.id, height: '100', parent_id: idOf('block 99') },
      payload: { collection_guarantees: [{ collection_id: first!.collections[0]!.id }, {}] },
      collections: [
        { collection_id: first!.collections[0]!.id, transaction_count: 2 },
        { collection_id: first!.collections[1]!.id, transaction_count: 1 },
      ],
    });
    expect(await lookup('block', first!.block.id.toUpperCase())).toEqual(document);
    expect(await lookup('block', `0x${first!.block.id}`)).toEqual(document);
  });

  it('finds the newest block, or the newest sealed one, by a word', async () => {
    for (const word of ['latest', 'final'])
      expect(await lookup('block', word)).toMatchObject({ height: 102 });
    const known = { ...range, sealed: 101 };
    expect(await lookup('block', 'sealed', known)).toMatchObject({ height: 101 });
    // A closed store does not know what is sealed.
    expect(await refusal('block', 'sealed', { ...range, head: null })).toMatchObject({
      code: 404,
      message: expect.stringContaining('is not known here') as string,
    });
  });

  it('finds a collection with its bodies and all its places', async () => {
    const { id } = chain[0]!.collections[0]!;
    expect(await lookup('collection', id)).toMatchObject({
      kind: 'collection',
      id,
      height: 100,
      block_id: chain[0]!.block.id,
      collection_index: 0,
      places: [
        { height: 100, collection_index: 0 },
        { height: 102, collection_index: 0 },
      ],
      more_places: false,
      collection: {
        id,
        transactions: transactionIds(chain[0]!, 0).map((transaction) => ({ id: transaction })),
      },
    });
  });

  it('finds a transaction with all its places, the lowest in front', async () => {
    const [id] = transactionIds(chain[0]!, 1);
    expect(await lookup('transaction', id!)).toMatchObject({
      kind: 'transaction',
      id,
      height: 100,
      block_id: chain[0]!.block.id,
      collection_id: chain[0]!.collections[0]!.id,
      collection_index: 0,
      transaction_index: 1,
      places: [
        { height: 100, collection_index: 0, transaction_index: 1 },
        { height: 100, collection_index: 1, transaction_index: 0 },
        { height: 102, collection_index: 0, transaction_index: 1 },
      ],
      more_places: false,
      transaction: { id, gas_limit: '7' },
    });
  });

  it('lists a bounded number of places and says that there are more', async () => {
    const blocks = smallChain(
      1,
      Array.from({ length: MAX_PLACES + 1 }, () => [[repeated]]),
    );
    const store = await MemoryIndexStore.startingAt(1);
    await store.commit({ blocks, latestIndexedHeight: blocks.length });
    const [id] = transactionIds(blocks[0]!, 0);
    const whole = { ...range, firstIndexed: 1, latestIndexed: blocks.length };
    for (const [kind, key] of [
      ['transaction', id!],
      ['collection', blocks[0]!.collections[0]!.id],
    ] as const) {
      const document = await lookupDocument(store, kind, key, () => whole);
      if (document.kind === 'block') throw new Error('not asked for');
      expect(document.places).toHaveLength(MAX_PLACES);
      expect(document.more_places).toBe(true);
    }
  });

  it('looks twice for an id, as a damaged height leaves the index and comes back', async () => {
    const store = await MemoryIndexStore.startingAt(100);
    await store.commit({ blocks: chain, latestIndexedHeight: 102 });
    const id = chain[0]!.collections[0]!.id;
    const found = store.collection.bind(store);
    const healing = [{ from: 100, to: 100 }];
    const lookedUp = (now: () => IndexedRange): Promise<unknown> =>
      lookupDocument(store, 'collection', id, now);
    const proven: typeof lookedUp = (now) =>
      proofDocument(store, { kind: 'collection', key: id, to: '' }, now);
    const asked = async (looks: readonly boolean[], later: IndexedRange, ask = lookedUp) => {
      const left = [...looks];
      store.collection = (key) => (left.shift() === false ? Promise.resolve(undefined) : found(key));
      const ranges = [range];
      return ask(() => ranges.shift() ?? later).catch((error: unknown) =>
        error instanceof ApiError ? error.body().reason : error,
      );
    };
    expect(await asked([false], range)).toMatchObject({ kind: 'collection', id });
    expect(await asked([false], { ...range, healing })).toBe('healing');
    expect(await asked([false, false], range)).toBe('unknown_id');
    expect(await asked([false, false], { ...range, healing }, proven)).toBe('healing');
  });
});
