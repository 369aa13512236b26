/**
 * The prototype behind docs/decisions/0004-bodies-in-the-tree.md: bodies in append-only, checksummed segments with LevelDB
 * holding pointers and progress (test/bench/lib/segmentWriter.ts), against all of it in LevelDB.
 *
 *     --heights N    blocks of 5 × 10 transactions of 655 bytes   [60000; a tenth with --quick]
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { constants, deflateRawSync } from 'node:zlib';
import { BlockMaker, FIRST_HEIGHT } from './lib/blockEntries.js';
import { writeBlockFile } from './lib/blockFile.js';
import { grow } from './lib/growth.js';
import type { GrowthReport } from './lib/growth.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { SegmentWriter } from './lib/segmentWriter.js';
import { median } from './lib/statistics.js';
import { TextMaker } from './lib/textBlocks.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HEIGHTS = 60_000;
const QUICK_SHARE = 10;
const DEFLATED_BLOCKS = 200;
const DEFLATE_ROUNDS = 5;
const SEED = 1;
const WRITERS = ['store only', 'segments', 'segments, deflated'] as const;

const { values: args } = scriptOptions({ options: { heights: { type: 'string' } }, strict: false });

await bench(
  {
    title: 'Bodies in segments',
    about:
      'A prototype, not the product. Groups of 64 blocks, each durable before the next: with segments by two syncs in ' +
      'order, first the segment, then the LevelDB batch that points into it. LevelDB compresses with Snappy; segments are ' +
      'written as they are, or deflated at the quickest level in the thread pool. One writer after the other.',
  },
  async ({ quick }) => {
    const heights = Number(args.heights ?? (quick ? HEIGHTS / QUICK_SHARE : HEIGHTS));
    const chain = new BlockMaker({ seed: SEED, profile: 'dense' });
    const file = join(scratch, 'blocks');
    const payload = writeBlockFile(file, heights, (height) => chain.at(height));
    const runs: GrowthReport[] = [];
    for (const writer of WRITERS) {
      const path = join(scratch, 'store');
      runs.push(await grow({ writer, file, heights, path }));
      rmSync(path, { recursive: true });
    }
    const recovered = await recover(chain);
    const line = (label: string, value: (run: GrowthReport) => number) => [
      label,
      ...runs.map((run) => digits(value(run))),
    ];
    const rate = ({ tenths }: GrowthReport, from: number, to: number): number =>
      tenths.slice(from, to).reduce((sum, tenth) => sum + tenth.heights, 0) /
      tenths.slice(from, to).reduce((sum, tenth) => sum + tenth.heights / tenth.heightsPerSecond, 0);
    const [inTree, segments, deflated] = runs;
    return {
      tables: [
        {
          title: `${heights} blocks of 5 × 10 transactions of 655 bytes`,
          columns: ['', ...WRITERS],
          rows: [
            line('heights/s', ({ heightsPerSecond }) => heightsPerSecond),
            line('heights/s, last two tenths', (run) => rate(run, 8, 10)),
            line('last two tenths ÷ first two', (run) => rate(run, 8, 10) / rate(run, 0, 2)),
            line('written ÷ put', ({ writtenBytes, putBytes }) => writtenBytes / putBytes),
            line('stored ÷ payload', ({ storedBytes }) => storedBytes / payload),
          ],
        },
        {
          title: 'Deflating a body at the quickest level, µs of the processor',
          columns: ['the simulated chain', 'a text of its own in every script'],
          rows: [[digits(deflateMicroseconds(chain)), digits(deflateMicroseconds(new TextMaker(SEED)))]],
        },
        {
          title: 'A crash between the two syncs',
          columns: ['bytes behind the committed end', 'cut off at the next open', 'committed end afterwards'],
          rows: [[recovered.behind, recovered.cut, recovered.isRestored ? 'as before' : 'another']],
        },
      ],
      figures: [
        {
          what: 'segments ÷ bodies in the tree, last two tenths',
          value: rate(segments as GrowthReport, 8, 10) / rate(inTree as GrowthReport, 8, 10),
        },
        {
          what: 'deflated segments ÷ bodies in the tree, last two tenths',
          value: rate(deflated as GrowthReport, 8, 10) / rate(inTree as GrowthReport, 8, 10),
        },
      ],
    };
  },
);

function deflateMicroseconds(maker: Pick<BlockMaker, 'at'>): number {
  const bodies = Array.from({ length: DEFLATED_BLOCKS }, (_, index) =>
    Buffer.concat(maker.at(FIRST_HEIGHT + index).collections.map(({ encoded }) => encoded)),
  );
  const rounds = Array.from({ length: DEFLATE_ROUNDS }, () => {
    const before = process.cpuUsage();
    for (const body of bodies) deflateRawSync(body, { level: constants.Z_BEST_SPEED });
    return process.cpuUsage(before).user / bodies.length;
  });
  return median(rounds);
}

/** Appends a group to the segment without the batch that points at it, as a crash between the two syncs leaves it. */
async function recover(chain: BlockMaker): Promise<{ behind: number; cut: number; isRestored: boolean }> {
  const path = join(scratch, 'crashed');
  const { writer } = await SegmentWriter.open({ path, deflate: false });
  writer.add(chain.at(FIRST_HEIGHT));
  await writer.commit(FIRST_HEIGHT);
  const committed = writer.committedEnd;
  await writer.append([chain.at(FIRST_HEIGHT + 1)]);
  const behind = writer.committedEnd - committed;
  await writer.close();
  const { writer: again, cutBytes } = await SegmentWriter.open({ path, deflate: false });
  const isRestored = again.committedEnd === committed;
  await again.close();
  return { behind, cut: cutBytes, isRestored };
}
