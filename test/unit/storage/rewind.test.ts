import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BlockEntry } from '../../../src/storage/index.js';
import { begin, chainWith, digestOf, heightOf, makeChain, makeCollection } from '../../support/index.js';
import { makeTransaction, range, rawEntries, RecordingLogger, sealed } from '../../support/index.js';
import { seededCollection, useStores, verifyAt, withRawDatabase } from '../../support/index.js';

const shared = seededCollection('shared', 2);
const chain = makeChain(10, [
  [shared],
  [],
  [seededCollection('a', 1), shared],
  [seededCollection('b', 3)],
  [shared, shared],
]);

const { filled, open, freshPath, closedStore } = useStores();

it('removes heights by the hundred, and large bodies', async () => {
  const long = chainWith(1, 300, (index) =>
    index % 50 === 0
      ? [makeCollection([makeTransaction(`big ${index}`, 300 * 1024)])]
      : [seededCollection(`long ${index}`, 1)],
  );
  const store = await filled(long);
  const steps: number[] = [];
  await store.rewind(20, (highest) => steps.push(highest));
  expect([steps.length > 2, steps.at(-1)]).toEqual([true, 20]);
  expect(await digestOf(store)).toBe(await digestOf(await filled(long.slice(0, 20))));
});

describe.each([false, true])('that a crash cut short (accounts: %s)', (accounts) => {
  const begun = async (blocks: readonly BlockEntry[], path: string) =>
    begin(open(path, { accounts }), 10, blocks);

  const byOpen = async (path: string): Promise<void> => {
    const logger = new RecordingLogger();
    const again = await open(path, {}, logger);
    expect(logger.messages()).toContain('finishing an interrupted rewind');
    expect(again.latestIndexedHeight()).toBe(11);
    await again.close();
  };
  const byVerify = async (path: string): Promise<void> => {
    const expected = { range: range(10, 11), latestIndexedHeight: 11, heights: 2, damages: [] };
    expect(await verifyAt(path)).toMatchObject(expected);
    expect((await rawEntries(path)).map(([key]) => key)).not.toContainEqual(Buffer.of(3));
  };

  it.each([
    ['the next open', byOpen],
    ['verify, before it looks', byVerify],
  ])('is finished by %s', async (_, finish) => {
    const reference = await digestOf(await begun(chain.slice(0, 2), await freshPath()));
    const path = await freshPath();
    const store = await begun(chain, path);
    const before: [Buffer, Buffer][] = [];
    for await (const [key, value] of store.entries()) before.push([Buffer.from(key), Buffer.from(value)]);
    await store.rewind(11);
    await store.close();
    // The intent is durable before anything is removed: that state, with any part of the removal done.
    const intent = Buffer.alloc(25);
    [12n, 15n, 15n].forEach((height, index) => intent.writeBigUInt64BE(height, 8 * index));
    await withRawDatabase(path, async (database) => {
      for (const [key, value] of before) if (key[0]! >= 0x10) await database.put(key, value);
      await database.put(Buffer.of(3), sealed(Buffer.of(3), intent));
    });
    await finish(path);
    expect(await digestOf(await open(path, { accounts }))).toBe(reference);
  });
});

it('of a store with any one byte changed above the target leaves a sound store', async () => {
  const path = await closedStore(chain);
  const entries = await withRawDatabase(path, (database) => database.iterator().all());
  const above = entries.filter(([key]) => (heightOf(key) ?? 0) >= 12);
  const reference = await digestOf(await filled(chain.slice(0, 2)));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...above),
      fc.boolean(),
      fc.nat(),
      fc.integer({ min: 0, max: 7 }),
      async ([key, value], inKey, position, bit) => {
        const damagedPath = await closedStore(chain);
        // The last four bytes of the height and the rest: a changed height that stays above the target.
        const changed = Buffer.from(inKey ? key : value);
        const offset = position % changed.length;
        changed[offset]! ^= 1 << bit;
        fc.pre(!inKey || isAbove(changed, 11));
        await withRawDatabase(damagedPath, async (database) => {
          if (inKey) await database.del(key);
          await database.put(inKey ? changed : key, inKey ? value : changed);
        });
        const store = await open(damagedPath);
        await store.rewind(11);
        expect(store.latestIndexedHeight()).toBe(11);
        expect(await digestOf(store)).toBe(reference);
        await store.close();
        expect(await verifyAt(damagedPath)).toMatchObject({ damageCount: 0 });
      },
    ),
    { numRuns: 10 },
  );
});

/** True when a key is still one of a height above, so that only a rewind that looks for it can find it. */
function isAbove(key: Buffer, height: number): boolean {
  const prefixes: Readonly<Record<number, number>> = { 9: 0x10, 13: 0x11, 41: 0x20, 45: 0x21, 49: 0x22 };
  if (key[0] !== prefixes[key.length]) return false;
  const stored = heightOf(key) ?? 0;
  return stored > height && stored < 2 ** 53;
}
