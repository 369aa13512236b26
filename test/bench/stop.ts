/** How soon the daemon ends when it is told to stop while it catches up at full speed. Build first: it runs `dist/main.js`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Mode } from './lib/daemonRun.js';
import { startLiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';
import { interleave, median } from './lib/statistics.js';
import { scriptOptions } from '../support/scriptOptions.js';

const HEIGHTS = 15_000;
const QUICK_HEIGHTS = 6_000;
/** Indexed when the signal is sent: the write buffer was full more than once, and compactions run. */
const STOP_AFTER_HEIGHTS = 2_000;
const QUICK_STOP_AFTER_HEIGHTS = 800;
const MODES: readonly Mode[] = ['edi-only', 'requester-only', 'hybrid'];

const { values: args } = scriptOptions({
  options: { program: { type: 'string', default: 'dist/main.js' } },
  strict: false,
});

await bench(
  {
    title: 'Stopping',
    about:
      'From SIGTERM to the end of the process with exit code 0, sent while blocks of 5 × 10 transactions are caught up ' +
      'with at full speed and most of the chain is still missing. The batch in hand is finished, the store is closed.',
  },
  async ({ quick, rounds }) => {
    const node = await startBenchNode({ profile: 'dense', heights: quick ? QUICK_HEIGHTS : HEIGHTS });
    const stopAfter = quick ? QUICK_STOP_AFTER_HEIGHTS : STOP_AFTER_HEIGHTS;
    const stops = await interleave(
      Object.fromEntries(
        MODES.map((mode) => [
          mode,
          async () => {
            const dataDir = mkdtempSync(join(scratch, 'data-'));
            const daemon = await startLiveDaemon({
              ...{ node: node.address, mode, dataDir },
              program: String(args.program),
            });
            await daemon.reaches(stopAfter);
            const tookMs = await daemon.stop();
            rmSync(dataDir, { recursive: true });
            return tookMs;
          },
        ]),
      ),
      { rounds },
    );
    node.close();
    const slowest = Math.max(...MODES.flatMap((mode) => stops[mode] ?? []));
    return {
      tables: [
        {
          title: 'Milliseconds from the signal to the end',
          columns: ['mode', 'median', 'slowest', 'stops'],
          rows: MODES.map((mode) => {
            const own = stops[mode] ?? [];
            return [mode, digits(median(own)), digits(Math.max(...own)), own.length];
          }),
        },
      ],
      figures: [{ what: 'stop at full speed, slowest', value: slowest / 1000, unit: 's', atMost: 2 }],
    };
  },
);
process.exit(0);
