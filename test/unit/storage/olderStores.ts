import { readFileSync } from 'node:fs';
import { chainWith, seededCollection } from '../../support/storeBlocks.js';
import { withRawDatabase } from '../../support/storeDirectory.js';

/**
 * The chain of the stores in test/data/older-stores.json: heights 1 to 10. The program of before there were ranges began
 * them at height 5, with watermark 7 and height 9 above a gap; that of version 2 has an account index.
 */
export const fixtureChain = chainWith(1, 10, (index) =>
  index % 3 === 2 ? [] : [seededCollection(`old${index}`, 2)],
);

type Entries = readonly (readonly [key: string, value: string])[];

/** Makes the database that an earlier version left; its entries are returned. */
export async function olderStore(path: string, version: 1 | 2): Promise<Entries> {
  const file = new URL('../../data/older-stores.json', import.meta.url);
  const stores = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, Entries>>;
  const entries = stores[version] ?? [];
  await withRawDatabase(path, async (database) => {
    for (const [key, value] of entries) {
      await database.put(Buffer.from(key, 'hex'), Buffer.from(value, 'hex'));
    }
  });
  return entries;
}
