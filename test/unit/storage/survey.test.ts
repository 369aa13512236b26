import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { surveyStore } from '../../../src/storage/index.js';
import { chainWith, seededCollection } from '../../support/storeBlocks.js';
import { begin, TEST_CHAIN, useStores, withRawDatabase } from '../../support/storeDirectory.js';
import { range } from '../../support/ranges.js';

/** What the files of a closed store say, without opening it. */

const chain = chainWith(10, 40, (index) => [seededCollection(`s${index}`, 1 + (index % 3), 300)]);
/** Above the highest that a process can have. */
const KILLED = 2 ** 22 + 1;
const { freshPath, open, closedStore } = useStores();
const survey = (path: string) =>
  surveyStore({ path, chainId: TEST_CHAIN }, { clock: systemClock, logger: silentLogger });

const filesOf = async (path: string, kind: RegExp): Promise<string[]> =>
  (await readdir(path))
    .filter((name) => kind.test(name))
    .sort()
    .map((name) => join(path, name));

/** A store of two published ranges, an open one and a plan. */
async function storeOfRanges(): Promise<string> {
  const path = await freshPath();
  const store = await begin(open(path), 40, chain.slice(30, 35), 44);
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
      sporks: [{ rootHeight: 40 }],
      coverage: [range(10, 14), range(40, 44)],
      plans: [{ id: 1, from: 16, to: 30, order: 'oldest', isPaused: false }],
    };
    const names = await readdir(path);
    const besides = await readdir(dirname(path));
    // A doctor that was killed left it, with links to tables that the store has no more.
    await mkdir(`${path}.survey-${KILLED}`);
    expect(await survey(path)).toMatchObject(expected);
    expect([await readdir(path), await readdir(dirname(path))]).toEqual([names, besides]);

    const again = await survey(await reopened(path));
    expect(again).toMatchObject(expected);
    const tables = await Promise.all((await filesOf(path, /\.ldb$/)).map((file) => readFile(file)));
    expect(tables.length).toBeGreaterThan(0);
    expect(again.bytes).toBe(tables.reduce((sum, { length }) => sum + length, 0));
  });

  it('goes by the newest of what was written, and by nothing that was deleted', async () => {
    const path = await reopened(await storeOfRanges());
    const again = await open(path);
    await again.commit({ blocks: chain.slice(35, 38), latestIndexedHeight: 47 });
    await again.ranges.change({ plans: [] });
    await again.close();
    const newest = {
      coverage: [range(10, 14), range(40, 47)],
      plans: [],
    };
    expect(await survey(path)).toMatchObject(newest);
    // The same in tables: the old values still stand in those below.
    expect(await survey(await reopened(path))).toMatchObject(newest);
  });

  it('finds nothing where nothing is, and no height where none was indexed', async () => {
    const path = await freshPath();
    await expect(survey(path)).rejects.toMatchObject({ kind: 'missing' });
    await mkdir(path);
    await expect(survey(path)).rejects.toMatchObject({ kind: 'missing' });
    const store = await open(path);
    await store.close();
    expect(await survey(path)).toMatchObject({ sporks: [], coverage: [], plans: [] });
    const begun = await begin(open(path), 10);
    await begun.close();
    expect(await survey(path)).toMatchObject({ sporks: [{ rootHeight: 10 }], coverage: [] });
  });
});

it('a survey of a damaged store is refused, and leaves it as it is', async () => {
  const path = await reopened(await closedStore(chain));
  for (const table of await filesOf(path, /\.ldb$/)) await rm(table);
  const names = await readdir(path);
  await expect(survey(path)).rejects.toMatchObject({ kind: 'corrupt' });
  expect([await readdir(path), await readdir(dirname(path))]).toEqual([names, ['store']]);
});
