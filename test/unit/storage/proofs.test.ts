import { describe, expect, it } from 'vitest';
import type { IndexStore } from '../../../src/storage/index.js';
import { HashedChain } from '../../support/hashedChain.js';
import {
  begin,
  keyOf,
  sealed,
  TEST_CHAIN,
  useStores,
  verifyAt,
  withRawDatabase,
} from '../../support/storeDirectory.js';
import { range } from '../../support/ranges.js';

const FIRST = 100;
const chain = new HashedChain({ rootHeight: FIRST - 50, chainId: TEST_CHAIN });
const { freshPath, open } = useStores();

const unproven = (store: IndexStore) => store.unproven?.();
/** A store of the heights from FIRST to `to`, proven above `reportedTo`. */
async function storeAt(path: string, reportedTo: number, to: number) {
  const store = await begin(open(path), FIRST);
  if (reportedTo >= FIRST)
    await store.commit({
      blocks: chain.entries(FIRST, reportedTo, { isProven: false }),
      latestIndexedHeight: reportedTo,
    });
  if (to > reportedTo)
    await store.commit({ blocks: chain.entries(reportedTo + 1, to), latestIndexedHeight: to });
  return store;
}

/** What every store does with proofs: test/integration/storage/addedProofs.test.ts. */
describe('a store with proofs', () => {
  it('is one that an older program refuses, from the first proof on', async () => {
    const path = await freshPath();
    const store = await storeAt(path, FIRST + 2, FIRST + 2);
    expect(store.meta()?.schemaVersion).toBe(1);
    await store.commit({ blocks: chain.entries(FIRST + 3, FIRST + 3), latestIndexedHeight: FIRST + 3 });
    expect(store.meta()?.schemaVersion).toBe(4);
    await store.close();
    expect((await open(path)).meta()?.schemaVersion).toBe(4);
  });

  it('knows which of its heights have none, also after it was opened again', async () => {
    const path = await freshPath();
    const store = await storeAt(path, FIRST + 2, FIRST + 4);
    expect(unproven(store)).toEqual([{ from: FIRST, to: FIRST + 2 }]);
    await store.commit({
      blocks: [
        ...chain.entries(FIRST + 5, FIRST + 6, { isProven: false }),
        ...chain.entries(FIRST + 7, FIRST + 7),
      ],
      latestIndexedHeight: FIRST + 7,
    });
    const expected = [range(FIRST, FIRST + 2), range(FIRST + 5, FIRST + 6)];
    expect(unproven(store)).toEqual(expected);
    await store.close();
    expect(unproven(await open(path))).toEqual(expected);
    expect(unproven(await storeAt(await freshPath(), FIRST + 2, FIRST + 2))).toEqual([
      range(FIRST, FIRST + 2),
    ]);
  });

  it.each([
    ['a bit of the proof is turned', 'turned', /does not hash to its id/],
    ['the proof is gone', 'gone', /its proof is missing/],
  ])('is damaged where %s, whatever the checksum says', async (_, how, message) => {
    const path = await freshPath();
    await (await storeAt(path, FIRST - 1, FIRST + 3)).close();
    const height = FIRST + 2;
    await withRawDatabase(path, async (database) => {
      const key = keyOf(0x10, height);
      const value = Buffer.from(await database.get(key));
      const count = value.readUInt32BE(4) - 0x8000_0000;
      const proofAt = 8 + 8 * count;
      const proofBytes = value.readUInt32BE(proofAt);
      const payload = value.subarray(0, -4);
      if (how === 'turned') {
        const last = proofAt + 4 + proofBytes - 1;
        payload.writeUInt8(payload.readUInt8(last) ^ 1, last);
        await database.put(key, sealed(key, payload));
      } else {
        payload.writeUInt32BE(count, 4);
        const without = Buffer.concat([
          payload.subarray(0, proofAt),
          payload.subarray(proofAt + 4 + proofBytes),
        ]);
        await database.put(key, sealed(key, without));
      }
    });
    const report = await verifyAt(path);
    expect(report.damages.map(({ message: each }) => each).join('\n')).toMatch(message);
    expect(report.damagedHeights[0]?.from).toBe(height);
  });
});
