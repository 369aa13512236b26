import { MemoryIndexStore, chainOf, transactionIds, transactionWith } from '../support/index.js';

export const FIRST = 100;
const BLOCKS = 8;

/** What the servers under fire serve: small blocks, of which some are sealed, below a head that is not indexed yet. */
export const chain = chainOf(FIRST, BLOCKS, (index) => [[transactionWith({ gasLimit: BigInt(index) })], []]);
export const range = { firstIndexed: FIRST, latestIndexed: FIRST + BLOCKS - 1, head: 120, sealed: 103 };
export const ids = chain.flatMap((entry) => {
  const { collectionIds, id } = entry.block;
  return [id, ...collectionIds, ...transactionIds(entry, 0)];
});

export async function servedStore(): Promise<MemoryIndexStore> {
  const store = await MemoryIndexStore.startingAt(FIRST);
  await store.commit({ blocks: chain, latestIndexedHeight: range.latestIndexed });
  return store;
}
