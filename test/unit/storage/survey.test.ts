import { statSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { expect, it } from 'vitest';
import { silentLogger } from '../../../src/observability/index.js';
import { systemClock } from '../../../src/runtime/index.js';
import { surveyStore } from '../../../src/storage/index.js';
import { begin, chainWith, changeFile, CURRENT, filesOf, fill, gone, holding } from '../../support/index.js';
import { MANIFEST, range, seededCollection, TABLE, TEST_CHAIN, useStores } from '../../support/index.js';
import { withRawDatabase } from '../../support/index.js';

/** What the files of a closed store say, without opening it. */

const chain = chainWith(10, 40, (index) => [seededCollection(`s${index}`, 1 + (index % 3), 300)]);
const plan = { ...{ id: 1, from: 16, to: 30 }, order: 'oldest', isPaused: false } as const;
/** Above the highest that a process can have. */
const KILLED = 2 ** 22 + 1;
const { freshPath, open, closedStore } = useStores();
const survey = (path: string) =>
  surveyStore({ path, chainId: TEST_CHAIN }, { clock: systemClock, logger: silentLogger });

/** A store of two published ranges, an open one and a plan. */
async function storeOfRanges(): Promise<string> {
  const path = await freshPath();
  const store = await begin(open(path), 40, chain.slice(30, 35), 44);
  await fill(store, chain, range(10, 14));
  await store.ranges.run(range(20, 24));
  await store.ranges.change({ plans: [plan] });
  await store.close();
  return path;
}

/** Writes what is in the log to tables, as the next open does. */
async function reopened(path: string): Promise<string> {
  await withRawDatabase(path, () => Promise.resolve());
  return path;
}

it('a survey of a closed store tells its chain, heights and plans, from its log or its tables, and changes nothing', async () => {
  const path = await storeOfRanges();
  const expected = { sporks: [{ rootHeight: 40 }], coverage: [range(10, 14), range(40, 44)], plans: [plan] };
  const names = await readdir(path);
  const besides = await readdir(dirname(path));
  // A doctor that was killed left it, with links to tables that the store has no more.
  await mkdir(`${path}.survey-${KILLED}`);
  expect(await survey(path)).toMatchObject(expected);
  expect([await readdir(path), await readdir(dirname(path))]).toEqual([names, besides]);

  const again = await survey(await reopened(path));
  expect(again).toMatchObject(expected);
  expect(again.bytes).toBeGreaterThan(0);
  expect(again.bytes).toBe(filesOf(path, TABLE).reduce((sum, file) => sum + statSync(file).size, 0));
});

it('a survey of a closed store goes by the newest of what was written, and by nothing that was deleted', async () => {
  const path = await reopened(await storeOfRanges());
  const again = await open(path);
  await again.commit({ blocks: chain.slice(35, 38), latestIndexedHeight: 47 });
  await again.ranges.change({ plans: [] });
  await again.close();
  const newest = { coverage: [range(10, 14), range(40, 47)], plans: [] };
  expect(await survey(path)).toMatchObject(newest);
  // The same in tables: the old values still stand in those below.
  expect(await survey(await reopened(path))).toMatchObject(newest);
});

it('a survey of a closed store finds nothing where nothing is, and no height where none was indexed', async () => {
  const path = await freshPath();
  await expect(survey(path)).rejects.toMatchObject({ kind: 'missing' });
  await (await begin(open(path), 10)).close();
  expect(await survey(path)).toMatchObject({ sporks: [{ rootHeight: 10 }], coverage: [], plans: [] });
});

it.each([
  ['CURRENT', CURRENT, holding('MANIFEST\n')],
  ['manifest', MANIFEST, holding('none')],
  ['table', TABLE, gone],
])('a survey of a store with a damaged %s is refused, and leaves it as it is', async (_, kind, change) => {
  const path = await reopened(await closedStore(chain));
  changeFile(path, kind, change);
  const names = await readdir(path);
  await expect(survey(path)).rejects.toMatchObject({ kind: 'corrupt' });
  expect(await readdir(path)).toEqual(names);
  expect(await readdir(dirname(path))).toEqual(['store']);
});
