import { describe, expect, it } from 'vitest';
import { accountRoles, toAddress } from '../../../src/flow/index.js';
import { openLevelReplica } from '../../../src/storage/index.js';
import { accounts } from '../../support/accountChain.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';
import { begin, shownOf, useStores } from '../../support/storeDirectory.js';

const chain = smallChain(100, [
  [[transactionWith({ gasLimit: 1n })]],
  [],
  [[transactionWith({ gasLimit: 2n })]],
]);

describe('a replica of a store', () => {
  const { freshPath, open } = useStores();

  it('shows what it was told to show, whatever is durable', async () => {
    const path = await freshPath();
    const shared = { accounts: true, isShared: true };
    const store = await begin(open(path, shared), 100);
    const replica = await openLevelReplica(path);
    await store.commit({ blocks: chain.slice(0, 2), latestIndexedHeight: 101 });
    expect(await replica.blockByHeight(100)).toBeUndefined();
    replica.show(shownOf(store));
    await store.commit({ blocks: chain.slice(2), latestIndexedHeight: 102 });
    const [first, , third] = chain;
    expect((await replica.blockByHeight(100))?.block.id).toBe(first?.block.id);
    expect(await replica.blockByHeight(102)).toBeUndefined();
    const id = third?.collections[0]?.id;
    expect(id && (await replica.collection(id))).toBeUndefined();
    replica.show(shownOf(store));
    expect(id && (await replica.collection(id))?.encoded).toEqual(third?.collections[0]?.encoded);
    expect(replica.accounts.coverage()).toEqual(store.accounts.coverage());
    await replica.close();
    // The store is its owner's as before, and the next one's.
    await store.rewind(101);
    await store.close();
    expect((await open(path, shared)).latestIndexedHeight()).toBe(101);
  });

  it('answers for accounts, head and rewinds as the store that it shows, and for none before', async () => {
    const [address = toAddress(Buffer.alloc(8))] = accounts;
    const payer = Buffer.from(address, 'hex');
    const paid = (gasLimit: bigint) => transactionWith({ payer, gasLimit });
    const path = await freshPath();
    const store = await begin(open(path, { accounts: true, isShared: true }), 100);
    await store.commit({ blocks: smallChain(100, [[[paid(1n)]], [[paid(2n)]]]), latestIndexedHeight: 101 });
    const replica = await openLevelReplica(path);
    const query = { address, roles: accountRoles.payer, limit: 10 };
    expect(() => replica.accounts.page(query)).toThrow('the account index is off');
    replica.show(shownOf(store));
    const page = await replica.accounts.page(query);
    expect(page.transactions).toHaveLength(2);
    expect(page).toEqual(await store.accounts.page(query));
    await store.rewind(100);
    replica.show(shownOf(store));
    expect(await replica.accounts.page(query)).toEqual(await store.accounts.page(query));
    expect([replica.rewinds(), replica.latestBlock()]).toEqual([1, store.latestBlock()]);
    await replica.close();
  });
});
