import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/runtime/index.js';
import { silentLogger } from '../../../src/observability/index.js';
import { LevelIndexStore, openLevelReplica } from '../../../src/storage/index.js';
import type { ShownIndex } from '../../../src/storage/index.js';
import { scratchDirectory } from '../../support/program.js';
import { smallChain, transactionWith } from '../../support/smallChain.js';

const chain = smallChain(100, [
  [[transactionWith({ gasLimit: 1n })]],
  [],
  [[transactionWith({ gasLimit: 2n })]],
]);

async function openBoth() {
  const path = `${scratchDirectory()}/index`;
  const open = (isShared: boolean) =>
    LevelIndexStore.open(
      { path, chainId: 'flow-localnet', accounts: true, isShared },
      { logger: silentLogger, clock: systemClock },
    );
  const store = await open(true);
  await store.initialise({
    ...{ schemaVersion: 1, chainId: 'flow-localnet', firstHeight: 100, createdBy: 'test', sporks: [] },
  });
  const replica = await openLevelReplica(path);
  return { open, store, replica };
}

function shownOf(store: LevelIndexStore): ShownIndex {
  return {
    meta: store.meta(),
    latestIndexedHeight: store.latestIndexedHeight(),
    coverage: store.coverage(),
    latestBlock: store.latestBlock(),
    rewinds: store.rewinds(),
    accounts: store.accounts.coverage(),
  };
}

describe('a replica of a store', () => {
  it('shows what it was told to show, whatever is durable', async () => {
    const { store, replica } = await openBoth();
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
    await store.close();
  });

  it('leaves the store to its owner, and to the next one, when it is closed', async () => {
    const { open, store, replica } = await openBoth();
    await replica.close();
    await store.commit({ blocks: chain, latestIndexedHeight: 102 });
    await store.close();
    const again = await open(false);
    expect(again.latestIndexedHeight()).toBe(102);
    await again.close();
  });
});
