import { describe, expect, it } from 'vitest';
import type { IndexStore } from '../../../src/storage/index.js';
import { asAdmin, batchOf, begin, commitThrough, fill, HashedChain } from '../../support/index.js';
import { range, rowsOf, storeKinds, TEST_CHAIN, usePostgres } from '../../support/index.js';

const FIRST = 100;
const chain = new HashedChain({ rootHeight: FIRST - 50, chainId: TEST_CHAIN });
const proven = (...heights: number[]) => heights.map((height) => chain.block(height));
/** On PostgreSQL, what a process commits is counted there, and known here soon. */
const left = (store: IndexStore) => expect.poll(() => store.unproven(), { timeout: 10_000 });

/** Every second one has no proof. */
const alternating = Array.from({ length: 521 }, (_, index) =>
  chain.entries(FIRST + index, FIRST + index, { isProven: index % 2 === 0 }),
).flat();

describe.each(storeKinds)('proofs that are added to the store on $name', ({ use }) => {
  const newHome = use();

  /** Of the blocks up to `to`, those up to `reportedTo` are on the nodes' word. */
  async function filled(reportedTo: number, store: Promise<IndexStore>, to = FIRST + 4): Promise<IndexStore> {
    const opened = await begin(store, FIRST, chain.entries(FIRST, reportedTo, { isProven: false }));
    if (reportedTo < to) await opened.commit(batchOf(...chain.entries(reportedTo + 1, to)));
    return opened;
  }

  it.each([
    ['a store of an earlier version, none of whose blocks has any', FIRST + 4],
    ['a store that has some', FIRST + 2],
  ])('are durable, and counted, in %s', async (_, reportedTo) => {
    const home = await newHome();
    const store = await filled(reportedTo, home.open());
    await store.addProofs(proven(reportedTo, reportedTo - 1));
    await left(store).toEqual([range(FIRST, reportedTo - 2)]);
    expect((await store.blockByHeight(reportedTo))?.block).toEqual(chain.block(reportedTo));
    expect((await store.blockByHeight(FIRST))?.block).toEqual(chain.block(FIRST, { isProven: false }));
    await store.close();

    const again = await home.open();
    await left(again).toEqual([range(FIRST, reportedTo - 2)]);
    expect((await again.wholeBlock(reportedTo - 1))?.block).toEqual(chain.block(reportedTo - 1));
    await again.addProofs(chain.entries(FIRST, reportedTo).map(({ block }) => block));
    await left(again).toEqual([]);
    await again.close();
    await left(await home.open()).toEqual([]);
  });

  it('are counted for history that is published later', async () => {
    const store = await filled(FIRST, (await newHome()).open());
    const history = range(FIRST - 10, FIRST - 1);
    await fill(store, chain.entries(history.from, history.to, { isProven: false }), history);
    await left(store).toEqual([range(FIRST - 10, FIRST)]);
    await store.addProofs(proven(FIRST - 1, FIRST));
    await left(store).toEqual([range(FIRST - 10, FIRST - 2)]);
  });

  it('are told from what was durable without one in an open range, when the first of the store comes', async () => {
    const store = await filled(FIRST, (await newHome()).open(), FIRST);
    const history = chain.entries(FIRST - 10, FIRST - 6, { isProven: false });
    const run = await store.ranges.run(range(FIRST - 10, FIRST - 1));
    await commitThrough(run, history, FIRST - 6);
    await store.commit(batchOf(...chain.entries(FIRST + 1, FIRST + 2)));
    await commitThrough(run, chain.entries(FIRST - 5, FIRST - 1), FIRST - 1);
    await left(store).toEqual([range(FIRST - 10, FIRST - 6), range(FIRST)]);
  });

  it('are found later where too many heights alternate, of which none that is unproven is forgotten', async () => {
    const store = await begin((await newHome()).open(), FIRST, alternating);
    await expect.poll(() => store.unproven()).not.toEqual([]);
    const ranges = store.unproven();
    expect(ranges.length).toBeLessThanOrEqual(256);
    const unproven = alternating.flatMap(({ block }) => (block.proof === undefined ? [block.height] : []));
    expect(unproven.filter((each) => !ranges.some(({ from, to }) => from <= each && each <= to))).toEqual([]);
  });

  it('are left out where the block is gone, or another one stands, or one with other guarantees, and not missed where it came again with a proof', async () => {
    const store = await filled(FIRST + 4, (await newHome()).open());
    await store.rewind(FIRST + 2);
    const other = new HashedChain({ rootHeight: FIRST - 49, chainId: TEST_CHAIN }).block(FIRST + 1);
    const honest = chain.block(FIRST);
    await store.addProofs([...proven(FIRST + 3), other, { ...honest, collectionIds: [honest.id] }]);
    await store.commit(batchOf(...chain.entries(FIRST + 3, FIRST + 4)));
    await left(store).toEqual([range(FIRST, FIRST + 2)]);
    expect((await store.blockByHeight(FIRST + 1))?.block).toEqual(
      chain.block(FIRST + 1, { isProven: false }),
    );
  });
});

describe('on PostgreSQL,', () => {
  const postgres = usePostgres();

  it('proofs come into a database of an earlier version, which other processes and verify then know', async () => {
    const blocks = chain.entries(FIRST, FIRST + 4, { isProven: false });
    const { store: before, url } = await postgres.filled(FIRST, blocks);
    await before.close();
    const older = 'DROP TABLE flow_store.unproven, flow_store.proven, flow_store.evidence';
    await asAdmin(url, `${older}; CREATE TABLE public.older AS SELECT height, record FROM flow_store.block`);
    expect(await postgres.verified(url)).toMatchObject({ damageCount: 0, proven: 0 });

    const store = await postgres.open(url);
    const other = await postgres.open(url, { isFollower: true });
    for (const each of [store, other]) expect(each.unproven()).toEqual([range(FIRST, FIRST + 4)]);
    await store.addProofs(proven(FIRST + 3, FIRST + 4));
    await left(other).toEqual([range(FIRST, FIRST + 2)]);
    expect(await postgres.verified(url)).toMatchObject({ damageCount: 0, heights: 5, proven: 2 });
    const kept = 'SELECT schema_version, heights::text FROM flow_store.store, flow_store.unproven';
    expect(await rowsOf(url, kept)).toEqual([{ schema_version: 2, heights: `{[${FIRST},${FIRST + 3})}` }]);

    const loseProof = `UPDATE flow_store.block SET record = older.record FROM public.older WHERE block.height = older.height`;
    await asAdmin(url, `${loseProof} AND block.height <= ${FIRST + 3}`);
    const what = `block record of height ${FIRST + 3}: its proof is missing`;
    expect((await store.check(range(FIRST, FIRST + 4))).damages).toEqual([{ height: FIRST + 3, what }]);
    expect((await postgres.verified(url)).lostHeights).toEqual([range(FIRST + 3)]);
  });

  it('the height up to which finality is proven is told to other processes by the one that leads, and goes back with the store alone', async () => {
    const { store: first, url } = await postgres.filled(FIRST, chain.entries(FIRST, FIRST + 9));
    const second = await postgres.open(url, { isFollower: true });
    let told = 0;
    second.shared.onChanged(() => (told += 1));
    const seen = async (height: number | undefined) => {
      await expect.poll(() => second.provenBlock()?.height).toBe(height);
      await expect.poll(() => first.provenBlock()?.height).toBe(height);
    };
    expect(second.provenBlock()).toBeUndefined();
    await first.keepProven(FIRST + 7);
    await seen(FIRST + 7);
    expect(second.provenBlock()).toMatchObject({ id: chain.entries(FIRST + 7, FIRST + 7)[0]?.block.id });
    expect(told).toBeGreaterThan(0);
    await first.keepProven(FIRST + 5);
    await second.keepProven(FIRST + 8);
    await second.shared.lead();
    // It has been replaced.
    await first.keepProven(FIRST + 9);
    const kept = await rowsOf(url, 'SELECT height FROM flow_store.proven');
    expect(kept).toEqual([{ height: String(FIRST + 7) }]);
    await second.rewind(FIRST + 3);
    await seen(FIRST + 3);
    await second.keepProven(FIRST + 2);
    await second.rewind(FIRST - 1);
    await seen(undefined);
  });
});
