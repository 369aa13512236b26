/**
 * What the durable end of the line can take: verified collections in hand → indexer → store, every batch synced; and what
 * a sync costs a LevelDB writer of the very same entries.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { splitCollection, verifyCollection } from '../../src/flow/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { BlockMaker, FIRST_HEIGHT } from './lib/blocks.js';
import { freshDirectory } from './lib/processes.js';
import { ProductWriter } from './lib/ProductWriter.js';
import { bench, digits } from './lib/report.js';
import type { Figure, Table } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';
import { blockKeyValues, StoreOnlyWriter } from './lib/StoreOnlyWriter.js';

const SHAPES = [
  { collections: 5, transactions: 2, heights: 10_000, atLeast: 5000 },
  { collections: 10, transactions: 5, heights: 4000, atLeast: 1500 },
] as const;
const QUICK_SHARE = 4;
const NAMES = {
  one: 'product, one caller',
  two: 'product, two callers at once',
  synced: 'verify + store only, synced',
  unsynced: 'verify + store only, unsynced',
} as const;
type Subject = keyof typeof NAMES;

await bench(
  {
    title: 'Index only',
    about:
      'Blocks with their verified collections lie in memory and are handed to the real indexer and store as far ahead as ' +
      'the window allows; a height counts when its caller has been told that it is durable. "Verify + store only" is what a ' +
      'sync costs a pipeline: LevelDB with the options of the product; the next group is ' +
      'verified and its entries are made while the one before is written, without anything else. Every run begins ' +
      'with an empty store. The product has no unsynced mode.',
  },
  async ({ quick, rounds }) => {
    const tables: Table[] = [];
    const figures: Figure[] = [];
    for (const shape of SHAPES) {
      const heights = quick ? shape.heights / QUICK_SHARE : shape.heights;
      const rates = await measure(shape, heights, rounds);
      const name = `${shape.collections} × ${shape.transactions}`;
      const ratio = (what: string, of: Subject, to: Subject): Figure => ({
        ...{ what: `${what}, ${name}`, value: ratioOf(rates[of], rates[to]), atLeast: 0.9 },
      });
      tables.push({
        title: `Blocks of ${name} transactions of 655 bytes, ${heights} heights to a run`,
        columns: ['writer', 'heights/s'],
        rows: Object.entries(NAMES).map(([subject, label]) => [
          ...[label, digits(median(rates[subject as Subject]))],
        ]),
      });
      figures.push(
        {
          ...{ what: `index only, ${name}`, value: median(rates.one), unit: 'heights/s' },
          atLeast: shape.atLeast,
        },
        ratio('two callers ÷ one', 'two', 'one'),
        ratio('synced groups ÷ unsynced', 'synced', 'unsynced'),
      );
    }
    return { tables, figures };
  },
);

async function measure(
  { collections, transactions }: (typeof SHAPES)[number],
  heights: number,
  rounds: number,
): Promise<Record<Subject, number[]>> {
  const maker = new BlockMaker({
    profile: {
      base: 'dense',
      collectionsPerBlock: { min: collections, max: collections },
      transactionsPerCollection: { min: transactions, max: transactions },
    },
  });
  const blocks = maker.first(heights);
  await compareStores(blocks.slice(0, 200));
  return interleave(
    {
      one: () => productRate(blocks, 1),
      two: () => productRate(blocks, 2),
      synced: () => verifiedRate(blocks, true),
      unsynced: () => verifiedRate(blocks, false),
    },
    { rounds },
  );
}

async function productRate(blocks: readonly BlockEntry[], callers: number): Promise<number> {
  const path = freshDirectory();
  const product = await ProductWriter.open(path);
  const rate = await rateOf(blocks, () => deliver(product, blocks, callers));
  await product.close();
  rmSync(path, { recursive: true });
  return rate;
}

function deliver(product: ProductWriter, blocks: readonly BlockEntry[], callers: number): Promise<void> {
  return product.deliver(blocks.length, (height) => blocks[height - FIRST_HEIGHT] as BlockEntry, { callers });
}

async function verifiedRate(blocks: readonly BlockEntry[], sync: boolean): Promise<number> {
  const path = freshDirectory();
  const writer = await StoreOnlyWriter.open(path, sync);
  const next = eachOf(blocks);
  const verified = () => {
    const { block, collections } = next();
    return blockKeyValues({
      block,
      collections: collections.map(({ id, encoded }) => verifyCollection(id, splitCollection(encoded))),
    });
  };
  const rate = await rateOf(blocks, () => writer.writeAll(blocks.length, verified, { isAhead: true }));
  await writer.close();
  rmSync(path, { recursive: true });
  return rate;
}

async function rateOf({ length }: readonly BlockEntry[], write: () => Promise<void>): Promise<number> {
  const startedAtMs = performance.now();
  await write();
  return (length * 1000) / (performance.now() - startedAtMs);
}

function eachOf(blocks: readonly BlockEntry[]): () => BlockEntry {
  let at = 0;
  return () => blocks[at++] as BlockEntry;
}

/** That both write the same: every entry of the store-only writer, and the meta record besides. */
async function compareStores(blocks: readonly BlockEntry[]): Promise<void> {
  const path = freshDirectory();
  const product = await ProductWriter.open(join(path, 'product'));
  await deliver(product, blocks, 1);
  const writer = await StoreOnlyWriter.open(join(path, 'storeOnly'));
  const next = eachOf(blocks);
  await writer.writeAll(blocks.length, () => blockKeyValues(next()));
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
  rmSync(path, { recursive: true });
}
