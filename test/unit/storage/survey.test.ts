import { mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RANGES_SCHEMA_VERSION, surveyStore } from '../../../src/storage/index.js';
import { logFile, PLAIN, sealedBlock, tableBlocks, varint, withIndex } from '../../support/levelFiles.js';
import { makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom, sealed, TEST_CHAIN, useStores, withRawDatabase } from '../../support/storeDirectory.js';

/** What the files of a closed store say, without opening it. */

const chain = makeChain(
  10,
  Array.from({ length: 40 }, (_, index) => [seededCollection(`s${index}`, 1 + (index % 3), 300)]),
);
const META = Buffer.of(1);
const PROGRESS = Buffer.of(2);
const PUBLISHED = Buffer.of(5);
const PLANS = Buffer.of(6);
const { freshPath, open, closedStore } = useStores();

const filesOf = async (path: string, kind: RegExp): Promise<string[]> =>
  (await readdir(path))
    .filter((name) => kind.test(name))
    .sort()
    .map((name) => join(path, name));

/** A store of two published ranges, an open one and a plan. */
async function storeOfRanges(): Promise<string> {
  const path = await freshPath();
  const store = await open(path);
  await store.initialise(metaFrom(40));
  await store.commit({ blocks: chain.slice(30, 35), latestIndexedHeight: 44 });
  const filled = await store.ranges.run({ from: 10, to: 14 });
  await filled.commit({ blocks: chain.slice(0, 5), latestIndexedHeight: 14 });
  await store.ranges.run({ from: 20, to: 24 });
  await store.ranges.change({
    plans: [{ id: 1, from: 16, to: 30, order: 'oldest', isPaused: false }],
  });
  await store.close();
  return path;
}

/** Writes what is in the log to tables, as the next open does. */
async function reopened(path: string): Promise<string> {
  await withRawDatabase(path, () => Promise.resolve());
  return path;
}

describe('a survey of a closed store', () => {
  it('tells its chain, heights and plans, from its log or its tables, and changes nothing', async () => {
    const path = await storeOfRanges();
    const expected = {
      meta: { chainId: TEST_CHAIN, firstHeight: 40, schemaVersion: RANGES_SCHEMA_VERSION },
      coverage: [
        { from: 10, to: 14 },
        { from: 40, to: 44 },
      ],
      plans: [{ id: 1, from: 16, to: 30, order: 'oldest', isPaused: false }],
      damages: [],
    };
    const names = await readdir(path);
    expect(await surveyStore(path)).toMatchObject(expected);
    expect(await readdir(path)).toEqual(names);

    const survey = await surveyStore(await reopened(path));
    expect(survey).toMatchObject(expected);
    const tables = await Promise.all((await filesOf(path, /\.ldb$/)).map((file) => readFile(file)));
    expect(tables.length).toBeGreaterThan(0);
    expect(survey?.bytes).toBe(tables.reduce((sum, { length }) => sum + length, 0));
  });

  it('goes by the newest of what was written, and by nothing that was deleted', async () => {
    const path = await reopened(await storeOfRanges());
    const again = await open(path);
    await again.commit({ blocks: chain.slice(35, 38), latestIndexedHeight: 47 });
    await again.ranges.change({ plans: [] });
    await again.close();
    const newest = {
      coverage: [
        { from: 10, to: 14 },
        { from: 40, to: 47 },
      ],
      plans: [],
    };
    expect(await surveyStore(path)).toMatchObject(newest);
    // The same in tables: the old values still stand in those below.
    expect(await surveyStore(await reopened(path))).toMatchObject(newest);
  });

  it('finds nothing where nothing is, and no height where none was indexed', async () => {
    const path = await freshPath();
    expect(await surveyStore(path)).toBeUndefined();
    await mkdir(path);
    expect(await surveyStore(path)).toBeUndefined();
    const store = await open(path);
    await store.close();
    expect(await surveyStore(path)).toMatchObject({ meta: undefined, coverage: [], plans: [], damages: [] });
    const begun = await open(path);
    await begun.initialise(metaFrom(10));
    await begun.close();
    expect(await surveyStore(path)).toMatchObject({ meta: { firstHeight: 10 }, coverage: [], damages: [] });
  });

  it('is refused where the path leads through a file', async () => {
    const path = await freshPath();
    await writeFile(path, 'a file');
    await expect(surveyStore(join(path, 'index'))).rejects.toMatchObject({
      kind: 'io',
      message: expect.stringContaining('That path leads to no directory: part of it is a file') as string,
    });
  });

  it('knows the version and chain of a store that a newer program wrote, and no more', async () => {
    const path = await closedStore(chain);
    const newer = { schemaVersion: 99, chainId: 'flow-mainnet', heights: 'elsewhere' };
    await withRawDatabase(path, (database) =>
      database.put(META, sealed(META, Buffer.from(JSON.stringify(newer)))),
    );
    expect(await surveyStore(path)).toMatchObject({
      meta: { schemaVersion: 99, chainId: 'flow-mainnet', sporks: [] },
    });
  });

  it('does not take a record for what it should be that was changed, or makes no sense', async () => {
    const path = await closedStore(chain);
    await withRawDatabase(path, async (database) => {
      await database.put(PLANS, sealed(PLANS, Buffer.from('{"id":1}')));
      await database.put(PUBLISHED, sealed(PUBLISHED, Buffer.alloc(5)));
      const progress = await database.get(PROGRESS);
      progress.writeUInt8(progress.readUInt8(7) ^ 1, 7);
      await database.put(PROGRESS, progress);
    });
    expect(await surveyStore(path)).toMatchObject({
      ...{ meta: { firstHeight: 10 }, coverage: [], plans: [] },
    });
  });
});

describe('a survey of a damaged store', () => {
  it('names the manifest that cannot be read', async () => {
    const path = await closedStore(chain);
    const [manifest = ''] = await filesOf(path, /^MANIFEST-/);
    await writeFile(manifest, 'nonsense');
    expect(await surveyStore(path)).toMatchObject({
      ...{ meta: undefined, coverage: [], plans: [], bytes: 0 },
      damages: [{ file: expect.stringMatching(/^MANIFEST-/) as string }],
    });
  });

  it('names what is no table, also where no manifest tells its size', async () => {
    const path = await reopened(await closedStore(chain));
    const [table = ''] = await filesOf(path, /\.ldb$/);
    const [manifest = ''] = await filesOf(path, /^MANIFEST-/);
    await truncate(table, 10);
    await writeFile(manifest, 'nonsense');
    expect((await surveyStore(path))?.damages).toMatchObject([
      { file: basename(manifest) },
      { file: basename(table), what: 'its footer or index is damaged: none of its entries can be found' },
    ]);
  });

  it('names the table whose index leads nowhere, or twice to one place', async () => {
    const entry = (key: number, ...handle: readonly number[]): Buffer =>
      Buffer.concat([Buffer.of(0, 9, handle.length, key), Buffer.alloc(8, 1), Buffer.of(...handle)]);
    const block = (...entries: readonly Buffer[]): Buffer =>
      Buffer.concat([...entries, Buffer.of(0, 0, 0, 0, 1, 0, 0, 0)]);
    for (const index of [
      block(entry(1, 0, 100), entry(2, 50, 100)),
      block(entry(1, 0, 1)),
      block(entry(1, 0, 0xff, 0xff, 0xff, 0x7f)),
    ]) {
      const path = await reopened(await closedStore(chain));
      const [table = ''] = await filesOf(path, /\.ldb$/);
      await writeFile(table, withIndex(await readFile(table), index, PLAIN));
      // Its size is another one then, and told first; without the manifest its index is what counts.
      const [manifest = ''] = await filesOf(path, /^MANIFEST-/);
      await writeFile(manifest, 'nonsense');
      expect((await surveyStore(path))?.damages).toMatchObject([
        { file: basename(manifest) },
        { file: basename(table), what: 'its footer or index is damaged: none of its entries can be found' },
      ]);
    }
  });

  it('names the manifest in CURRENT that is none, and relies on the newest one', async () => {
    const path = await closedStore(chain);
    await writeFile(join(path, 'CURRENT'), 'MANIFEST\n');
    expect(await surveyStore(path)).toMatchObject({
      meta: { firstHeight: 10 },
      coverage: [{ from: 10, to: 49 }],
      damages: [{ file: 'CURRENT', what: 'it does not name the manifest' }],
    });
  });

  it.each<[string, (file: string) => Promise<void>, RegExp]>([
    ['cut short', (file) => truncate(file, 100), /it is truncated: 100 of \d+ bytes/],
    [
      'longer than it was',
      (file) => writeFile(file, 'more', { flag: 'a' }),
      /it has \d+ bytes instead of \d+/,
    ],
    ['gone', (file) => rm(file), /it is missing/],
    ['changed', flipped, /the block at offset 0 .* does not match its checksum/],
  ])('names the table that is %s, and tells what the others hold', async (_, damage, what) => {
    const path = await reopened(await closedStore(chain));
    const tables = await filesOf(path, /\.ldb$/);
    for (const table of tables) await damage(table);
    const survey = await surveyStore(path);
    expect(survey?.damages).toHaveLength(tables.length);
    expect(survey?.damages[0]?.what).toMatch(what);
    expect(survey).toMatchObject({ coverage: expect.any(Array) as unknown[] });
  });

  it('passes over entries whose keys are none, though their block matches its checksum', async () => {
    const path = await reopened(await closedStore(chain));
    const [table = ''] = await filesOf(path, /\.ldb$/);
    const file = await readFile(table);
    const [{ offset, size } = expect.unreachable('a table has blocks')] = tableBlocks(file);
    // One entry: nothing shared, a key of one byte, and a value that fills the block; then its one restart point.
    const value = size - 13;
    const head = Buffer.concat([Buffer.of(0, 1), varint(value), Buffer.of(1)]);
    const contents = Buffer.concat([head, Buffer.alloc(value), Buffer.of(0, 0, 0, 0, 1, 0, 0, 0)]);
    expect(contents).toHaveLength(size);
    sealedBlock(contents, PLAIN).copy(file, offset);
    await writeFile(table, file);
    expect(await surveyStore(path)).toMatchObject({ meta: undefined, coverage: [], damages: [] });
  });

  it('passes over a batch that cannot be read, and names its log', async () => {
    const path = await reopened(await closedStore(chain));
    const [log = ''] = await filesOf(path, /\.log$/);
    // Another watermark, in a batch that says it has more entries than it holds.
    const cut = Buffer.concat([Buffer.alloc(12), Buffer.of(1, 1, 2, 100), Buffer.alloc(3)]);
    cut.writeUInt32LE(1, 8);
    await writeFile(log, logFile(Buffer.alloc(5), cut));
    expect(await surveyStore(path)).toMatchObject({
      coverage: [{ from: 10, to: 49 }],
      damages: [{ file: basename(log) }],
    });
  });
});

async function flipped(file: string): Promise<void> {
  const bytes = await readFile(file);
  bytes.writeUInt8(bytes.readUInt8(20) ^ 4, 20);
  await writeFile(file, bytes);
}
