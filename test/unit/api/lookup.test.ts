import { expect, it } from 'vitest';
import { ApiError, lookupDocument, proofDocument } from '../../../src/api/index.js';
import { MAX_PLACES } from '../../../src/api/documents/lookupDocument.js';
import type { IndexedRange, LookupKind } from '../../../src/api/index.js';
import { indexed } from '../../support/indexedChain.js';
import { chainOf, idOf, smallChain, transactionIds, transactionWith } from '../../support/smallChain.js';

const repeated = transactionWith({ gasLimit: 7n });
const both = [transactionWith(), repeated];
const chain = smallChain(100, [[both, [repeated]], [], [both]]);
const first = chain[0]!;
const inFirst = { height: 100, block_id: first.block.id, collection_index: 0 };
const range = { firstIndexed: 100, latestIndexed: 102, head: 110, sealed: null };

async function lookup(kind: LookupKind, key: string, within: IndexedRange = range) {
  const { store } = await indexed(chain, { sealed: null });
  return lookupDocument(store, kind, key, () => within);
}

it('finds a block by height, by id, and by the word for a head, with the size of each collection', async () => {
  const { block, collections } = first;
  const document = await lookup('block', '100');
  expect(document).toMatchObject({
    ...{ kind: 'block', id: block.id, height: 100 },
    header: { id: block.id, height: '100', parent_id: idOf('block 99') },
    payload: { collection_guarantees: [{ collection_id: collections[0]!.id }, {}] },
    collections: [
      { collection_id: collections[0]!.id, transaction_count: 2 },
      { collection_id: collections[1]!.id, transaction_count: 1 },
    ],
  });
  for (const key of [block.id.toUpperCase(), `0x${block.id}`])
    expect(await lookup('block', key)).toEqual(document);
  for (const word of ['latest', 'final']) expect(await lookup('block', word)).toMatchObject({ height: 102 });
  const known = { ...range, sealed: 101 };
  expect(await lookup('block', 'sealed', known)).toMatchObject({ height: 101 });
  // A closed store does not know what is sealed.
  const unknown = { code: 404, message: expect.stringContaining('is not known here') as string };
  await expect(lookup('block', 'sealed', { ...range, head: null })).rejects.toMatchObject(unknown);
});

it('finds a collection with its bodies, and a transaction, with all places, the lowest in front', async () => {
  const { id } = first.collections[0]!;
  expect(await lookup('collection', id)).toMatchObject({
    ...{ kind: 'collection', id, ...inFirst, more_places: false },
    places: [100, 102].map((height) => ({ height, collection_index: 0 })),
    collection: { id, transactions: transactionIds(first, 0).map((each) => ({ id: each })) },
  });
  const [one] = transactionIds(first, 1);
  expect(await lookup('transaction', one!)).toMatchObject({
    ...{ kind: 'transaction', id: one, ...inFirst, collection_id: id, transaction_index: 1 },
    places: [
      { height: 100, collection_index: 0, transaction_index: 1 },
      { height: 100, collection_index: 1, transaction_index: 0 },
      { height: 102, collection_index: 0, transaction_index: 1 },
    ],
    more_places: false,
    transaction: { id: one, gas_limit: '7' },
  });
});

it('lists a bounded number of places and says that there are more', async () => {
  const blocks = chainOf(1, MAX_PLACES + 1, () => [[repeated]]);
  const many = await indexed(blocks, { sealed: null });
  for (const [kind, key] of [
    ['transaction', transactionIds(blocks[0]!, 0)[0]!],
    ['collection', blocks[0]!.collections[0]!.id],
  ] as const) {
    const document = await lookupDocument(many.store, kind, key, () => many.range);
    expect(document).toMatchObject({ places: { length: MAX_PLACES }, more_places: true });
  }
});

it('looks twice for an id, as a damaged height leaves the index and comes back', async () => {
  const { store } = await indexed(chain, { sealed: null });
  const { id } = first.collections[0]!;
  const found = store.item.bind(store);
  const healing = [{ from: 100, to: 100 }];
  const lookedUp = (now: () => IndexedRange): Promise<unknown> =>
    lookupDocument(store, 'collection', id, now);
  const proven: typeof lookedUp = (now) => proofDocument(store, { kind: 'collection', key: id, to: '' }, now);
  const asked = async (looks: readonly boolean[], later: IndexedRange, ask = lookedUp) => {
    const left = [...looks];
    store.item = (...by) => (left.shift() === false ? Promise.resolve(undefined) : found(...by));
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
