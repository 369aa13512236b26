import { expect, it } from 'vitest';
import { accountRoles, toAddress } from '../../../src/flow/index.js';
import { openLevelReplica } from '../../../src/storage/index.js';
import { accounts, batchOf, begin, shownOf, smallChain, transactionWith } from '../../support/index.js';
import { useStores } from '../../support/index.js';

const [address = toAddress(Buffer.alloc(8))] = accounts;
const paid = (gasLimit: bigint) => transactionWith({ payer: Buffer.from(address, 'hex'), gasLimit });
const chain = smallChain(100, [[[paid(1n)]], [], [[paid(2n)]]]);
const { freshPath, open } = useStores();

it('a replica of a store answers as that did when it was told what to show, and not at all before', async () => {
  const path = await freshPath();
  const shared = { accounts: true, isShared: true };
  const store = await begin(open(path, shared), 100);
  const replica = await openLevelReplica(path);
  await store.commit(batchOf(...chain.slice(0, 2)));
  const query = { address, roles: accountRoles.payer, limit: 10 };
  expect(await replica.blockByHeight(100)).toBeUndefined();
  expect(() => replica.accounts.page(query)).toThrow('the account index is off');
  replica.show(shownOf(store));
  await store.commit(batchOf(chain[2]!));
  expect((await replica.blockByHeight(100))?.block.id).toBe(chain[0]!.block.id);
  expect(await replica.blockByHeight(102)).toBeUndefined();
  const [collection] = chain[2]!.collections;
  expect(await replica.item('collection', collection!.id)).toBeUndefined();
  replica.show(shownOf(store));
  expect((await replica.item('collection', collection!.id))?.encoded).toEqual(collection!.encoded);
  for (const transactions of [2, 1]) {
    const page = await replica.accounts.page(query);
    expect(page.transactions).toHaveLength(transactions);
    expect(page).toEqual(await store.accounts.page(query));
    await store.rewind(101);
    replica.show(shownOf(store));
  }
  expect([replica.rewinds(), replica.latestBlock()]).toEqual([1, store.latestBlock()]);
  await replica.close();
  // The store is its owner's as before, and the next one's.
  await store.close();
  expect((await open(path, shared)).latestIndexedHeight()).toBe(101);
});
