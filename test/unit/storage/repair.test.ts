import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import type { RepairReport } from '../../../src/storage/index.js';
import { begin, chainWith, commitThrough, digestOf, evidenceOf } from '../../support/index.js';
import { fault, fill, flip, heal, keyOf, range, repairAt, sealed } from '../../support/index.js';
import { seededCollection, useStores, verifyAt, withRawDatabase } from '../../support/index.js';
import * as files from '../../support/databaseFiles.js';

const FIRST = 1;
const LAST = 60;
const chain = chainWith(FIRST, LAST, (index) => [seededCollection(`r${index}`, 1 + (index % 4), 1500)]);

const { freshPath, filled, open, closedStore, changedStore } = useStores();

/** What a store must be when its watermark is here: digests of stores that nothing happened to. */
const digests = new Map<number, string>();
async function digestThrough(height: number): Promise<string> {
  const digest = digests.get(height) ?? (await digestOf(await filled(chain.slice(0, height - FIRST + 1))));
  digests.set(height, digest);
  return digest;
}

/** The store of a path, its holes filled in, is what it says it is; gives its watermark. */
async function expectSound(path: string): Promise<number> {
  const store = await open(path);
  const watermark = store.latestIndexedHeight();
  await heal(store, chain.slice(0, watermark - FIRST + 1));
  expect(store.meta()?.firstHeight).toBe(FIRST);
  expect(await digestOf(store), `watermark ${watermark}`).toBe(await digestThrough(watermark));
  await store.close();
  return watermark;
}

/** The store of a path can be filled in down to the first height of the chain, whatever its sporks say. */
async function expectWhole(path: string): Promise<boolean> {
  const store = await open(path);
  await heal(store, chain);
  expect(store.coverage()).toEqual([{ from: FIRST, to: LAST }]);
  expect(store.meta()?.schemaVersion).toBe(1);
  await store.close();
  return (await verifyAt(path)).damageCount === 0;
}

type Change = Parameters<typeof changedStore>[1];
const breakPointers: Change = async (database) => {
  const pointers = { gte: Buffer.of(0x20), lt: Buffer.of(0x23) };
  for (const [index, [key, value]] of (await database.iterator(pointers).all()).entries()) {
    if (index % 7 === 0) await database.del(key);
    if (index % 7 === 1) await database.put(key, sealed(key, Buffer.concat([value, value])));
    if (index % 7 === 2) await database.put(Buffer.concat([key, key]), value);
  }
};

const damageTwo: Change = async (database) => {
  await flip(database, keyOf(0x11, 40, 0), 3);
  await database.del(keyOf(0x10, 50));
};
const kept = [range(FIRST, 39), range(41, 49), range(51, LAST)];
const loseAll: Change = (database) => database.clear({ gte: Buffer.of(0x10), lt: Buffer.of(0x11) });
const foreign = Buffer.from('of another program');

it.each<[string, Change, Partial<RepairReport>]>([
  ['has nothing to do in a sound store', () => Promise.resolve(), { damageCount: 0, applied: false }],
  ['makes anew what leads to sound blocks', breakPointers, { holes: [] }],
  ['plans its first height', (database) => database.del(keyOf(0x10, 1)), { holes: [range(1)] }],
  ['makes a lost progress record anew', (database) => database.del(Buffer.of(2)), {}],
  ['keeps what is around damaged and lost records', damageTwo, { kept, holes: [range(40), range(50)] }],
  ['removes what is not its own', (database) => database.put(Buffer.of(0x30, 1), foreign), { holes: [] }],
  ['keeps the store alone when every block is lost', loseAll, { keptThrough: 0 }],
])('%s', async (_, change, expected) => {
  const path = await changedStore(chain, change);
  const filesOf = async () => (await readdir(path)).filter((name) => /ldb|MANIFEST/.test(name));
  const before = await filesOf();
  const plan = await repairAt(path, { apply: false });
  expect([await filesOf(), plan.applied]).toEqual([before, false]);
  const report = await repairAt(path);
  expect(report).toEqual({ ...plan, applied: report.applied });
  expect(report).toMatchObject({ applied: true, keptThrough: LAST, ...expected });
  expect(await verifyAt(path)).toMatchObject({ damageCount: 0 });
  expect(await expectSound(path)).toBe(report.keptThrough);
});

// Of all damaged files of a database: test/disk/files.ts, a sample of which test/e2e/damagedStore.test.ts plays.
it.each<[string, RegExp, files.FileChange]>([
  ['CURRENT is gone', files.CURRENT, files.gone],
  ['CURRENT names no manifest', files.CURRENT, files.holding('MANIFEST-999999\n')],
  ['manifest is gone', files.MANIFEST, files.gone],
  ['manifest is cut', files.MANIFEST, files.cutAt(0.5)],
])('loses nothing of a store whose %s, and which is refused until then', async (_, kind, change) => {
  const path = await closedStore(chain);
  files.changeFile(path, kind, change);
  await expect(open(path)).rejects.toMatchObject(fault('corrupt', /"verify".*"repair --yes"/s));
  expect((await verifyAt(path)).damageCount).toBeGreaterThan(0);
  expect(await repairAt(path)).toMatchObject({ applied: true, keptThrough: LAST, holes: [] });
  expect(await verifyAt(path)).toMatchObject({ damageCount: 0 });
  expect(await expectSound(path)).toBe(LAST);
});

it('keeps what an account index had that is off, below a top that is lost', async () => {
  const path = await freshPath();
  await (await begin(open(path, { accounts: true }), FIRST, chain)).close();
  await (await open(path, { accounts: false })).close();
  await withRawDatabase(path, (database) => database.del(keyOf(0x10, LAST)));
  expect(await repairAt(path)).toMatchObject({ keptThrough: LAST - 1, applied: true });
  expect((await verifyAt(path)).damages).toEqual([]);
  expect((await open(path, { accounts: true })).accounts.coverage()).toMatchObject({ missingHeights: 0 });
});

it.each([
  ['the ranges', 0x05],
  ['the plans', 0x06],
  ['an open range', 0x07],
])('does without the record of %s, where that is damaged', async (_, prefix) => {
  const path = await closedStore(chain.slice(40));
  const store = await open(path);
  const plan = { ...{ from: 1, to: 40 }, order: 'oldest', isPaused: false } as const;
  await store.ranges.change({ plans: [{ id: 1, ...plan }] });
  await fill(store, chain, { from: 11, to: 20 });
  await commitThrough(await store.ranges.run({ from: 21, to: 30 }), chain, 25);
  await store.close();
  await withRawDatabase(path, async (database) => {
    const range = { gte: Buffer.of(prefix), lt: Buffer.of(prefix + 1) };
    for (const [key] of await database.iterator(range).all()) await database.put(key, Buffer.from('none'));
  });
  await expect(open(path)).rejects.toMatchObject({ kind: 'corrupt' });
  expect(await repairAt(path)).toMatchObject({ keptThrough: LAST });
  const repaired = await open(path);
  expect(repaired.coverage()).toContainEqual({ from: 41, to: LAST });
  await repaired.ranges.change({ plans: [{ id: 2, ...plan }] });
  await repaired.close();
  expect(await expectWhole(path)).toBe(true);
});

it('forgets who signs where that is damaged, and keeps the rest, files of others as well', async () => {
  const path = await closedStore(chain);
  const store = await open(path);
  const [kept, damaged] = [chain[0]!, chain[1]!].map((each) => evidenceOf(each));
  for (const each of [kept!, damaged!]) await store.keepEvidence(each);
  await store.close();
  expect(await expectWhole(path)).toBe(true);
  await withRawDatabase(path, async (database) => {
    const keys = await database.keys({ gte: Buffer.of(9), lt: Buffer.of(10) }).all();
    expect(keys).toHaveLength(2);
    await database.put(keys[1]!, Buffer.from('none'));
  });
  await writeFile(join(path, 'notes.txt'), 'of somebody else');
  const link = await freshPath();
  symlinkSync(path, link);
  const mended = { damageCount: 1, applied: true, keptThrough: LAST, holes: [] };
  expect(await repairAt(link)).toMatchObject(mended);
  // It takes place where the link leads.
  expect(await readdir(path)).toContain('notes.txt');
  expect(await expectWhole(path)).toBe(true);
  expect(await (await open(path)).evidence()).toEqual([kept]);
});

it('gives up where the meta record is gone, damaged, or says what a rewind cannot mend', async () => {
  const cannotBeRepaired = (why: string) => fault('corrupt', `cannot be repaired: ${why}`);
  const path = await closedStore(chain);
  const key = Buffer.of(1);
  const meta = (await withRawDatabase(path, (database) => database.get(key))).subarray(0, -4);
  for (const value of [undefined, Buffer.concat([meta, Buffer.alloc(4)])]) {
    await withRawDatabase(path, (raw) => (value === undefined ? raw.del(key) : raw.put(key, value)));
    await expect(repairAt(path)).rejects.toMatchObject(cannotBeRepaired('its meta record is lost'));
  }
  const { sporks, ...others } = JSON.parse(meta.toString()) as { sporks: unknown[] };
  const twice = Buffer.from(JSON.stringify({ ...others, sporks: [...sporks, ...sporks] }));
  await withRawDatabase(path, (database) => database.put(key, sealed(key, twice)));
  const error = cannotBeRepaired('meta record: its sporks do not ascend');
  await expect(repairAt(path)).rejects.toMatchObject(error);
  expect(await readdir(dirname(path))).toEqual(['store']);
});

it('stops when told to, leaves everything as it was, and refuses a store in use, of another chain, or none', async () => {
  const path = await closedStore(chain);
  await rm(join(path, 'CURRENT'));
  const before = await readdir(path);
  const signal = AbortSignal.abort();
  await expect(repairAt(path, { signal })).rejects.toMatchObject({ name: 'AbortError' });
  // What another process did meanwhile, such as a rewind, would be undone.
  const onProgress = () => writeFileSync(join(path, 'CURRENT'), 'MANIFEST-000007');
  const used = fault('locked', `The store at ${path} was in use while it was repaired`);
  await expect(repairAt(path, { onProgress })).rejects.toMatchObject(used);
  await rm(join(path, 'CURRENT'));
  expect(await readdir(dirname(path))).toEqual(['store']);
  const own = (names: string[]) => names.filter((name) => !/^LO[CG]/.test(name));
  expect(own(await readdir(path))).toEqual(own(before));
  await repairAt(path, { signal: new AbortController().signal });
  expect(await expectSound(path)).toBe(LAST);
  // Written anew, it is still for its owner only.
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  const store = await open(path);
  await expect(repairAt(path)).rejects.toMatchObject({ kind: 'locked' });
  await store.close();
  await expect(repairAt(path, { chainId: 'flow-mainnet' })).rejects.toMatchObject({ exit: 'foreign' });
  await expect(repairAt(join(path, 'CURRENT', 'below'))).rejects.toMatchObject({ kind: 'io' });
});

it('that was cut short is asked for again, and done', async () => {
  const path = await closedStore(chain);
  await rm(join(path, 'CURRENT'));
  // As it is between the two renamings, even where somebody has made the directory since.
  await rename(path, `${path}.damaged`);
  await mkdir(`${path}.repaired`);
  const refusal = fault('corrupt', '"repair --yes" again');
  await expect(open(path)).rejects.toMatchObject(refusal);
  await mkdir(path);
  await expect(open(path)).rejects.toMatchObject(refusal);
  await repairAt(path);
  expect(await expectSound(path)).toBe(LAST);
  // And as it is before the damaged one is removed.
  await mkdir(`${path}.damaged`);
  // Another would delete the copy that the first works on, and who opens the store would make that useless.
  const refused: unknown[] = [];
  const refuse = (error: unknown) => void refused.push(error);
  let opening: Promise<unknown> | undefined;
  const onProgress = () => void (opening ??= open(path).catch(refuse));
  const both = [repairAt(path, { onProgress }), repairAt(path, { onProgress })];
  await Promise.all(both.map((repair) => repair.catch(refuse)));
  await opening;
  const underWay = fault('locked', `A repair of the store at ${path} is under way`);
  if (['linux', 'win32'].includes(process.platform)) expect(refused).toMatchObject([underWay, underWay]);
  expect(await readdir(dirname(path))).toEqual(['store']);
  expect(await expectSound(path)).toBe(LAST);
});
