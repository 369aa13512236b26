import { describe, expect, it } from 'vitest';
import type { BackfillPlan } from '../../../src/storage/index.js';
import { fixtureChain, olderStore } from './olderStores.js';
import { commitThrough, fill, heal } from '../../support/ranges.js';
import { rawEntries, useStores, verifyAt } from '../../support/storeDirectory.js';

const plan: BackfillPlan = { id: 1, from: 1, to: 4, order: 'newest', isPaused: false };

describe.each([1, 2] as const)('a store of version %i, of before there were ranges', (version) => {
  const { freshPath, open } = useStores();
  const hexOf = async (path: string): Promise<string[][]> =>
    (await rawEntries(path)).map((entry) => entry.map((bytes) => bytes.toString('hex')));

  it('is one range, and stays what it is, byte for byte, when nothing new is used any more', async () => {
    const path = await freshPath();
    const entries = await olderStore(path, version);
    expect(entries.length).toBeGreaterThan(10);
    const store = await open(path, version === 2 ? { accounts: true } : {});
    expect(store.coverage()).toEqual([{ from: 5, to: 7 }]);
    expect(store.blocksAboveWatermark().map(({ height }) => height)).toEqual([9]);
    expect((await store.blockByHeight(6))?.block.id).toBe(fixtureChain[5]?.block.id);
    expect(store.accounts.coverage()).toEqual(
      version === 2 ? { from: 5, to: 7, missingHeights: 0 } : undefined,
    );
    await store.close();
    expect(await hexOf(path)).toEqual(entries);

    const again = await open(path);
    await again.ranges.change({ plans: [plan] });
    await again.ranges.run({ from: 2, to: 3 });
    expect(again.meta()?.schemaVersion).toBe(3);
    await again.ranges.change({ plans: [], dropped: [{ from: 2, to: 3 }] });
    expect(again.meta()?.schemaVersion).toBe(version);
    await again.close();
    expect(await hexOf(path)).toEqual(entries);
  });

  it('can be filled in below, and goes on above', async () => {
    const path = await freshPath();
    await olderStore(path, version);
    const store = await open(path);
    await fill(store, fixtureChain, { from: 1, to: 2 });
    expect(store.coverage()).toHaveLength(2);
    await store.ranges.change({ plans: [plan] });
    await heal(store, fixtureChain);
    await commitThrough(store, fixtureChain, 10);
    expect(store.coverage()).toEqual([{ from: 1, to: 10 }]);
    expect(store.meta()?.schemaVersion).toBe(version);
    await store.close();
    expect((await verifyAt(path)).damages).toEqual([]);
  });
});
