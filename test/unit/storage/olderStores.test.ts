import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { BackfillPlan } from '../../../src/storage/index.js';
import { chainWith, commitThrough, fill, heal, rawEntries, seededCollection } from '../../support/index.js';
import { useStores, verifyAt, withRawDatabase } from '../../support/index.js';

const plan: BackfillPlan = { id: 1, from: 1, to: 4, order: 'newest', isPaused: false };

/**
 * The chain of the stores in test/data/older-stores.json: heights 1 to 10. The program of before there were ranges began
 * them at height 5, with watermark 7 and height 9 above a gap; that of version 2 has an account index.
 */
const fixtureChain = chainWith(1, 10, (index) =>
  index % 3 === 2 ? [] : [seededCollection(`old${index}`, 2)],
);

type Entries = readonly (readonly [key: string, value: string])[];

/** Makes the database that an earlier version left; its entries are returned. */
async function olderStore(path: string, version: 1 | 2): Promise<Entries> {
  const file = new URL('../../data/older-stores.json', import.meta.url);
  const stores = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, Entries>>;
  const entries = stores[version] ?? [];
  await withRawDatabase(path, async (database) => {
    for (const [key, value] of entries)
      await database.put(Buffer.from(key, 'hex'), Buffer.from(value, 'hex'));
  });
  return entries;
}

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
