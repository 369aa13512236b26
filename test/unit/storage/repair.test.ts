import { symlinkSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RepairReport } from '../../../src/storage/index.js';
import * as files from '../../support/databaseFiles.js';
import { batchOf, begin, chainWith, commitThrough, digestOf, evidenceOf } from '../../support/index.js';
import { fault, fill, flip, heal, keyOf, range, repairAt, sealed } from '../../support/index.js';
import { seededCollection, useStores, verifyAt, withRawDatabase } from '../../support/index.js';

const FIRST = 1;
/** Up to here in a first table, with the meta record. */
const OLDEST = 10;
/** Up to here in a second one; the rest is in the write-ahead log, a batch for each height. */
const SETTLED = 20;
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

/** A store whose process was killed: tables, and a log of several blocks that nobody has replayed. */
async function killedStore(): Promise<string> {
  const path = await closedStore(chain.slice(0, OLDEST));
  const settled = await open(path);
  await settled.commit({ blocks: chain.slice(OLDEST, SETTLED), latestIndexedHeight: SETTLED });
  await settled.close();
  const store = await open(path);
  for (const entry of chain.slice(SETTLED)) await store.commit(batchOf(entry));
  const killed = await mkdtemp(join(tmpdir(), 'fci-killed-'));
  // A file that is renamed meanwhile is not part of the database.
  await cp(path, killed, { recursive: true, filter: (source) => !source.endsWith('.new') });
  await store.close();
  return killed;
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

type Outcome = 'refused' | 'healed' | 'opened';

/**
 * Opens a damaged store: all of it is sound, or what is not heals, or it is refused, and repaired by a repair. The end is a store
 * that nothing happened to. Gives its watermark.
 */
async function expectMendable(path: string): Promise<{ outcome: Outcome; watermark: number }> {
  const store = await open(path).catch((error: unknown) => error as Error);
  if (store instanceof Error) {
    expect(store).toMatchObject({ kind: 'corrupt', exit: 'storage' });
    expect(store.message).toMatch(/"verify".*"repair --yes"/s);
    return { outcome: 'refused', watermark: await expectRepaired(path) };
  }
  const watermark = store.latestIndexedHeight();
  const { damages } = await store.check({ from: FIRST, to: watermark });
  await store.close();
  return damages.length === 0
    ? { outcome: 'opened', watermark: await expectSound(path) }
    : { outcome: 'healed', watermark: await expectRepaired(path) };
}

async function expectRepaired(path: string): Promise<number> {
  expect((await verifyAt(path)).damageCount).toBeGreaterThan(0);
  const before = await readdir(path);
  const plan = await repairAt(path, { apply: false });
  const kept = (names: string[]) => names.filter((name) => /ldb|MANIFEST/.test(name));
  expect(kept(await readdir(path))).toEqual(kept(before));
  const report = await repairAt(path);
  expect(report).toEqual({ ...plan, applied: true });
  expect(await readdir(dirname(path))).toEqual(['store']);
  expect(await verifyAt(path)).toMatchObject({ damageCount: 0 });
  const watermark = await expectSound(path);
  expect(report.keptThrough).toBe(watermark);
  return watermark;
}

describe('a damaged file of the database', () => {
  let killed: string;
  beforeAll(async () => {
    killed = await killedStore();
  });
  afterAll(() => rm(killed, { recursive: true, force: true }));

  const damaged = async (kind: RegExp, change: files.FileChange) => {
    const path = await freshPath();
    await cp(killed, path, { recursive: true });
    files.changeFile(path, kind, change);
    return expectMendable(path);
  };

  // More of them, under a daemon: test/disk/files.ts. What changes in the last batch of the log cannot be told from a batch that a
  // crash cut short; nor can the end of a manifest, but all that it tells is still true then.
  it.each<[string, RegExp, files.FileChange, readonly Outcome[], lowest?: number]>([
    ['nothing: a crash does no damage', files.CURRENT, (bytes) => bytes, ['opened']],
    ['CURRENT gone', files.CURRENT, files.gone, ['refused']],
    ['CURRENT names no manifest', files.CURRENT, files.holding('MANIFEST-999999\n'), ['refused']],
    ['manifest gone', files.MANIFEST, files.gone, ['refused']],
    ['manifest cut', files.MANIFEST, files.cutAt(0.5), ['refused']],
    ['manifest changed at its beginning', files.MANIFEST, files.flippedAt(0), ['refused', 'opened']],
    ['log changed in the middle', files.LOG, files.flippedAt(0.4), ['healed'], SETTLED],
    ['log changed in its last batch', files.LOG, files.flippedAt(-1), ['opened'], SETTLED],
    ['log cut', files.LOG, files.cutAt(0.5), ['opened'], SETTLED],
    ['log with bytes that were never written', files.LOG, files.zeroed(40_000, 60_000), ['healed'], SETTLED],
    ['log never written to its end', files.LOG, files.zeroed(40_000), ['opened'], SETTLED],
    ['table gone', files.TABLE, files.gone, ['refused']],
    ['table cut', files.TABLE, files.cutAt(0.5), ['refused']],
    ['table changed in the middle', files.TABLE, files.flippedAt(0.5), ['healed']],
    ['table changed at its end', files.TABLE, files.flippedAt(-1), ['refused']],
    ['log file of LevelDB changed', /^LOG$/, files.holding('dropping everything\0'), ['opened']],
    ['lock gone', /^LOCK$/, files.gone, ['opened']],
  ])('%s: what is lost heals, or a repair mends it, and no more is lost', async (...given) => {
    const [, kind, change, outcomes, lowest = LAST] = given;
    const { outcome, watermark } = await damaged(kind, change);
    expect(outcomes).toContain(outcome);
    expect(watermark).toBeGreaterThanOrEqual(lowest);
    if (outcome === 'opened' && lowest < LAST) expect(watermark).toBeLessThan(LAST);
  });
}, 120_000);

describe('repair', () => {
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
  const blocks = { gte: Buffer.of(0x10), lt: Buffer.of(0x11) };

  it.each<[string, Change, Partial<RepairReport>]>([
    ['has nothing to do in a sound store', () => Promise.resolve(), { damageCount: 0, applied: false }],
    ['makes anew what leads to sound blocks', breakPointers, { holes: [] }],
    ['plans its first height', (database) => database.del(keyOf(0x10, 1)), { holes: [range(1)] }],
    ['makes a lost progress record anew', (database) => database.del(Buffer.of(2)), {}],
    ['keeps what is around damaged and lost records', damageTwo, { kept, holes: [range(40), range(50)] }],
    [
      'keeps the store alone when every block is lost',
      (database) => database.clear(blocks),
      { keptThrough: 0 },
    ],
  ])('%s', async (_, change, expected) => {
    const path = await changedStore(chain, change);
    const report = await repairAt(path);
    expect(report).toMatchObject({ applied: true, keptThrough: LAST, ...expected });
    expect(await expectSound(path)).toBe(report.keptThrough);
  });

  it('keeps what an account index had that is off, below a top that is lost', async () => {
    const path = await freshPath();
    await (await begin(open(path, { accounts: true }), FIRST, chain)).close();
    await (await open(path, { accounts: false })).close();
    await withRawDatabase(path, (database) => database.del(keyOf(0x10, LAST)));
    expect(await repairAt(path)).toMatchObject({ keptThrough: LAST - 1, applied: true });
    expect((await verifyAt(path)).damages).toEqual([]);
    const store = await open(path, { accounts: true });
    expect(store.accounts.coverage()).toMatchObject({ missingHeights: 0 });
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
    await repairAt(path);
    expect(await readdir(dirname(path))).toEqual(['store']);
    expect(await expectSound(path)).toBe(LAST);
  });
});
