/** How soon the daemon ends when it is told to stop while it catches up at full speed. Build first: it runs `dist/main.js`. */
import { rmSync } from 'node:fs';
import { startDaemon } from './lib/daemon.js';
import type { Mode } from './lib/daemon.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { interleave, median } from './lib/statistics.js';

/** `stopAt`: indexed when the signal is sent; the write buffer was full more than once, and compactions run. */
const FULL = { heights: 15_000, stopAt: 2_000 };
const QUICK = { heights: 6_000, stopAt: 800 };

await bench(
  {
    title: 'Stopping',
    about:
      'From SIGTERM to the end of the process with exit code 0, sent while blocks of 5 × 10 transactions are caught up ' +
      'with at full speed and most of the chain is still missing. The batch in hand is finished, the store is closed.',
  },
  async ({ quick, rounds }) => {
    const { heights, stopAt } = quick ? QUICK : FULL;
    const node = await startBenchNode({ profile: 'dense', heights });
    const stop = (mode: Mode) => async (): Promise<number> => {
      const dataDir = freshDirectory();
      const daemon = await startDaemon({ node: node.address, mode, dataDir });
      await daemon.reaches(stopAt);
      const tookMs = await daemon.stop();
      rmSync(dataDir, { recursive: true });
      return tookMs;
    };
    const stops = await interleave(
      {
        'edi-only': stop('edi-only'),
        'requester-only': stop('requester-only'),
        hybrid: stop('hybrid'),
      },
      { rounds },
    );
    node.close();
    const slowest = Math.max(...Object.values(stops).flat());
    return {
      tables: [
        {
          title: 'Milliseconds from the signal to the end',
          columns: ['mode', 'median', 'slowest', 'stops'],
          rows: Object.entries(stops).map(([mode, own]) => [
            ...[mode, digits(median(own)), digits(Math.max(...own)), own.length],
          ]),
        },
      ],
      figures: [{ what: 'stop at full speed, slowest', value: slowest / 1000, unit: 's', atMost: 2 }],
    };
  },
);
