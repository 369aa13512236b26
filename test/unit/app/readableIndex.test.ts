import { expect, it } from 'vitest';
import { finalBlock, readableIndex } from '../../../src/app/threads/readableIndex.js';
import type { HeightRange, IndexStore, SporkRecord } from '../../../src/storage/index.js';
import { begin, idOf, MemoryIndexStore, smallChain } from '../../support/index.js';

const chain = smallChain(100, new Array<[]>(20).fill([]));
const final = (height: number) => ({ height, id: idOf(`${height}`), parentId: idOf(`${height - 1}`) });

/** A store that has the heights 50 to 60 and 100 to 119, and knows which of them are not proven. */
class ProvenStore extends MemoryIndexStore {
  known: readonly HeightRange[] | undefined = [];
  spork: SporkRecord | undefined;

  static async filled(): Promise<ProvenStore> {
    const store = await begin(Promise.resolve(new ProvenStore()), 100, chain);
    store.switchAccountsOn();
    return store;
  }

  override coverage(): readonly HeightRange[] {
    return [{ from: 50, to: 60 }, ...super.coverage()];
  }

  override meta() {
    const meta = super.meta();
    return meta && { ...meta, sporks: this.spork === undefined ? [] : [this.spork] };
  }

  override unproven = (): readonly HeightRange[] => this.known ?? [];
}

type Finality = 'proven' | 'reported';

/** What is read where the block at a height is proven final, and where seals are proven up to another. */
const read = (
  store: IndexStore,
  height: number | undefined,
  finality: Finality = 'proven',
  {
    mode = 'auto',
    sealed,
    reason,
  }: { mode?: 'auto' | 'off'; sealed?: number | undefined; reason?: string } = {},
) =>
  readableIndex(
    { proof: { mode, finality, checkpoint: undefined } },
    {
      ...{ store, replica: undefined },
      listener: { finalized: { height: 119 }, sealed: { height: 120 } },
      prover: {
        finalBlock: () => (height === undefined ? undefined : final(height)),
        ...{ sealedHeight: () => sealed, status: () => ({ reason }) },
      },
    },
  );

it('what can be read ends at the proven height where finality has to be proven, the account index too', async () => {
  const { awaitsProof, shown } = read(await ProvenStore.filled(), 110);
  expect(awaitsProof).toEqual([{ from: 100, to: 119 }]);
  expect(shown).toMatchObject({
    ...{ latestIndexedHeight: 110, latestBlock: final(110) },
    coverage: [
      { from: 50, to: 60 },
      { from: 100, to: 110 },
    ],
    accounts: { from: 100, to: 110 },
  });
});

it('what can be read is nothing before a height is proven, never more than is indexed, and all of that where the nodes are believed', async () => {
  const store = await ProvenStore.filled();
  expect(read(store, undefined)).toMatchObject({
    shown: { latestIndexedHeight: 99, latestBlock: undefined, coverage: [] },
    proven: { from: 0, to: -1 },
    awaitsProof: store.coverage(),
  });
  expect(read(store, 130).shown.latestIndexedHeight).toBe(119);
  const { proven, shown } = read(store, 110, 'reported');
  expect(shown).toMatchObject({ latestIndexedHeight: 119, coverage: store.coverage() });
  expect(proven).toEqual({ from: 100, to: 110 });
  expect(read(store, 110, 'reported', { mode: 'off' }).proven).toBeUndefined();
});

it('what can be read ends at what another process has proven, which leads', async () => {
  const shared = {
    lead: () => Promise.reject(new Error('not asked')),
    follow: () => Promise.resolve(),
    isLeading: (): boolean => false,
    onChanged: () => () => undefined,
  };
  const provenBlock = () => final(105);
  const store: IndexStore = Object.assign(await ProvenStore.filled(), { provenBlock, shared });
  const shown = { latestIndexedHeight: 105, latestBlock: final(105) };
  expect(read(store, 119)).toMatchObject({ shown, proven: { from: 100, to: 105 } });
  expect(finalBlock({ store, prover: undefined })).toEqual(final(105));
  shared.isLeading = () => true;
  expect([read(store, 103), read(store, 108)].map(({ proven }) => proven?.to)).toEqual([105, 108]);
});

it('what is called proven begins above a hole, the last unproven block, and a root whose parent is not the block below', async () => {
  const store = await ProvenStore.filled();
  store.known = [
    { from: 52, to: 53 },
    { from: 102, to: 104 },
    { from: 115, to: 119 },
  ];
  expect(read(store, 110).proven).toEqual({ from: 105, to: 110 });
  expect(read(store, 60).proven).toEqual({ from: 54, to: 60 });
  store.spork = { rootHeight: 107, sporkId: 'ab', rootParentId: idOf('another') };
  expect(read(store, 110).proven).toEqual({ from: 107, to: 110 });
  expect(read(store, 106).proven).toEqual({ from: 105, to: 106 });
  store.known = [{ from: 109, to: 119 }];
  const { from, to } = read(store, 110).proven ?? { from: 0, to: 0 };
  expect(from).toBeGreaterThan(to);
});

const sealed = (finality: Finality, proven: number | undefined, reason?: string) =>
  read(new MemoryIndexStore(), undefined, finality, { sealed: proven, ...(reason && { reason }) }).sealed;

it('the sealed head is proven, and reported by nodes where no seal is known or no more can be proven, unless readers see only what is proven', () => {
  expect([sealed('reported', 110), sealed('reported', undefined)]).toEqual([110, 120]);
  expect(sealed('reported', 110, 'nodes give no protocol state')).toBe(120);
  expect(sealed('proven', 110, 'nodes give no protocol state')).toBe(110);
  expect(sealed('proven', undefined)).toBe(120);
});
