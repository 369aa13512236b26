/**
 * What the durable end of the line can take: verified collections in hand → indexer → store, every batch synced, against
 * a LevelDB writer of the very same entries.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { splitCollection, verifyCollection } from '../../src/flow/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { BlockMaker, FIRST_HEIGHT } from './lib/blockEntries.js';
import { GROUP, ProductWriter } from './lib/indexer.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import type { Figure, Table } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';
import { blockKeyValues, progressKeyValue, StoreOnlyWriter } from './lib/storeOnly.js';
import type { KeyValue } from './lib/storeOnly.js';

interface Shape {
  readonly collections: number;
  readonly transactions: number;
  readonly heights: number;
  readonly atLeast: number;
}

const SHAPES: readonly Shape[] = [
  { collections: 5, transactions: 2, heights: 10_000, atLeast: 5000 },
  { collections: 10, transactions: 5, heights: 4000, atLeast: 1500 },
];
const QUICK_SHARE = 4;
/** Heights to a batch when blocks arrive one by one and the disk is quick: there a sync weighs more. */
const SMALL_GROUP_HEIGHTS = 10;

interface Subjects {
  readonly one: number[];
  readonly two: number[];
  readonly synced: number[];
  readonly unsynced: number[];
  readonly verifiedSynced: number[];
  readonly verifiedUnsynced: number[];
  readonly smallSynced: number[];
  readonly smallUnsynced: number[];
}

const NAMES: readonly (readonly [keyof Subjects, string])[] = [
  ['one', 'product, one caller'],
  ['two', 'product, two callers at once'],
  ['synced', `store only, synced, ${GROUP.maxHeights} heights to a batch`],
  ['unsynced', `store only, unsynced, ${GROUP.maxHeights} heights to a batch`],
  ['verifiedSynced', 'verify + store only, synced, likewise'],
  ['verifiedUnsynced', 'verify + store only, unsynced, likewise'],
  ['smallSynced', `store only, synced, ${SMALL_GROUP_HEIGHTS} heights to a batch`],
  ['smallUnsynced', `store only, unsynced, ${SMALL_GROUP_HEIGHTS} heights to a batch`],
];

await bench(
  {
    title: 'Index only',
    about:
      'Blocks with their verified collections lie in memory and are handed to the real indexer and store as far ahead as ' +
      'the window allows; a height counts when its caller has been told that it is durable. The store-only writer is ' +
      'LevelDB with the options of the product, given the same entries, built before the clock starts, without checks or ' +
      'callers; nothing goes on beside its writing. "Verify + store only" is what a sync costs a pipeline: the next group is ' +
      'verified and its entries are made while the one before is written, likewise without anything else. Every run begins ' +
      'with an empty store. The product has no unsynced mode.',
  },
  async ({ quick, rounds }) => {
    const tables: Table[] = [];
    const figures: Figure[] = [];
    for (const shape of SHAPES) {
      const heights = quick ? shape.heights / QUICK_SHARE : shape.heights;
      const rates = await measure(shape, heights, rounds);
      const name = `${shape.collections} × ${shape.transactions}`;
      tables.push({
        title: `Blocks of ${name} transactions of 655 bytes, ${heights} heights to a run`,
        columns: ['writer', 'heights/s', '÷ store only'],
        rows: NAMES.map(([subject, label]) => [
          label,
          digits(median(rates[subject])),
          digits(ratioOf(rates[subject], rates.synced)),
        ]),
      });
      figures.push(
        {
          what: `index only, ${name}`,
          value: median(rates.one),
          unit: 'heights/s',
          atLeast: shape.atLeast,
        },
        { what: `two callers ÷ one, ${name}`, value: ratioOf(rates.two, rates.one), atLeast: 0.9 },
        {
          what: `synced groups ÷ unsynced, ${name}`,
          value: ratioOf(rates.verifiedSynced, rates.verifiedUnsynced),
          atLeast: 0.9,
        },
        {
          what: `likewise, with nothing beside the writing, ${name}`,
          value: ratioOf(rates.synced, rates.unsynced),
        },
        { what: `index only ÷ store only, ${name}`, value: ratioOf(rates.one, rates.synced) },
      );
    }
    return { tables, figures };
  },
);

async function measure(shape: Shape, heights: number, rounds: number): Promise<Subjects> {
  const maker = new BlockMaker({
    profile: {
      base: 'dense',
      collectionsPerBlock: { min: shape.collections, max: shape.collections },
      transactionsPerCollection: { min: shape.transactions, max: shape.transactions },
    },
  });
  const blocks = maker.first(heights);
  const keyValues = blocks.map(blockKeyValues);
  await compareStores(blocks.slice(0, 200));
  return interleave(
    {
      one: () => productRate(blocks, 1),
      two: () => productRate(blocks, 2),
      synced: () => storeOnlyRate(keyValues, GROUP.maxHeights, true),
      unsynced: () => storeOnlyRate(keyValues, GROUP.maxHeights, false),
      verifiedSynced: () => verifiedRate(blocks, true),
      verifiedUnsynced: () => verifiedRate(blocks, false),
      smallSynced: () => storeOnlyRate(keyValues, SMALL_GROUP_HEIGHTS, true),
      smallUnsynced: () => storeOnlyRate(keyValues, SMALL_GROUP_HEIGHTS, false),
    },
    { rounds },
  );
}

async function inDirectory<T>(action: (path: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(scratch, 'store-'));
  try {
    return await action(join(directory, 'store'));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function productRate(blocks: readonly BlockEntry[], callers: number): Promise<number> {
  return inDirectory(async (path) => {
    const product = await ProductWriter.open({ path });
    const startedAtMs = performance.now();
    await product.deliver(blocks.length, (height) => blocks[height - FIRST_HEIGHT] as BlockEntry, {
      callers,
    });
    const rate = (blocks.length * 1000) / (performance.now() - startedAtMs);
    await product.close();
    return rate;
  });
}

function storeOnlyRate(
  blocks: readonly (readonly KeyValue[])[],
  group: number,
  sync: boolean,
): Promise<number> {
  return inDirectory(async (path) => {
    const writer = await StoreOnlyWriter.open({ path, sync });
    const startedAtMs = performance.now();
    await writeAll(writer, blocks, group);
    const rate = (blocks.length * 1000) / (performance.now() - startedAtMs);
    await writer.close();
    return rate;
  });
}

function verifiedRate(blocks: readonly BlockEntry[], sync: boolean): Promise<number> {
  return inDirectory(async (path) => {
    const writer = await StoreOnlyWriter.open({ path, sync });
    const startedAtMs = performance.now();
    let writing = Promise.resolve();
    for (let next = 0; next < blocks.length; next += GROUP.maxHeights) {
      const group = blocks.slice(next, next + GROUP.maxHeights);
      const entries = group.flatMap(({ block, collections }) =>
        blockKeyValues({
          block,
          collections: collections.map(({ id, encoded }) => verifyCollection(id, splitCollection(encoded))),
        }),
      );
      await writing;
      for (const [key, value] of entries) writer.put(key, value);
      writer.put(...progressKeyValue(FIRST_HEIGHT + next + group.length - 1));
      writing = writer.write();
    }
    await writing;
    const rate = (blocks.length * 1000) / (performance.now() - startedAtMs);
    await writer.close();
    return rate;
  });
}

async function writeAll(
  writer: StoreOnlyWriter,
  blocks: readonly (readonly KeyValue[])[],
  group: number,
): Promise<void> {
  for (let next = 0; next < blocks.length; next += group) {
    const batch = blocks.slice(next, next + group);
    for (const entries of batch) for (const [key, value] of entries) writer.put(key, value);
    writer.put(...progressKeyValue(FIRST_HEIGHT + next + batch.length - 1));
    await writer.write();
  }
}

/** That both write the same: every entry of the store-only writer, and the meta record besides. */
async function compareStores(blocks: readonly BlockEntry[]): Promise<void> {
  await inDirectory(async (path) => {
    const product = await ProductWriter.open({ path: `${path}-product` });
    await product.deliver(blocks.length, (height) => blocks[height - FIRST_HEIGHT] as BlockEntry);
    const writer = await StoreOnlyWriter.open({ path, sync: true });
    await writeAll(writer, blocks.map(blockKeyValues), GROUP.maxHeights);
    const theirs = product.store.entries();
    await theirs.next(); // the meta record
    for await (const [key, value] of writer.entries()) {
      const { value: other } = await theirs.next();
      if (!Array.isArray(other) || !key.equals(other[0]) || !value.equals(other[1])) {
        throw new Error(
          `the product stores something else than the store-only writer under ${key.toString('hex')}`,
        );
      }
    }
    if ((await theirs.next()).done !== true) throw new Error('the product stores more');
    await writer.close();
    await product.close();
  });
}
