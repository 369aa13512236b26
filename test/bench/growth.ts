/**
 * How the store bears growing to five million transactions, and how soon a daemon on top of the grown store serves. Needs
 * some 10 GB of disk for a few minutes. Build first: it runs `dist/main.js`.
 */
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { BlockMaker, FIRST_HEIGHT, textBlocks, writeBlockFile } from './lib/blocks.js';
import { startTipNode } from './lib/node.js';
import { freshDirectory, scratch, startTask } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { timedStart } from './lib/starts.js';
import { median } from './lib/statistics.js';

const HEIGHTS = 100_000;
const QUICK_SHARE = 20;
const TRANSACTIONS_PER_BLOCK = 50;
/** Enough that LevelDB has written the most of it to tables. */
const TEXT_SHARE = 20;
const STARTS = 5;
const SEED = 1;

export interface GrowthTask {
  readonly writer: 'product' | 'store only';
  /** Of `writeBlockFile`. */
  readonly file: string;
  readonly heights: number;
  /** The directory of the store; left behind. */
  readonly path: string;
}

export interface Tenth {
  readonly heightsPerSecond: number;
  /** The most memory in this tenth that no file backs. */
  readonly peakAnonymousMiB: number;
}

export interface GrowthReport {
  readonly heightsPerSecond: number;
  readonly tenths: readonly Tenth[];
  /** Handed to write calls by the whole process, up to the last durable height. */
  readonly writtenBytes: number;
  /** Keys and values; the store-only writer counts them, for both write the same. */
  readonly putBytes: number;
}

await bench(
  {
    title: 'Growth',
    about:
      'Blocks of 5 × 10 transactions of 655 bytes, all of them made beforehand and read from one file by each writer, in a ' +
      'process of its own: the product (indexer and store, every batch synced), then the store-only writer, which puts the ' +
      'same entries into LevelDB with the same options, synced likewise. Bytes written are those the process handed to ' +
      'write calls (/proc/self/io: log, tables and manifest); bytes put are the keys and values before compression; the ' +
      'payload is the collections as a node sends them. The scripts of the simulated chain are two texts and a filler, so ' +
      'they compress better than scripts of a live network may; "text" below is the same with every script a text of its ' +
      'own, of words of Cadence drawn at random, which compresses worse. The start is measured from the start of the ' +
      'process to the first 200 for the collection stored last, by id, with the files in the cache of the system.',
  },
  async ({ quick }) => {
    const heights = quick ? HEIGHTS / QUICK_SHARE : HEIGHTS;
    const [file, textFile, dataDir] = [join(scratch, 'blocks'), join(scratch, 'text'), freshDirectory()];
    const chain = new BlockMaker({ seed: SEED, profile: 'dense' });
    const payload = writeBlockFile(file, heights, (height) => chain.at(height));
    const product = await grow({ writer: 'product', file, heights, path: join(dataDir, 'index') });
    const storeOnly = await growAndForget(file, heights);
    rmSync(file);
    const textHeights = Math.ceil(heights / TEXT_SHARE);
    const textPayload = writeBlockFile(textFile, textHeights, textBlocks(SEED));
    const text = await growAndForget(textFile, textHeights);
    const starts = await startsOn(dataDir, chain, heights);
    const anonymous = product.tenths.map(({ peakAnonymousMiB }) => peakAnonymousMiB);
    const amplification = product.writtenBytes / storeOnly.putBytes;
    const stored = [
      product.storedBytes / payload,
      storeOnly.storedBytes / payload,
      text.storedBytes / textPayload,
    ] as const;
    const runs = [product, storeOnly, text];
    const row = (name: string, values: readonly number[]): string[] => [name, ...values.map(digits)];
    return {
      tables: [
        {
          title: 'Heights per second, tenth by tenth',
          columns: [
            'tenth',
            'product',
            'store only',
            'anonymous memory of the product, MiB',
            'of store only',
          ],
          rows: product.tenths.map(({ heightsPerSecond, peakAnonymousMiB }, index) => {
            const other = storeOnly.tenths[index];
            return row(String(index + 1), [
              ...[heightsPerSecond, other?.heightsPerSecond ?? Number.NaN],
              ...[peakAnonymousMiB, other?.peakAnonymousMiB ?? Number.NaN],
            ]);
          }),
        },
        {
          title: `After ${heights * TRANSACTIONS_PER_BLOCK} transactions`,
          columns: ['', 'product', 'store only', `store only, text (${textHeights} blocks)`],
          rows: [
            row(
              'heights/s',
              runs.map(({ heightsPerSecond }) => heightsPerSecond),
            ),
            row('last tenth ÷ first tenth', runs.map(decay)),
            row('payload, MB', [payload / 1e6, payload / 1e6, textPayload / 1e6]),
            row(
              'put, MB',
              [storeOnly, storeOnly, text].map(({ putBytes }) => putBytes / 1e6),
            ),
            row('written ÷ put', [
              amplification,
              ...[storeOnly, text].map(({ putBytes, writtenBytes }) => writtenBytes / putBytes),
            ]),
            row('stored ÷ payload', stored),
          ],
        },
        {
          title: 'Start on the grown store, ms to the first answer',
          columns: ['median', 'slowest', 'starts'],
          rows: [[digits(median(starts)), digits(Math.max(...starts)), starts.length]],
        },
      ],
      figures: [
        { what: 'growth: last tenth ÷ first tenth', value: decay(product), atLeast: 0.7 },
        {
          what: 'growth ÷ growth of the store-only writer',
          value: decay(product) / decay(storeOnly),
          atLeast: 1,
        },
        { what: 'written ÷ put (write amplification)', value: amplification, atMost: 3.3 },
        { what: 'stored ÷ payload', value: stored[0], atMost: 0.75 },
        { what: 'stored ÷ payload, text', value: stored[2], atMost: 0.75 },
        { what: 'anonymous memory, highest', value: Math.max(...anonymous), unit: 'MiB', atMost: 381 },
        {
          what: 'anonymous memory, last three tenths ÷ second to fourth',
          value: Math.max(...anonymous.slice(-3)) / Math.max(...anonymous.slice(1, 4)),
          atMost: 1.15,
        },
        { what: 'start on the grown store', value: median(starts) / 1000, unit: 's', atMost: 1 },
      ],
    };
  },
);

/** Fills a store in a process of its own. */
async function grow(task: GrowthTask): Promise<GrowthReport & { readonly storedBytes: number }> {
  mkdirSync(task.path, { recursive: true });
  const child = startTask('lib/growthProcess.ts', task);
  let report: GrowthReport | undefined;
  child.on('message', (message) => (report = message as GrowthReport));
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0 || report === undefined)
    throw new Error(`the writer "${task.writer}" ended with ${String(code)}`);
  const storedBytes = readdirSync(task.path).reduce(
    (sum, name) => sum + statSync(join(task.path, name)).size,
    0,
  );
  return { ...report, storedBytes };
}

async function growAndForget(file: string, heights: number) {
  const path = join(scratch, 'store-only');
  const report = await grow({ writer: 'store only', file, heights, path });
  rmSync(path, { recursive: true });
  return report;
}

function decay({ tenths }: GrowthReport): number {
  return (tenths.at(-1)?.heightsPerSecond ?? Number.NaN) / (tenths[0]?.heightsPerSecond ?? Number.NaN);
}

/** Milliseconds to the first answer out of the store, several times over; the node's head is the last height stored. */
async function startsOn(dataDir: string, chain: BlockMaker, heights: number): Promise<number[]> {
  const startHead = FIRST_HEIGHT + heights - 1;
  const path = `/v1/collections/${chain.at(startHead).collections[0]?.id ?? ''}`;
  const node = await startTipNode({ seed: SEED, profile: 'dense', startHead });
  const times: number[] = [];
  while (times.length < STARTS) times.push((await timedStart(node.address, dataDir, path)).read);
  node.close();
  return times;
}
