import { describe, expect, it } from 'vitest';
import type { IndexStore } from '../../../src/storage/index.js';
import { StorageError } from '../../../src/storage/index.js';
import { HashedChain } from '../../support/hashedChain.js';
import { fill } from '../../support/ranges.js';
import { metaFrom, TEST_CHAIN } from '../../support/storeDirectory.js';
import { storeKinds } from '../../support/storeKinds.js';

const FIRST = 100;
const chain = new HashedChain({ rootHeight: FIRST - 50, chainId: TEST_CHAIN });
const proven = (...heights: number[]) => heights.map((height) => chain.block(height));
const range = (from: number, to = from) => ({ from, to });

describe.each(storeKinds.filter(({ name }) => name === 'LevelDB'))(
  'proofs that are added to the store on $name',
  ({ use }) => {
    const newHome = use();

    /** Of five blocks, those up to `reportedTo` on the nodes' word. */
    async function filled(reportedTo: number, store: Promise<IndexStore>): Promise<IndexStore> {
      const opened = await store;
      await opened.initialise(metaFrom(FIRST));
      await opened.commit({
        blocks: chain.entries(FIRST, reportedTo, { isProven: false }),
        latestIndexedHeight: reportedTo,
      });
      if (reportedTo < FIRST + 4)
        await opened.commit({
          blocks: chain.entries(reportedTo + 1, FIRST + 4),
          latestIndexedHeight: FIRST + 4,
        });
      return opened;
    }

    it.each([
      ['a store of an earlier version, none of whose blocks has any', FIRST + 4],
      ['a store that has some', FIRST + 2],
    ])('are durable, and counted, in %s', async (_, reportedTo) => {
      const home = await newHome();
      const store = await filled(reportedTo, home.open());
      const highest = reportedTo;
      await store.addProofs?.(proven(highest, highest - 1));
      expect(store.unproven?.()).toEqual([range(FIRST, highest - 2)]);
      expect((await store.blockByHeight(highest))?.block).toEqual(chain.block(highest));
      expect((await store.blockByHeight(FIRST))?.block).toEqual(chain.block(FIRST, { isProven: false }));
      await store.close();

      const again = await home.open();
      expect(again.unproven?.()).toEqual([range(FIRST, highest - 2)]);
      expect((await again.wholeBlock(highest - 1))?.block).toEqual(chain.block(highest - 1));
      await again.addProofs?.(
        proven(...Array.from({ length: highest - FIRST + 1 }, (_, index) => FIRST + index)),
      );
      expect(again.unproven?.()).toEqual([]);
      await again.close();
      expect((await home.open()).unproven?.()).toEqual([]);
    });

    it('are counted for history that is published later', async () => {
      const store = await filled(FIRST, (await newHome()).open());
      await fill(
        store,
        chain.entries(FIRST - 10, FIRST - 1, { isProven: false }),
        range(FIRST - 10, FIRST - 1),
      );
      expect(store.unproven?.()).toEqual([range(FIRST - 10, FIRST)]);
      await store.addProofs?.(proven(FIRST - 1, FIRST));
      expect(store.unproven?.()).toEqual([range(FIRST - 10, FIRST - 2)]);
    });

    it('are left out where the block is gone, or another one stands', async () => {
      const store = await filled(FIRST + 4, (await newHome()).open());
      await store.rewind(FIRST + 2);
      const other = new HashedChain({ rootHeight: FIRST - 49, chainId: TEST_CHAIN }).block(FIRST + 1);
      await store.addProofs?.([...proven(FIRST + 3), other]);
      expect(store.unproven?.()).toEqual([range(FIRST, FIRST + 2)]);
      expect((await store.blockByHeight(FIRST + 1))?.block).toEqual(
        chain.block(FIRST + 1, { isProven: false }),
      );
    });

    it('are damage where the id proves other guarantees than are stored, and nothing is written', async () => {
      const store = await filled(FIRST + 4, (await newHome()).open());
      const [honest] = proven(FIRST + 1);
      const contradicted = { ...honest!, collectionIds: [honest!.id] };
      const error = await store
        .addProofs?.([...proven(FIRST), contradicted])
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StorageError);
      expect(error).toMatchObject({
        ...{ kind: 'corrupt', height: FIRST + 1 },
        message: expect.stringContaining(`"rewind --to ${FIRST}"`) as string,
      });
      expect(store.unproven?.()).toEqual([range(FIRST, FIRST + 4)]);
    });
  },
);
