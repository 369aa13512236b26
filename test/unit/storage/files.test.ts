import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../src/runtime/random.js';
import { verifyStore } from '../../../src/storage/index.js';
import { RecordingLogger } from '../../support/recordingLogger.js';
import { makeChain, seededCollection } from '../../support/storeBlocks.js';
import { metaFrom, TEST_CHAIN, useStores } from '../../support/storeDirectory.js';
import { digestOf } from '../../support/storeDigest.js';

const chain = makeChain(
  1,
  Array.from({ length: 60 }, (_, index) => [seededCollection(`c${index}`, 1 + (index % 4), 200)]),
);

describe('a byte changed in the files of the database', () => {
  const { freshPath, closedStore, open } = useStores();

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
    return { copy, report };
  };

  it('is damage of named heights, or nothing that is read differs, wherever it stands', async () => {
    const store = await soundStore();
    const digest = await digestOf(await open(store.path));
    const random = seededRandom(3);
    const ends = [1, 44, 48, 100, 400].map((fromEnd) => store.bytes.length - fromEnd);
    const places = Array.from({ length: 12 }, () => Math.floor(random.next() * store.bytes.length));
    let named = 0;
    for (const position of [...places, ...ends]) {
      const { copy, report } = await verifyWith(store, position, Math.floor(random.next() * 8));
      const { damageCount, damages } = report;
      if (damageCount === 0) expect(await digestOf(await open(copy)), `byte ${position}`).toBe(digest);
      else if (damages.some(({ height, kind }) => height !== undefined || kind === 'store_record'))
        named += 1;
    }
    expect(named).toBeGreaterThan(places.length / 2);
  }, 60_000);
});

describe('a store that was opened and closed many times', () => {
  const { freshPath, open } = useStores();

  it('is sound, whatever compactions were cut short and left half a file behind', async () => {
    const path = await freshPath();
    const first = await open(path);
    await first.initialise(metaFrom(1));
    await first.close();
    for (const entry of chain.slice(0, 12)) {
      const store = await open(path);
      await store.commit({ blocks: [entry], latestIndexedHeight: entry.block.height });
      await store.close();
      const { damages } = await verifyStore({ path, chainId: TEST_CHAIN }, { logger: new RecordingLogger() });
      expect(damages).toEqual([]);
    }
  }, 60_000);
});
