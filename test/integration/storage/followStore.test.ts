import { expect, it, describe } from 'vitest';
import { ZERO_ID } from '../../../src/flow/index.js';
import { followStore, SourceTroubleError, storedSource } from '../../../src/ranges/index.js';
import type { FollowedSource } from '../../../src/ranges/index.js';
import { AbortError, seededRandom, systemClock } from '../../../src/runtime/index.js';
import type { BlockEntry, HeightRange, IndexStore } from '../../../src/storage/index.js';
import { fill } from '../../support/ranges.js';
import { makeBlock, makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom } from '../../support/storeDirectory.js';
import { storeKinds } from '../../support/storeKinds.js';

const FIRST = 100;
const range = (from: number, to: number): HeightRange => ({ from, to });
const chain = makeChain(
  FIRST,
  Array.from({ length: 80 }, (_, index) => (index % 3 === 0 ? [seededCollection(`of ${index}`, 2)] : [])),
);
const blocksOf = ({ from, to }: HeightRange, of = chain): BlockEntry[] =>
  of.slice(from - FIRST, to - FIRST + 1);
const append = (store: IndexStore, { from, to }: HeightRange, of = chain) =>
  store.commit({ blocks: blocksOf({ from, to }, of), latestIndexedHeight: to });

/** Goes another way above a height. */
function otherAbove(last: number): BlockEntry[] {
  const all = chain.slice(0, last - FIRST + 1);
  while (all.length < chain.length) {
    const { height, id } = all.at(-1)?.block ?? { height: FIRST - 1, id: ZERO_ID };
    all.push(makeBlock(height + 1, id, [seededCollection(`other ${height}`, 3)], ' too'));
  }
  return all;
}

describe.each(storeKinds)('on $name, following', ({ use }) => {
  const newHome = use();

  /** Until it is in step or held up, as `until` says. */
  const follow = async (
    source: FollowedSource,
    target: IndexStore,
    until: { readonly inStep: number } | { readonly heldUp: RegExp },
  ) => {
    const controller = new AbortController();
    const rewinds: number[] = [];
    const heldUp: string[] = [];
    const end = (): void => controller.abort(new AbortError());
    await followStore({
      ...{ source, target, clock: systemClock, random: seededRandom(1), signal: controller.signal },
      onProgress: () => undefined,
      onInStep: (height) => {
        if ('inStep' in until && height === until.inStep) end();
      },
      onHeldUp: (reason) => {
        if (reason === undefined) return;
        heldUp.push(reason);
        if ('heldUp' in until && until.heldUp.test(reason)) end();
      },
      onRewind: (height) => void rewinds.push(height),
    });
    return { rewinds, heldUp };
  };
  const begin = async () => {
    const [source, target] = [await (await newHome()).open(), await (await newHome()).open()];
    await source.initialise(metaFrom(130));
    await append(source, range(130, 149));
    const from: FollowedSource = { look: () => Promise.resolve(storedSource(source)) };
    return { source, target, from };
  };
  const idAt = async (store: IndexStore, height: number) => (await store.blockByHeight(height))?.block.id;

  it('copies what comes, above and below, and goes back where the source went another way', async () => {
    const { source, target, from } = await begin();
    expect(await follow(from, target, { inStep: 149 })).toEqual({ rewinds: [], heldUp: [] });
    await append(source, range(150, 159));
    await fill(source, chain, range(110, 119));
    await follow(from, target, { inStep: 159 });
    expect(target.coverage()).toEqual([range(110, 119), range(130, 159)]);

    const other = otherAbove(144);
    await source.rewind(144);
    await append(source, range(145, 165), other);
    expect((await follow(from, target, { inStep: 165 })).rewinds).toEqual([144]);
    expect(await idAt(target, 144)).toBe(chain[44]!.block.id);
    expect(await idAt(target, 150)).toBe(other[50]!.block.id);
    expect(target.coverage()).toEqual([range(110, 119), range(130, 165)]);
  });

  it('waits for a source that is away, names a hole, and believes a lower end after a while', async () => {
    const { source, target, from } = await begin();
    const away: FollowedSource = { look: () => Promise.reject(new SourceTroubleError('It is away.')) };
    expect((await follow(away, target, { heldUp: /away/ })).heldUp).toEqual(['It is away.']);
    await follow(from, target, { inStep: 149 });
    const hole: FollowedSource = {
      look: () =>
        Promise.resolve({ ...storedSource(source), coverage: () => [range(130, 149), range(155, 160)] }),
    };
    await follow(hole, target, { heldUp: /Heights 150 to 154 are missing at the daemon/ });
    await source.rewind(140);
    const { heldUp, rewinds } = await follow(from, target, { inStep: 140 });
    expect([heldUp[0], rewinds]).toEqual([expect.stringContaining('ends at height 140, but'), [140]]);
    expect(target.coverage()).toEqual([range(130, 140)]);
  });

  it('changes nothing where the two have no block in common', async () => {
    const { from } = await begin();
    const stranger = await (await newHome()).open();
    await stranger.initialise(metaFrom(130));
    await append(stranger, range(130, 139), otherAbove(FIRST - 1));
    await expect(follow(from, stranger, { inStep: 149 })).rejects.toMatchObject({ exit: 'foreign' });
    expect(stranger.coverage()).toEqual([range(130, 139)]);
  });
});
