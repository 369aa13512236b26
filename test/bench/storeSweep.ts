/**
 * What group size and LevelDB's options do to writing, growth, bytes written and memory:
 *
 *     npx tsx test/bench/storeSweep.ts --variant writeBufferMiB=32 --variant writeBufferMiB=32,maxFileMiB=8
 *     npx tsx test/bench/storeSweep.ts --writer product --variant groupHeights=16 --variant groupHeights=128
 *
 *     --variant LIST    KEY=VALUE,… on top of the defaults; repeatable. Keys: writeBufferMiB, maxFileMiB, cacheMiB,
 *                       blockKiB, openFiles, groupHeights, groupMiB. The defaults themselves are always the first variant.
 *     --writer NAME     product or "store only"                                                       [store only]
 *     --heights N       blocks of 5 × 10 transactions of 655 bytes per run                            [40000]
 *     --rounds N        runs of each variant; medians are printed                                     [1]
 *     --reads N         transactions read by id out of each finished store, one after the other       [0]
 *     --payload NAME    dense (the simulated chain) or text (a text of its own in every script)       [dense]
 *
 * Every run fills an empty store in a process of its own. In every round each variant runs once.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../src/observability/index.js';
import { seededRandom, systemClock } from '../../src/runtime/index.js';
import { LevelIndexStore } from '../../src/storage/index.js';
import { BlockMaker, CHAIN_ID, FIRST_HEIGHT } from './lib/blockEntries.js';
import { writeBlockFile } from './lib/blockFile.js';
import { grow } from './lib/growth.js';
import type { GrowthOptions, GrowthReport } from './lib/growth.js';
import { GROUP } from './lib/indexer.js';
import { scratch } from './lib/processes.js';
import { digits, formatTable } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';
import { TextMaker } from './lib/textBlocks.js';
import { scriptOptions } from '../support/scriptOptions.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const SEED = 1;

const { values: args } = scriptOptions({
  options: {
    variant: { type: 'string', multiple: true, default: [] },
    writer: { type: 'string', default: 'store only' },
    heights: { type: 'string', default: '40000' },
    rounds: { type: 'string', default: '1' },
    reads: { type: 'string', default: '0' },
    payload: { type: 'string', default: 'dense' },
  },
});
const heights = Number(args.heights);
const reads = Number(args.reads);
const writer: GrowthOptions['writer'] = args.writer === 'product' ? 'product' : 'store only';
const file = join(scratch, 'blocks');

const DEFAULTS = 'defaults';

interface Result extends GrowthReport {
  readonly readsPerSecond: number;
}

function optionsOf(variant: string): Pick<GrowthOptions, 'tuning' | 'group'> {
  if (variant === DEFAULTS) return {};
  const values = new Map(variant.split(',').map((part) => part.split('=') as [string, string]));
  const scaled = (key: string, scale: number): number | undefined => {
    const value = values.get(key);
    return value === undefined ? undefined : Number(value) * scale;
  };
  const tuning = {
    writeBufferBytes: scaled('writeBufferMiB', MIB),
    maxFileBytes: scaled('maxFileMiB', MIB),
    cacheBytes: scaled('cacheMiB', MIB),
    blockBytes: scaled('blockKiB', KIB),
    maxOpenFiles: scaled('openFiles', 1),
  };
  return {
    // What is undefined does not travel as JSON, and leaves the default in place.
    tuning: JSON.parse(JSON.stringify(tuning)) as NonNullable<GrowthOptions['tuning']>,
    group: {
      maxHeights: scaled('groupHeights', 1) ?? GROUP.maxHeights,
      maxBytes: scaled('groupMiB', MIB) ?? GROUP.maxBytes,
    },
  };
}

const dense = new BlockMaker({ seed: SEED, profile: 'dense' });
const text = new TextMaker(SEED);
writeBlockFile(file, heights, (height) => (args.payload === 'text' ? text : dense).at(height));

const variants = [DEFAULTS, ...args.variant];
const results = await interleave(
  Object.fromEntries(variants.map((variant) => [variant, () => measure(variant)])),
  {
    rounds: Number(args.rounds),
    onResult: (variant, { heightsPerSecond }) =>
      process.stdout.write(`${variant}: ${digits(heightsPerSecond)} heights/s\n`),
  },
);
const of = (variant: string, value: (result: Result) => number): number[] =>
  (results[variant] ?? []).map(value);
process.stdout.write(
  `\n${formatTable({
    title: `${writer}, ${heights} blocks of 5 × 10, ${args.payload}`,
    columns: [
      ...['variant', 'heights/s', '÷ first', 'last two tenths ÷ first two', 'last two tenths, heights/s'],
      ...['written MB', 'stored MB', 'peak anonymous MiB', 'closing, ms', 'reads/s'],
    ],
    rows: variants.map((variant) => {
      const rates = of(variant, ({ heightsPerSecond }) => heightsPerSecond);
      return [
        variant,
        digits(median(rates)),
        digits(
          ratioOf(
            rates,
            of(DEFAULTS, ({ heightsPerSecond }) => heightsPerSecond),
          ),
        ),
        digits(median(of(variant, ({ tenths }) => rateOf(tenths.slice(-2)) / rateOf(tenths.slice(0, 2))))),
        digits(median(of(variant, ({ tenths }) => rateOf(tenths.slice(-2))))),
        digits(median(of(variant, ({ writtenBytes }) => writtenBytes / 1e6))),
        digits(median(of(variant, ({ storedBytes }) => storedBytes / 1e6))),
        digits(
          median(of(variant, ({ tenths }) => Math.max(...tenths.map((tenth) => tenth.peakAnonymousMiB)))),
        ),
        digits(median(of(variant, ({ closeMs }) => closeMs))),
        digits(median(of(variant, ({ readsPerSecond }) => readsPerSecond))),
      ];
    }),
  })}`,
);
process.exit(0);

function rateOf(tenths: GrowthReport['tenths']): number {
  const seconds = tenths.reduce((sum, tenth) => sum + tenth.heights / tenth.heightsPerSecond, 0);
  return tenths.reduce((sum, tenth) => sum + tenth.heights, 0) / seconds;
}

async function measure(variant: string): Promise<Result> {
  const path = join(scratch, 'store');
  const options = optionsOf(variant);
  const report = await grow({ writer, file, heights, path, ...options });
  const readsPerSecond = reads === 0 || writer !== 'product' ? 0 : await readRate(path, options.tuning ?? {});
  rmSync(path, { recursive: true });
  return { ...report, readsPerSecond };
}

async function readRate(path: string, tuning: NonNullable<GrowthOptions['tuning']>): Promise<number> {
  const random = seededRandom(SEED);
  const ids = Array.from({ length: reads }, () => {
    const { block } = dense.at(FIRST_HEIGHT + Math.floor(random.next() * heights));
    return block.collectionIds[0];
  });
  const store = await LevelIndexStore.open(
    { path, chainId: CHAIN_ID, tuning },
    { logger: silentLogger, clock: systemClock },
  );
  const startedAtMs = performance.now();
  for (const id of ids) if (id !== undefined) await store.collection(id);
  const rate = (reads * 1000) / (performance.now() - startedAtMs);
  await store.close();
  return rate;
}
