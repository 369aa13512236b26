import { statSync } from 'node:fs';
import { expect, it } from 'vitest';
import { accountChain, begin, commitThrough, digestOf, filesOf, heightOf } from '../../support/index.js';
import { range, repairAt, sealed, seededRandom, TABLE, useStores } from '../../support/index.js';
import { verifyAt, withRawDatabase } from '../../support/index.js';
import type { RawDatabase } from '../../support/index.js';

const FIRST = 20;
const chain = accountChain(seededRandom(3), FIRST, 200);
const LAST = FIRST + chain.length - 1;
const COVERAGE = Buffer.of(0x04);
const ENTRIES = { gte: Buffer.of(0x23), lt: Buffer.of(0x24) };

const { open, filled, freshPath, changedStore } = useStores();

/** Heights up to LAST - 50 without the index, the rest with it; `steps` of the building are done. */
const halfBuilt = async (steps: number): Promise<string> => {
  const path = await freshPath();
  await (await filled(chain.slice(0, -50), path)).close();
  const on = await open(path, { accounts: true });
  await commitThrough(on, chain, LAST);
  for (let step = 0; step < steps; step += 1) await on.accounts.extend();
  await on.close();
  return path;
};

const entryAt = async (path: string, from: number, to: number): Promise<[Buffer, Buffer]> => {
  const entries = await withRawDatabase(path, (database) => database.iterator(ENTRIES).all());
  return entries.find(([key]) => heightOf(key)! >= from && heightOf(key)! <= to)!;
};

it('tell an entry that is missing, one that is changed and one that nobody calls for', async () => {
  const path = await halfBuilt(2);
  const [missing] = await entryAt(path, LAST - 20, LAST);
  const [changed, value] = await entryAt(path, LAST - 60, LAST - 45);
  const [other] = await entryAt(path, FIRST, FIRST + 20);
  const extra = Buffer.from(other);
  extra.writeUInt32BE(extra.readUInt32BE(21) - 900, 21);
  await withRawDatabase(path, async (database) => {
    await database.del(missing);
    const payload = Buffer.from(value.subarray(0, -4));
    payload[0] = payload[0] === 1 ? 2 : 1;
    await database.put(changed, sealed(changed, payload));
    await database.put(extra, sealed(extra, Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 9])));
  });
  const { damages } = await verifyAt(path);
  const told = damages.map(({ height, kind, message }) => `${kind} ${height}: ${message.split(': ').at(-1)}`);
  const expected = [
    `pointer ${heightOf(missing)}: it is missing`,
    `pointer ${heightOf(changed)}: it is not what it should be`,
    `unexpected ${heightOf(extra)}: no block requires it`,
  ];
  expect(told.sort()).toEqual(expected.sort());
  await repairAt(path);
  expect((await verifyAt(path)).damages).toEqual([]);
  const store = await open(path, { accounts: true });
  expect(store.latestIndexedHeight()).toBe(LAST);
  expect(store.coverage()).toEqual([{ from: FIRST, to: LAST }]);
  expect(store.accounts.coverage()?.missingHeights).toBe(0);
});

it('tell of false entries below what is covered as well, and of none in a store without the index', async () => {
  const path = await halfBuilt(0);
  const [key] = await entryAt(path, LAST - 40, LAST);
  const low = Buffer.from(key);
  low.writeUInt32BE(0xffff_ffff - FIRST, 13);
  const payload = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 9]);
  await withRawDatabase(path, (database) => database.put(low, sealed(low, payload)));
  expect((await verifyAt(path)).damages).toMatchObject([{ kind: 'unexpected', height: FIRST }]);
  const bare = await changedStore(chain, (database) => database.put(low, sealed(low, payload)));
  expect((await verifyAt(bare)).damages).toMatchObject([{ kind: 'unexpected', height: FIRST }]);
});

it('find nothing wrong after the index was forgotten, which gives its room back', async () => {
  const path = await halfBuilt(2);
  const bytesOf = () => filesOf(path, TABLE).reduce((sum, file) => sum + statSync(file).size, 0);
  const before = bytesOf();
  const store = await open(path);
  expect(await store.forgetAccounts()).toBeGreaterThan(100);
  await store.close();
  expect((await verifyAt(path)).damages).toEqual([]);
  expect(bytesOf()).toBeLessThan(before);
  const plain = await filled(chain);
  expect(await digestOf(await open(path))).toBe(await digestOf(plain));
});

it.each<[string, (database: RawDatabase) => Promise<void>]>([
  ['damaged', (database) => database.put(COVERAGE, sealed(COVERAGE, Buffer.from('nonsense')))],
  ['lost', (database) => database.del(COVERAGE)],
])('forget the index when what it covers is %s, and keep every block', async (_, change) => {
  const path = await halfBuilt(2);
  const plain = await filled(chain);
  await withRawDatabase(path, change);
  await expect(open(path)).rejects.toMatchObject({ kind: 'corrupt' });
  expect((await verifyAt(path)).damages[0]).toMatchObject({ kind: 'store_record' });
  await repairAt(path);
  expect((await verifyAt(path)).damages).toEqual([]);
  expect(await digestOf(await open(path))).toBe(await digestOf(plain));
});

it('forget the entries of a range that is being filled as well, and have them again once it is', async () => {
  const path = await freshPath();
  const on = await begin(open(path, { accounts: true }), FIRST + 10, chain.slice(10));
  await commitThrough(await on.ranges.run(range(FIRST, FIRST + 9)), chain, FIRST + 4);
  await on.close();
  await withRawDatabase(path, (database) =>
    database.put(COVERAGE, sealed(COVERAGE, Buffer.from('nonsense'))),
  );
  await repairAt(path);
  const again = await open(path, { accounts: true });
  await commitThrough(await again.ranges.run(range(FIRST, FIRST + 9)), chain, FIRST + 9);
  while (again.accounts.coverage()?.missingHeights !== 0) await again.accounts.extend();
  await again.close();
  expect((await verifyAt(path)).damages).toEqual([]);
});
