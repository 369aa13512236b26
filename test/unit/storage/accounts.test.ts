import fc from 'fast-check';
import { expect, it } from 'vitest';
import { accountRoles, type Address } from '../../../src/flow/index.js';
import { accountChain, accounts, begin, chainWith, commitThrough, digestOf } from '../../support/index.js';
import { everyTransactionOf, fill, keyOf, listedIn, makeChain, makeCollection } from '../../support/index.js';
import { matching, MemoryDatabase, range, sealed, seededCollection } from '../../support/index.js';
import { seededRandom, storeOver, transactionBy } from '../../support/index.js';
import type { LevelIndexStore } from '../../../src/storage/index.js';

const FIRST = 50;
/** More than one step goes through. */
const HEIGHTS = 400;
const LAST = FIRST + HEIGHTS - 1;
const chain = accountChain(seededRandom(7), FIRST, HEIGHTS);
const ALL = accountRoles.payer + accountRoles.proposer + accountRoles.authorizer;

async function begun(isOn: boolean): Promise<{ database: MemoryDatabase; store: LevelIndexStore }> {
  const database = new MemoryDatabase();
  const store = await begin(storeOver(database, isOn), FIRST);
  return { database, store };
}

const blocksUpTo = (from: number, to: number) => chain.slice(from - FIRST, to - FIRST + 1);
const commitUpTo = (store: LevelIndexStore, height: number) => commitThrough(store, chain, height);

async function whole(isOn: boolean) {
  const { database, store } = await begun(isOn);
  await commitUpTo(store, LAST);
  return { database, store };
}

async function build(store: LevelIndexStore): Promise<number> {
  let steps = 0;
  while (store.accounts.coverage()?.missingHeights !== 0) {
    await store.accounts.extend();
    steps += 1;
    if (steps > HEIGHTS) throw new Error('the index does not get further');
  }
  return steps;
}

async function expectTrue(store: LevelIndexStore): Promise<void> {
  const coverage = store.accounts.coverage();
  if (coverage === undefined) return;
  expect(coverage.to).toBe(store.latestIndexedHeight());
  // Nothing is indexed: a list has its end, though blocks above a gap may lack their entries.
  if (coverage.to < FIRST && coverage.missingHeights > 0) return;
  const covered = blocksUpTo(coverage.from, coverage.to);
  for (const address of accounts)
    expect(await listedIn(store.accounts, address, ALL, 7)).toEqual(everyTransactionOf(address, covered));
}

it('sends a caller on who asks for a role that an account next to never has', async () => {
  const [address, other] = accounts as [Address, Address];
  const [own, others] = [Buffer.from(address, 'hex'), Buffer.from(other, 'hex')];
  const parties = { payer: own, proposer: others };
  const rare = makeCollection([transactionBy('rare', { ...parties, authorizers: [own] })]);
  const many = Array.from({ length: 2_500 }, (_, index) =>
    transactionBy(`${index}`, { ...parties, authorizers: [] }),
  );
  const blocks = makeChain(FIRST, [[rare], [makeCollection(many)]]);
  const { store } = await begun(true);
  await store.commit({ blocks, latestIndexedHeight: FIRST + 1 });
  const query = { address, roles: accountRoles.authorizer, limit: 10 };
  const first = await store.accounts.page(query);
  // Not all of the newer ones were looked at, and none of them was meant.
  expect(first).toMatchObject({ transactions: [], next: { height: FIRST + 1 } });
  const second = await store.accounts.page({ ...query, before: first.next });
  expect(second.transactions).toEqual(
    everyTransactionOf(address, blocks).filter(({ roles }) => (roles & accountRoles.authorizer) !== 0),
  );
  expect(second).toMatchObject({ transactions: [{ place: { height: FIRST } }], next: undefined });
});

it.each([
  [300, 1],
  [200, 2],
  [900, 1],
])('is built in steps of bounded bytes: of blocks of %i KiB, %i at once', async (kib, heightsAtOnce) => {
  const blocks = chainWith(FIRST, 6, (index) => [seededCollection(`${index}`, 1, kib * 1024)]);
  const { database, store } = await begun(false);
  await store.commit({ blocks, latestIndexedHeight: FIRST + 5 });
  const on = await storeOver(database, true);
  for (let missing = 6 - heightsAtOnce; missing >= 0; missing -= heightsAtOnce) {
    await on.accounts.extend();
    expect(on.accounts.coverage()).toMatchObject({ missingHeights: missing });
  }
});

it('keeps to a bound of what it remembers, however often it is switched off and on', async () => {
  const { database, store: first } = await begun(true);
  let store = first;
  for (let height = FIRST; height < LAST - 4; height += 12) {
    // Nine heights with, then three without.
    await commitUpTo(store, height + 8);
    store = await storeOver(database, false);
    await commitUpTo(store, height + 11);
    store = await storeOver(database, true);
  }
  const record = await database.get(Buffer.of(0x04));
  // Sixteen ranges of two heights, and the checksum.
  expect(record).toHaveLength(16 * 16 + 4);
  await expectTrue(store);
  await commitUpTo(store, LAST);
  await build(store);
  await expectTrue(store);
  expect(await digestOf(store)).toBe(await builtAlong());
});

it('builds nothing of a height whose block is gone, or whose body holds no collection', async () => {
  const { database } = await whole(false);
  const on = await storeOver(database, true);
  const { height } = chain.findLast(({ collections }) =>
    collections.some(({ encoded }) => encoded.length > 0),
  )!.block;
  const [record, body] = [keyOf(0x10, height), keyOf(0x11, height, 0)];
  const { length } = (await database.get(body))!;
  for (const [key, value, damage] of [
    [record, undefined, 'block record of height \\d+: it is missing'],
    [body, sealed(body, Buffer.alloc(length - 4, 0xff)), 'collection \\d of height \\d+: '],
  ] as const) {
    const sound = await database.get(key);
    await database.set(key, value);
    const error = { kind: 'corrupt', height, damage: matching(new RegExp(`^${damage}`)) };
    await expect(on.accounts.extend()).rejects.toMatchObject(error);
    await database.set(key, sound);
  }
  expect(on.accounts.coverage()).toMatchObject({ missingHeights: HEIGHTS });
  await build(on);
  expect(await digestOf(on)).toBe(await builtAlong());
});

it('never serves an entry that leads nowhere', async () => {
  const { database, store } = await whole(true);
  const [address] = accounts as [Address];
  const { place } = everyTransactionOf(address, chain)[0]!;
  // Its key, with a collection that the block has not: turned over, as all of the place is.
  const key = Buffer.alloc(25, 0xff);
  key[0] = 0x23;
  key.write(address, 1, 'hex');
  key.writeUInt32BE(0xffff_ffff - place.height, 13);
  key.writeUInt32BE(0xffff_ffff - 900, 17);
  await database.set(key, sealed(key, Buffer.from([ALL, 0, 0, 0, 0, 0, 0, 0, 1])));
  await expect(store.accounts.page({ address, roles: ALL, limit: 50 })).rejects.toMatchObject({
    ...{ kind: 'corrupt', height: place.height },
    damage: `entry of the account index of height ${place.height}: there is no such block or collection`,
  });
});

it('is none where it was switched on and off before there was a height', async () => {
  const { database } = await begun(true);
  const off = await storeOver(database, false);
  await off.close();
  await off.accounts.extend();
  expect(off.accounts.coverage()).toBeUndefined();
});

/** Of a store that never had it, of which nothing changes where it is built. */
const bare = async (): Promise<string> => {
  const { store } = await whole(false);
  await store.accounts.extend();
  expect(store.accounts.coverage()).toBeUndefined();
  for await (const [key] of store.entries()) expect([0x04, 0x23]).not.toContain(key[0]);
  return digestOf(store);
};

it.each([0, 1, 2, Infinity])('is forgotten, and never false, if %d writes are the last', async (writes) => {
  for (const isOn of [true, false, undefined]) {
    const { database } = await whole(true);
    const store = await storeOver(database, isOn);
    let entries = 0;
    for await (const [key] of store.entries()) if (key[0] === 0x23) entries += 1;
    expect(entries).toBeGreaterThan(100);
    database.endsAfter(writes, new Crash());
    if (writes === Infinity) {
      expect(await store.forgetAccounts()).toBe(entries);
      expect(store.accounts.coverage()).toBeUndefined();
      expect(store.latestIndexedHeight()).toBe(LAST);
      expect(await digestOf(store)).toBe(await bare());
      expect(await store.forgetAccounts()).toBeUndefined();
    } else await expect(store.forgetAccounts()).rejects.toBeInstanceOf(Crash);
    database.beforeWrite = () => Promise.resolve();
    const next = await storeOver(database, isOn);
    await expectTrue(next);
    if (isOn === true) {
      if (writes === Infinity) expect(next.accounts.coverage()).toMatchObject({ missingHeights: HEIGHTS });
      await build(next);
      expect(await digestOf(next)).toBe(await builtAlong());
    }
    expect((await next.forgetAccounts()) ?? 0).toBeGreaterThanOrEqual(0);
    expect(await digestOf(next)).toBe(await bare());
  }
});

it('leaves nothing of a step whose blocks a rewind removes, nor takes them for damage', async () => {
  const { database } = await whole(false);
  for (const target of [LAST - 1, LAST - 60, LAST - 200]) {
    const on = await storeOver(database, true);
    const damages: unknown[] = [];
    on.onDamage((damage) => damages.push(damage));
    await Promise.all([on.accounts.extend(), on.rewind(target)]);
    expect(damages).toEqual([]);
    await build(on);
    await expectTrue(on);
    const { store: along } = await begun(true);
    await commitUpTo(along, target);
    expect(await digestOf(on)).toBe(await digestOf(along));
    await on.forgetAccounts();
  }
});

it('covers a range that is published while a step is under way', async () => {
  const database = new MemoryDatabase();
  await begin(storeOver(database, false), FIRST + 10, blocksUpTo(FIRST + 10, LAST - 50), LAST - 50);
  const store = await storeOver(database, true);
  await commitUpTo(store, LAST);
  await Promise.all([fill(store, chain, range(FIRST, FIRST + 9)), store.accounts.extend()]);
  await build(store);
  await expectTrue(store);
});

it('does not take a range for covered that went on while it was off', async () => {
  const database = new MemoryDatabase();
  const on = await begin(storeOver(database, true), FIRST + 10);
  await commitUpTo(on, LAST);
  const history = range(FIRST, FIRST + 9);
  await commitThrough(await on.ranges.run(history), chain, FIRST + 4);
  for (const isOn of [false, true]) await storeOver(database, isOn);
  await fill(await storeOver(database, false), chain, history);
  const again = await storeOver(database, true);
  expect(again.accounts.coverage()).toMatchObject({ missingHeights: 10 });
  await build(again);
  await expectTrue(again);
});

it('is the same store whatever happens on the way', { timeout: 120_000 }, async () => {
  const height = fc.integer({ min: FIRST, max: LAST });
  const some = fc.integer({ min: 0, max: 3 });
  const isOn = fc.constantFrom(true, true, false, undefined);
  const act = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(fc.constant('commit' as const), height) },
    { weight: 2, arbitrary: fc.tuple(fc.constant('commitAbove' as const), height) },
    { weight: 2, arbitrary: fc.tuple(fc.constant('rewind' as const), height) },
    { weight: 3, arbitrary: fc.tuple(fc.constant('open' as const), isOn) },
    { weight: 5, arbitrary: fc.tuple(fc.constant('extend' as const), some) },
    // The process ends after so many more writes, in the middle of whatever it does.
    { weight: 2, arbitrary: fc.tuple(fc.constant('crash' as const), some) },
  );
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(act, { maxLength: 14 }), async (isOnAtFirst, acts) => {
      const { database, store: first } = await begun(isOnAtFirst);
      let store = first;
      let isOn = isOnAtFirst;
      const reopen = async (wanted: boolean | undefined): Promise<void> => {
        database.beforeWrite = () => Promise.resolve();
        store = await storeOver(database, wanted);
        isOn = store.accounts.coverage() !== undefined;
      };
      for (const [does, what] of acts) {
        try {
          if (does === 'commit' && what > store.latestIndexedHeight()) await commitUpTo(store, what);
          if (does === 'commitAbove' && what > store.latestIndexedHeight() + 1) {
            const blocks = blocksUpTo(what, what + 9).filter(({ block }) => !store.hasHeight(block.height));
            await store.commit({ blocks, latestIndexedHeight: store.latestIndexedHeight() });
          }
          if (does === 'rewind') await store.rewind(what);
          if (does === 'extend') for (let step = 0; step <= what; step += 1) await store.accounts.extend();
          if (does === 'open') await reopen(what);
          if (does === 'crash') {
            database.endsAfter(what, new Crash());
            continue;
          }
        } catch (error) {
          if (!(error instanceof Crash)) throw error;
          await reopen(isOn);
        }
        await expectTrue(store);
      }
      await reopen(true);
      if (store.latestIndexedHeight() < LAST) await commitUpTo(store, LAST);
      await build(store);
      await expectTrue(store);
      expect(await digestOf(store)).toBe(await builtAlong());
    }),
    { numRuns: 6 },
  );
});

class Crash extends Error {}

let along: Promise<string> | undefined;
const builtAlong = (): Promise<string> => (along ??= whole(true).then(({ store }) => digestOf(store)));
