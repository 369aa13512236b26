import { describe, expect, it } from 'vitest';
import { parseSporkTable } from '../../../src/access/pool/sporks/sporkTable.js';
import { confirmRootAbove } from '../../../src/app/lifecycle/knownBlocks.js';
import { sha3, toIdentifier } from '../../../src/flow/index.js';
import { ParentLinkError } from '../../../src/storage/index.js';
import { chainWith, commitThrough, makeBlock, metaFrom, storeKinds } from '../../support/index.js';

const FIRST = 100;
const ROOT = 110;
/** The root names a block that the spork before discarded. */
const discarded = toIdentifier(sha3(Buffer.from('discarded')));
const lower = chainWith(FIRST, ROOT - FIRST, () => []);
const root = makeBlock(ROOT, discarded, []);
const chain = [...lower, root, makeBlock(ROOT + 1, root.block.id, [])];
const range = { from: FIRST, to: ROOT - 1 };
const spork = (
  name: string,
  rootHeight: number,
  endHeightExclusive: number | null,
  rootParentId: string,
) => ({ ...{ name, rootHeight, endHeightExclusive, rootParentId, accessNodes: [`${name}.test:9000`] } });
const table = (rootParentId: string) => {
  const devnet = [spork('one', FIRST, ROOT, 'aa'.repeat(32)), spork('two', ROOT, null, rootParentId)];
  return parseSporkTable({ devnet }, 'devnet', 'of the test');
};

describe.each(storeKinds)('a range below an unconfirmed root, on $name', ({ use }) => {
  const newHome = use();

  it.each([
    ['with the spork on record', [{ rootHeight: ROOT, sporkId: '02' }]],
    ['without', []],
  ])('is published once the table confirms it, %s', async (_, sporks) => {
    const home = await newHome();
    const store = await home.open();
    await store.initialise({ ...metaFrom(ROOT), sporks });
    await store.commit({ blocks: chain.slice(-2), latestIndexedHeight: ROOT + 1 });
    const refused = await store.ranges.run(range);
    await confirmRootAbove(range, refused, { store, sporks: [] });
    await confirmRootAbove(range, refused, { store, sporks: table('bb'.repeat(32)) });
    await expect(commitThrough(refused, chain, ROOT - 1)).rejects.toThrow(ParentLinkError);

    await store.ranges.change({ dropped: [range] });
    const run = await store.ranges.run(range);
    await confirmRootAbove(range, run, { store, sporks: table(discarded) });
    await commitThrough(run, chain, ROOT - 1);
    expect(store.coverage()).toEqual([{ from: FIRST, to: ROOT + 1 }]);
    expect(store.meta()?.sporks.at(-1)).toMatchObject({ rootHeight: ROOT, rootParentId: discarded });
  });
});
