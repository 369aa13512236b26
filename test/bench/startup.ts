/** How soon the daemon serves once it is started. Build first: it runs `dist/main.js`. */
import { ChainGenerator } from '../../src/devnet/index.js';
import { startDaemon } from './lib/daemon.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { atMost, bench, digits } from './lib/report.js';
import { timedStart, type Start } from './lib/starts.js';
import { median } from './lib/statistics.js';

const CHAIN = { profile: 'dense', seed: 1 } as const;
const HEIGHTS = 200;
const STARTS_PER_ROUND = 3;

await bench(
  {
    title: 'Starting',
    about:
      'From the start of the process to the first 200 of /livez, the first answer of /readyz, whatever it says, and the first 200 for a ' +
      `collection that is stored, by id; on a store of ${HEIGHTS} blocks of 5 × 10 whose files are in the cache of the system. ` +
      'Beside it, commands that need no daemon, from their start to their end.',
  },
  async ({ rounds }) => {
    const node = await startBenchNode({ ...CHAIN, heights: HEIGHTS });
    const dataDir = freshDirectory();
    const filling = await startDaemon({ node: node.address, mode: 'edi-only', dataDir });
    await filling.reaches(HEIGHTS);
    await filling.ends('SIGTERM');
    const path = `/v1/collections/${new ChainGenerator(CHAIN).block(HEIGHTS).collections[0]?.id ?? ''}`;
    const starts: Start[] = [];
    while (starts.length < rounds * STARTS_PER_ROUND)
      starts.push(await timedStart(node.address, dataDir, path));
    node.close();
    const serving = [
      ['/livez', median(starts.map(({ live }) => live)), 0.6],
      ['/readyz', median(starts.map(({ ready }) => ready)), 0.6],
      ['first read', median(starts.map(({ read }) => read)), 0.75],
    ] as const;
    return {
      tables: [
        {
          title: `Medians of ${starts.length} starts`,
          columns: ['what', 'ms'],
          rows: serving.map(([what, ms]) => [`start to ${what}`, digits(ms)]),
        },
      ],
      figures: serving.map(([what, ms, most]) => atMost(most, `start to serving, ${what}`, ms / 1_000, 's')),
    };
  },
);
