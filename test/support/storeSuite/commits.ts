import { describe, expect, it } from 'vitest';
import { accountRoles, toIdentifier, ZERO_ID } from '../../../src/flow/index.js';
import { seededRandom } from '../seededRandom.js';
import type { BlockEntry, IndexStore, SporkRecord } from '../../../src/storage/index.js';
import { accountChain, accounts, everyTransactionOf, listedIn } from '../accountChain.js';
import { evidenceOf } from '../committeeEvidence.js';
import { MemoryIndexStore } from '../memoryIndexStore.js';
import { batchOf, chainWith, makeBlock, makeChain, makeCollection, makeTransaction } from '../storeBlocks.js';
import { plainChain, seededCollection, transactionIdsOf, transactionsOf } from '../storeBlocks.js';
import { begin, metaFrom } from '../storeDirectory.js';
import type { StoreHome, StoreKind } from '../storeKinds.js';
import { refusal } from '../refusal.js';

const UNKNOWN = toIdentifier(Buffer.alloc(32, 9));
const KIB = 1024;

/** Bytes of any kind are compared as buffers. */
const plain = <T extends { readonly encoded: Uint8Array }>(found: T | undefined) =>
  found && { ...found, encoded: Buffer.from(found.encoded) };

/** What holds of the store of every kind. */
export function commitSuite({ name, use }: StoreKind): void {
  describe(`the store on ${name}`, () => {
    const newHome = use();

    const filled = async (blocks: readonly BlockEntry[], home?: StoreHome): Promise<IndexStore> =>
      begin((home ?? (await newHome())).open(), blocks[0]?.block.height ?? 1, blocks);

    describe('reads what was committed:', () => {
      it('a collection of no transactions, and a body that is cut into chunks', async () => {
        const empty = makeCollection([]);
        const large = seededCollection('large', 3, 200 * KIB);
        const store = await filled(makeChain(0, [[], [empty, large, seededCollection('b', 1)]]));
        const read = [empty, large].map(async ({ id }) => plain(await store.item('collection', id))?.encoded);
        read.push(
          store.item('transaction', transactionIdsOf(large)[2]!).then((found) => plain(found)?.encoded),
        );
        const expected = [empty.encoded, large.encoded, transactionsOf(large)[2]!];
        // Compared as a whole: byte by byte takes seconds.
        for (const [index, encoded] of (await Promise.all(read)).entries())
          expect(encoded?.equals(expected[index]!)).toBe(true);
      });

      it('nothing of what it does not hold', async () => {
        const store = await filled(makeChain(10, [[seededCollection('a', 1)]]));
        for (const height of [9, 11, -1, 1.5, Number.NaN, 2 ** 60])
          for (const read of ['blockByHeight', 'wholeBlock'] as const)
            expect(await store[read](height), `${read} ${height}`).toBeUndefined();
        expect(await store.blockById(UNKNOWN)).toBeUndefined();
        for (const kind of ['collection', 'transaction'] as const) {
          expect(await store.item(kind, UNKNOWN), kind).toBeUndefined();
          expect(await store.places(kind, UNKNOWN, 3), kind).toEqual([]);
        }
      });

      it('nothing of a store that was never initialised', async () => {
        const store = await (await newHome()).open();
        expect(store.meta()).toBeUndefined();
        expect(store.latestIndexedHeight()).toBe(0);
        expect(store.coverage()).toEqual([]);
        expect(store.hasHeight(0)).toBe(false);
        expect(await store.blockByHeight(0)).toBeUndefined();
        expect([store.latestBlock(), store.blocksAboveWatermark()]).toEqual([undefined, []]);
        expect([store.ranges.open(), store.ranges.plans()]).toEqual([[], []]);
        await expect(store.commit({ blocks: [], latestIndexedHeight: 0 })).rejects.toThrow(/not initialised/);
        await expect(store.rewind(0)).rejects.toThrow(/not initialised/);
        await store.initialise(metaFrom(0));
        expect(store.latestIndexedHeight()).toBe(-1);
        await expect(store.initialise(metaFrom(0))).rejects.toThrow(/initialised already/);
      });
    });

    describe('a commit', () => {
      const chain = makeChain(100, [[], [seededCollection('a', 2)], [seededCollection('b', 1)], [], []]);
      const at = (height: number): BlockEntry => chain[height - 100]!;

      const begun = async (home?: StoreHome): Promise<IndexStore> =>
        begin((home ?? (await newHome())).open(), 100);

      it('may advance over durable blocks alone', async () => {
        const store = await begun();
        await store.commit({ blocks: [at(100), at(101)], latestIndexedHeight: 99 });
        await store.commit({ blocks: [], latestIndexedHeight: 101 });
        expect(store.latestBlock()?.id).toBe(at(101).block.id);
      });

      it('carries what was staged, and stores nothing else of it', async () => {
        const home = await newHome();
        const store = await begun(home);
        for (const height of [100, 101, 104]) store.stage(at(height));
        await store.commit(batchOf(at(100), at(101)));
        store.stage(at(102));
        await store.commit(batchOf(at(102), at(103)));
        await store.close();
        const again = await home.open();
        expect(again.hasHeight(104)).toBe(false);
        expect((await again.wholeBlock(102))?.bodies).toHaveLength(1);
      });

      const first = { rootHeight: 100, sporkId: 'aa' };

      it('records a spork with the block that begins it, once, and takes its confirmed parent', async () => {
        const home = await newHome();
        const store = await begun(home);
        const other = makeBlock(101, toIdentifier(Buffer.alloc(32, 7)), []);
        await store.commit(batchOf(at(100)));
        const spork = { rootHeight: 101, sporkId: 'bb', rootParentId: other.block.parentId };
        await store.commit({ ...batchOf(other), sporks: [spork] });
        expect(store.meta()?.sporks).toEqual([first, spork]);
        await store.close();
        const meta = (await home.open()).meta();
        const { schemaVersion } = meta!;
        expect(meta).toEqual({ ...metaFrom(100), schemaVersion, sporks: [first, spork] });
      });

      const of = (sporkId: string, hasParent: boolean) => ({
        ...{ rootHeight: 100, sporkId },
        ...(hasParent && { rootParentId: at(100).block.parentId }),
      });
      it.each([
        [undefined, of('bb', true)],
        [of('', false), of('bb', true)],
        [of('', true), of('bb', false)],
        [of('bb', false), of('bb', true)],
      ])('gives a spork its id and parent, whichever is known first: %j, %j', async (first, second) => {
        const home = await newHome();
        const store = await home.open();
        await store.initialise(metaFrom(100, { sporks: first === undefined ? [] : [first] }));
        await store.commit({ ...batchOf(at(100)), sporks: [second] });
        await store.close();
        expect((await home.open()).meta()?.sporks).toEqual([of('bb', true)]);
      });

      it('records sporks in ascending order, whichever root is durable first', async () => {
        const home = await newHome();
        const store = await begun(home);
        const [earlier, later] = [102, 104].map((root) => ({ rootHeight: root, sporkId: `of ${root}` }));
        await store.commit({ blocks: [at(104), at(100)], latestIndexedHeight: 100, sporks: [later!] });
        await store.commit({ ...batchOf(at(101), at(102)), sporks: [earlier!] });
        await store.close();
        expect((await home.open()).meta()?.sporks).toEqual([first, earlier, later]);
      });

      const unborn = { ...at(102), block: { ...at(102).block, id: ZERO_ID } };
      const other = { ...at(102), collections: [seededCollection('other', 1)] };
      const late = { rootHeight: 50, sporkId: 'cc' };
      const wrong: readonly [string, readonly BlockEntry[], RegExp, number?, SporkRecord?][] = [
        ['a watermark that goes down', [], /down to 100/, 100],
        ['a watermark over a missing height', [at(103)], /102, which is missing/, 103],
        ['a height that is durable already', [at(101)], /durable already/, 101],
        ['a block that is no child', [makeBlock(102, ZERO_ID, [])], /block 102 names the parent/],
        ['collections that are not there', [{ ...at(102), collections: [] }], /not the guaranteed ones/],
        ['another collection than the guaranteed one', [other], /not the guaranteed ones/],
        ['a height twice', [at(102), at(102)], /durable already/],
        ['a block that is no parent of the one above', [unborn, at(103)], /block 103 names the parent/, 103],
        ['a spork below that of the watermark', [at(102)], /not above the one that the watermark/, 102, late],
      ];
      it('is refused whatever is wrong with it, and the next one is not', async () => {
        const store = await begun();
        await store.commit(batchOf(at(100), at(101)));
        for (const [what, blocks, message, to = 102, spork] of wrong) {
          const batch = { blocks, latestIndexedHeight: to, sporks: spork === undefined ? [] : [spork] };
          await expect(store.commit(batch), what).rejects.toThrow(message);
        }
        await store.commit(batchOf(at(102)));
        expect(store.latestIndexedHeight()).toBe(102);
      });

      it('is one at a time', async () => {
        const store = await begun();
        const first = store.commit(batchOf(at(100)));
        await expect(store.commit(batchOf(at(101)))).rejects.toThrow(/under way/);
        await first;
      });

      it('that close() overtakes is not lost', async () => {
        const home = await newHome();
        const store = await begun(home);
        const commit = store.commit(batchOf(at(100)));
        await store.close();
        await commit;
        await expect(store.commit({ blocks: [], latestIndexedHeight: 100 })).rejects.toThrow('closed');
        expect((await home.open()).latestIndexedHeight()).toBe(100);
      });
    });

    describe('a rewind', () => {
      const chain = plainChain(10, 5);

      it('forgets who signs above, and keeps the rest', async () => {
        const home = await newHome();
        const store = await filled(chain, home);
        const [anchor, kept, gone] = [chain[0]!, chain[1]!, chain[2]!];
        for (const each of [gone, kept]) await store.keepEvidence(evidenceOf(each));
        await store.keepEvidence(evidenceOf(anchor));
        await store.keepEvidence(evidenceOf(anchor, true));
        const all = [evidenceOf(anchor, true), evidenceOf(kept), evidenceOf(gone)];
        expect(await store.evidence()).toEqual(all);
        await store.close();
        const again = await home.open();
        expect(await again.evidence()).toEqual(all);
        await again.rewind(11);
        expect(await again.evidence()).toEqual(all.slice(0, 2));
      });

      it('keeps who signs while blocks above a gap are forgotten, and of a block that is gone until there is another', async () => {
        const store = await filled(chain.slice(0, 2));
        await store.commit({ blocks: [chain[4]!], latestIndexedHeight: 11 });
        const [anchor, kept] = [evidenceOf(chain[0]!, true), evidenceOf(chain[1]!)];
        await Promise.all([store.keepEvidence(anchor), store.rewind(11), store.keepEvidence(kept)]);
        expect(await store.evidence()).toEqual([anchor, kept]);
        // Whoever reads it compares the id.
        await store.rewind(10).then(() => store.keepEvidence(kept));
        const other = { ...kept, id: UNKNOWN };
        await store.keepEvidence(other);
        expect(await store.evidence()).toEqual([anchor, other]);
      });

      it('forgets blocks above a gap, sporks that begin above, and, one below the first height, everything', async () => {
        const store = await filled(chain.slice(0, 2));
        const spork = { rootHeight: 14, sporkId: 'bb' };
        await store.commit({ blocks: [chain[4]!], latestIndexedHeight: 11, sporks: [spork] });
        await store.rewind(11);
        expect(store.blocksAboveWatermark()).toEqual([]);
        expect(store.meta()?.sporks).toEqual([{ rootHeight: 10, sporkId: 'aa' }]);
        await store.rewind(9);
        expect([store.latestIndexedHeight(), store.coverage(), store.latestBlock()]).toEqual([
          9,
          [],
          undefined,
        ]);
        await store.commit(batchOf(...chain));
        expect(store.coverage()).toEqual([{ from: 10, to: 14 }]);
      });

      it('does nothing above the highest height, and refuses to go below the first, or to no height', async () => {
        const store = await filled(chain);
        await store.rewind(14);
        await store.rewind(99);
        expect(store.latestIndexedHeight()).toBe(14);
        for (const height of [8, 1.5, Number.NaN, 2 ** 53])
          await expect(store.rewind(height)).rejects.toMatchObject({ exit: 'usage' });
        expect(store.latestIndexedHeight()).toBe(14);
      });
    });

    describe('the account index', () => {
      const blocks = accountChain(seededRandom(3), 20, 60);

      it('lists every transaction of an account in any of the roles asked for, newest first, nothing above the watermark', async () => {
        const store = await (await newHome()).open({ accounts: true });
        const first = 20;
        await store.initialise(metaFrom(first));
        const shown = first + 40;
        const kept = blocks.filter(({ block }) => block.height !== shown + 1);
        await store.commit({ blocks: kept, latestIndexedHeight: shown });
        const visible = blocks.filter(({ block }) => block.height <= shown);
        expect(store.accounts.coverage()).toEqual({ from: first, to: shown, missingHeights: 0 });
        for (const address of accounts) {
          const { authorizer, payer, proposer } = accountRoles;
          for (const roles of [payer, authorizer, payer + proposer, 7]) {
            const all = everyTransactionOf(address, visible);
            const expected = all.filter((each) => (each.roles & roles) !== 0);
            expect(await listedIn(store.accounts, address, roles, 3)).toEqual(expected);
          }
        }
      });

      it('is off where it is not wanted', async () => {
        const store = await begin((await newHome()).open({ accounts: false }), 1);
        expect(store.accounts.coverage()).toBeUndefined();
      });
    });

    describe('answers as the model does', { timeout: 120_000 }, () => {
      const random = seededRandom(7);
      const pick = (bound: number): number => Math.floor(random.next() * bound);
      const oneOf = <T>(all: readonly T[]): T => all[pick(all.length)]!;
      const twice = makeTransaction('twice');
      const pool = [
        makeCollection([makeTransaction('x'), twice, twice]),
        ...Array.from({ length: 12 }, (_, index) => seededCollection(`pool ${index}`, 1 + pick(4))),
      ];
      const FIRST = 50;
      const chain = chainWith(FIRST, 60, () => Array.from({ length: pick(4) }, () => oneOf(pool)));

      /** Everything that is asked for one of each kind. */
      const answers = async (
        store: IndexStore,
        { block, collections, height }: { block: BlockEntry; collections: typeof pool; height: number },
      ) => {
        const stored = [await store.blockById(block.block.id), await store.blockByHeight(height)];
        const of = collections.map(async (collection) => {
          const { id } = collection;
          const ids = transactionIdsOf(collection);
          return {
            collection: plain(await store.item('collection', id)),
            places: await store.places('collection', id, 5),
            transactions: await Promise.all(
              ids.map(async (each) => plain(await store.item('transaction', each))),
            ),
            transactionPlaces: await Promise.all(ids.map((each) => store.places('transaction', each, 5))),
          };
        });
        return {
          ...{ coverage: store.coverage(), latest: store.latestIndexedHeight(), stored },
          latestId: store.latestBlock()?.id,
          above: store.blocksAboveWatermark().map(({ id }) => id),
          hasHeight: store.hasHeight(height),
          bodies: (await store.wholeBlock(height))?.bodies.map((body) => Buffer.from(body)),
          of: await Promise.all(of),
        };
      };

      it('whatever is committed in whatever order, rewound or opened again', async () => {
        const model = await MemoryIndexStore.startingAt(FIRST);
        const home = await newHome();
        let store = await home.open();
        await store.initialise(metaFrom(FIRST));
        const waiting = [...chain];
        while (waiting.length > 0) {
          const reach = Math.min(waiting.length, 8);
          const blocks = Array.from(
            { length: 1 + pick(reach) },
            () => waiting.splice(pick(Math.min(reach, waiting.length)), 1)[0]!,
          );
          let latestIndexedHeight = model.latestIndexedHeight();
          const there = (height: number): boolean =>
            model.hasHeight(height) || blocks.some(({ block }) => block.height === height);
          while (there(latestIndexedHeight + 1)) latestIndexedHeight += 1;
          for (const entry of blocks) if (random.next() < 0.5) store.stage(entry);
          await model.commit({ blocks, latestIndexedHeight });
          await store.commit({ blocks, latestIndexedHeight });
          if (random.next() < 0.1) {
            await store.close();
            store = await home.open();
          }
          if (random.next() < 0.15) {
            const to = FIRST - 1 + pick(model.latestIndexedHeight() + 2 - FIRST);
            await model.rewind(to);
            await store.rewind(to);
            waiting.splice(0, waiting.length, ...chain.filter(({ block }) => block.height > to));
          }
          const asked = { block: oneOf(chain), collections: [oneOf(pool)], height: FIRST - 1 + pick(62) };
          expect(await answers(store, asked)).toEqual(await answers(model, asked));
        }
        for (const [index, block] of chain.entries()) {
          const asked = { block, collections: index === 0 ? pool : [], height: block.block.height };
          expect(await answers(store, asked)).toEqual(await answers(model, asked));
        }
      });
    });

    it('of another chain is refused', async () => {
      const home = await newHome();
      await (await filled(makeChain(1, [[]]), home)).close();
      await expect(home.open({ chainId: 'flow-mainnet' })).rejects.toMatchObject(
        refusal('foreign', /belongs to chain flow-localnet, not to flow-mainnet/),
      );
      // A refusal leaves no lock behind.
      expect((await home.open()).latestIndexedHeight()).toBe(1);
    });

    it('that is not there is refused where none is to be made', async () => {
      const home = await newHome({ isEmpty: true });
      await expect(home.open({ create: false })).rejects.toMatchObject({ kind: 'missing' });
    });

    it('has one writer at a time', async () => {
      const home = await newHome();
      const first = await filled(makeChain(1, [[]]), home);
      const second = home.open();
      // The second is refused, or the first is replaced.
      const both = second.then(() => first.commit({ blocks: [], latestIndexedHeight: 1 }));
      await expect(both).rejects.toMatchObject({ kind: 'locked' });
    });
  });
}
