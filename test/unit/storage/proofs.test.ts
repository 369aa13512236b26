import { describe, expect, it } from 'vitest';
import { HashedChain } from '../../support/hashedChain.js';
import { begin, keyOf, sealed, TEST_CHAIN, useStores, verifyAt } from '../../support/storeDirectory.js';

const FIRST = 100;
const chain = new HashedChain({ rootHeight: FIRST - 50, chainId: TEST_CHAIN });
const { freshPath, open, changedStore } = useStores();

/** What every store does with proofs: test/integration/storage/addedProofs.test.ts. */
describe('a store with proofs', () => {
  it('is one that an older program refuses, from the first proof on', async () => {
    const path = await freshPath();
    const unproven = chain.entries(FIRST, FIRST + 2, { isProven: false });
    const store = await begin(open(path), FIRST, unproven);
    expect(store.meta()?.schemaVersion).toBe(1);
    await store.commit({ blocks: chain.entries(FIRST + 3, FIRST + 3), latestIndexedHeight: FIRST + 3 });
    expect(store.meta()?.schemaVersion).toBe(4);
    await store.close();
    expect((await open(path)).meta()?.schemaVersion).toBe(4);
  });

  it.each([
    ['a bit of the proof is turned', 'turned', /does not hash to its id/],
    ['the proof is gone', 'gone', /its proof is missing/],
  ])('is damaged where %s, whatever the checksum says', async (_, how, message) => {
    const height = FIRST + 2;
    const path = await changedStore(chain.entries(FIRST, FIRST + 3), async (database) => {
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
