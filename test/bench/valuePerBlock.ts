/**
 * The prototype behind docs/decisions/0001-value-per-block.md: the same blocks in three layouts (test/bench/lib/layouts.ts),
 * written by the same bare writer, every batch synced, and read back.
 *
 *     --heights N    blocks of 5 × 10 transactions of 655 bytes   [40000; a tenth with --quick]
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { seededRandom } from '../../src/runtime/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { BlockMaker, FIRST_HEIGHT } from './lib/blockEntries.js';
import { writeBlockFile } from './lib/blockFile.js';
import { grow } from './lib/growth.js';
import type { GrowthReport } from './lib/growth.js';
import { layoutNames } from './lib/layouts.js';
import type { LayoutName } from './lib/layouts.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { indexKey, KEY, StoreOnlyWriter } from './lib/storeOnly.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HEIGHTS = 40_000;
const QUICK_SHARE = 10;
const READS = 3000;
const QUICK_READS = 500;
const SEED = 1;
/** Behind the 33 bytes of prefix and id. */
const HEIGHT_AT = 33;
/** In a block record, behind two numbers and two for each collection, before the block. */
const COLLECTIONS = 5;

const { values: args } = scriptOptions({ options: { heights: { type: 'string' } }, strict: false });

interface Reads {
  readonly collection: number;
  readonly transaction: number;
  readonly block: number;
}

interface Sample {
  readonly height: number;
  readonly place: number;
  readonly collectionId: Buffer;
  readonly transactionId: Buffer;
  readonly collectionIds: readonly Buffer[];
}

await bench(
  {
    title: 'Value per block',
    about:
      'The collections of a block in one value, in a value each under the height, and in a value each under their own ids: ' +
      'the store-only writer, every batch synced, one layout after the other, and then reads at random of the closed and ' +
      'reopened store, one at a time, the checksum of every value compared, with the files in the cache of the system.',
  },
  async ({ quick }) => {
    const heights = Number(args.heights ?? (quick ? HEIGHTS / QUICK_SHARE : HEIGHTS));
    const chain = new BlockMaker({ seed: SEED, profile: 'dense' });
    const file = join(scratch, 'blocks');
    const payload = writeBlockFile(file, heights, (height) => chain.at(height));
    const random = seededRandom(SEED);
    const samples = Array.from({ length: quick ? QUICK_READS : READS }, () =>
      sampleOf(chain.at(FIRST_HEIGHT + Math.floor(random.next() * heights)), random.next()),
    );
    const rows: { name: LayoutName; run: GrowthReport; reads: Reads }[] = [];
    for (const name of layoutNames) {
      const path = join(scratch, 'store');
      const run = await grow({ writer: name, file, heights, path });
      rows.push({ name, run, reads: await readAll(name, path, samples) });
      rmSync(path, { recursive: true });
    }
    const rate =
      (from: number, to: number) =>
      ({ run }: (typeof rows)[number]) => {
        const tenths = run.tenths.slice(from, to);
        const total = tenths.reduce((sum, tenth) => sum + tenth.heights, 0);
        return total / tenths.reduce((sum, tenth) => sum + tenth.heights / tenth.heightsPerSecond, 0);
      };
    const first = rate(0, 2);
    const last = rate(8, 10);
    const line = (label: string, value: (row: (typeof rows)[number]) => number) => [
      label,
      ...rows.map((row) => digits(value(row))),
    ];
    return {
      tables: [
        {
          title: `${heights} blocks of 5 × 10 transactions of 655 bytes`,
          columns: ['', ...layoutNames],
          rows: [
            line('heights/s', ({ run }) => run.heightsPerSecond),
            line('heights/s, last two tenths', last),
            line('last two tenths ÷ first two', (row) => last(row) / first(row)),
            line('written ÷ put', ({ run }) => run.writtenBytes / run.putBytes),
            line('stored ÷ payload', ({ run }) => run.storedBytes / payload),
            line('collections by id, reads/s', ({ reads }) => reads.collection),
            line('transactions by id, reads/s', ({ reads }) => reads.transaction),
            line('all collections of a block, reads/s', ({ reads }) => reads.block),
          ],
        },
      ],
      figures: rows.slice(1).flatMap((row) => {
        const [best] = rows;
        if (best === undefined) return [];
        return [
          {
            what: `writing, value per block ÷ ${row.name}`,
            value: best.run.heightsPerSecond / row.run.heightsPerSecond,
          },
          { what: `stored bytes, likewise`, value: best.run.storedBytes / row.run.storedBytes },
        ];
      }),
    };
  },
);

function sampleOf({ block, collections }: BlockEntry, chance: number): Sample {
  const place = Math.floor(chance * collections.length);
  const collection = collections[place];
  if (collection === undefined) throw new Error('a dense block is empty');
  return {
    height: block.height,
    place,
    collectionId: Buffer.from(collection.id, 'hex'),
    transactionId: Buffer.from(collection.transactionIds.subarray(0, 32)),
    collectionIds: block.collectionIds.map((id) => Buffer.from(id, 'hex')),
  };
}

async function readAll(name: LayoutName, path: string, samples: readonly Sample[]): Promise<Reads> {
  const store = await StoreOnlyWriter.open({ path, sync: true });
  const read = {
    'value per block': {
      collection: async ({ collectionId }: Sample) => bodyAt(await pointer(KEY.collection, collectionId), 0),
      transaction: async ({ transactionId }: Sample) =>
        bodyAt(await pointer(KEY.transaction, transactionId), 0),
      block: ({ height }: Sample) => value(indexKey(KEY.body, undefined, height, [0])),
    },
    'value per collection, by height': {
      collection: async ({ collectionId }: Sample) => bodyAt(await pointer(KEY.collection, collectionId)),
      transaction: async ({ transactionId }: Sample) => bodyAt(await pointer(KEY.transaction, transactionId)),
      block: ({ height, collectionIds }: Sample) =>
        Promise.all(collectionIds.map((_, place) => value(indexKey(KEY.body, undefined, height, [place])))),
    },
    'value per collection, by id': {
      collection: ({ collectionId }: Sample) => pointer(KEY.collection, collectionId),
      transaction: async ({ transactionId }: Sample) => {
        const [key] = await pointer(KEY.transaction, transactionId);
        // The pointer tells height and place; the id of the collection there stands in the block.
        const record = await value(indexKey(KEY.block, undefined, key.readUInt32BE(HEIGHT_AT + 4), []));
        const sample = samples.find((one) => one.transactionId.equals(transactionId));
        const id = sample?.collectionIds[key.readUInt32BE(HEIGHT_AT + 8)];
        if (id === undefined || record.length < 8 + 8 * COLLECTIONS) throw new Error('no such collection');
        return pointer(KEY.collection, id);
      },
      block: ({ collectionIds }: Sample) =>
        Promise.all(collectionIds.map((id) => pointer(KEY.collection, id))),
    },
  }[name];

  async function pointer(prefix: number, id: Buffer): Promise<readonly [Buffer, Buffer]> {
    const found = await store.firstUnder(Buffer.concat([Buffer.of(prefix), id]));
    if (found?.[0].subarray(1, HEIGHT_AT).equals(id) !== true) throw new Error('a pointer is missing');
    check(...found);
    return found;
  }

  /** The value that a pointer leads to; its place is the pointer's unless all collections share one. */
  function bodyAt(
    [key]: readonly [Buffer, Buffer],
    place = key.readUInt32BE(HEIGHT_AT + 8),
  ): Promise<Buffer> {
    return value(indexKey(KEY.body, undefined, key.readUInt32BE(HEIGHT_AT + 4), [place]));
  }

  async function value(key: Buffer): Promise<Buffer> {
    const found = await store.get(key);
    if (found === undefined) throw new Error('a value is missing');
    check(key, found);
    return found;
  }

  const rateOf = async (one: (sample: Sample) => Promise<unknown>): Promise<number> => {
    const startedAtMs = performance.now();
    for (const sample of samples) await one(sample);
    return (samples.length * 1000) / (performance.now() - startedAtMs);
  };
  const rates = {
    collection: await rateOf(read.collection),
    transaction: await rateOf(read.transaction),
    block: await rateOf(read.block),
  };
  await store.close();
  return rates;
}

function check(key: Buffer, value: Buffer): void {
  const end = value.length - 4;
  if (crc32(value.subarray(0, end), crc32(key)) !== value.readUInt32BE(end)) throw new Error('damage');
}
