import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../src/runtime/random.js';
import { verifyStore } from '../../../src/storage/index.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom, TEST_CHAIN, useStores } from '../../support/storeDirectory.js';

const chain = makeChain(
  1,
  Array.from({ length: 60 }, (_, index) => [seededCollection(`c${index}`, 1 + (index % 4), 200)]),
);

describe('a byte changed in the files of the database', () => {
  const { freshPath, closedStore } = useStores();

  const soundStore = async () => {
    const path = await closedStore(chain);
    const table = (await readdir(path)).find((name) => name.endsWith('.ldb'))!;
    return { path, table, bytes: await readFile(join(path, table)) };
  };

  const verifyWith = async (
    { path, table, bytes }: Awaited<ReturnType<typeof soundStore>>,
    position: number,
    bit: number,
  ) => {
    const copy = await freshPath();
    await cp(path, copy, { recursive: true });
    const changed = Buffer.from(bytes);
    changed[position]! ^= 1 << bit;
    await writeFile(join(copy, table), changed);
    const report = await verifyStore({ path: copy, chainId: TEST_CHAIN }, { logger: new RecordingLogger() });
    expect(await readdir(dirname(copy))).toEqual(['store']);
    return report;
  };

  it('is damage of named heights, wherever entries stand', async () => {
    const store = await soundStore();
    const random = seededRandom(3);
    // The table ends with filter, metaindex, index and footer; the rest, nine parts of ten and more, are entries.
    const end = Math.floor(0.9 * store.bytes.length);
    for (let round = 0; round < 40; round += 1) {
      const position = Math.floor(random.next() * end);
      const { damages } = await verifyWith(store, position, Math.floor(random.next() * 8));
      const heights = damages.filter(({ height }) => height !== undefined);
      const records = damages.filter(({ kind }) => kind === 'store_record');
      expect(damages[0]).toMatchObject({
        kind: 'database',
        message: expect.stringContaining(store.table) as string,
      });
      expect(heights.length + records.length).toBeGreaterThan(0);
    }
  }, 60_000);

  it('is damage also in filter, index and footer', async () => {
    const store = await soundStore();
    const length = store.bytes.length;
    for (const fromEnd of [1, 8, 44, 47, 48, 60, 100, 200, 400, 800]) {
      const { damageCount } = await verifyWith(store, length - fromEnd, 2);
      expect(damageCount, `${fromEnd} bytes before the end`).toBeGreaterThan(0);
    }
  }, 60_000);
});

describe('a store that was opened and closed many times', () => {
  const { freshPath, open } = useStores();

  it('is sound, whatever compactions were cut short and left half a file behind', async () => {
    const path = await freshPath();
    const first = await open(path);
    await first.initialise(metaFrom(1));
    await first.close();
    for (const entry of chain.slice(0, 24)) {
      const store = await open(path);
      await store.commit({ blocks: [entry], latestIndexedHeight: entry.block.height });
      await store.close();
      const { damages } = await verifyStore({ path, chainId: TEST_CHAIN }, { logger: new RecordingLogger() });
      expect(damages).toEqual([]);
    }
  }, 60_000);
});
