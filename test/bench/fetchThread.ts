/**
 * What a thread of its own for fetching and verifying would gain: the ideal requester pipeline as it is, and with everything
 * but the store on another thread. For docs/decisions; not part of `npm run bench`. Build first.
 */
import { runLimit } from './lib/limits.js';
import type { LimitRun } from './lib/limits.js';
import { startBenchNode } from './lib/node.js';
import { bench, digits } from './lib/report.js';
import { interleave, median, ratioOf } from './lib/statistics.js';

const HEIGHTS = 3_000;
const QUICK_HEIGHTS = 600;
const CONCURRENCY = 32;
const NAMES = { inline: 'on the main thread', split: 'on a thread of its own' } as const;

await bench(
  {
    title: 'Fetching and verifying on a thread of its own',
    about:
      'The ideal requester pipeline, blocks of 5 × 10, into LevelDB in synced groups. On a thread of its own: what became ' +
      'complete in one turn is handed over in one message, its buffers transferred.',
  },
  async ({ quick, rounds }) => {
    const heights = quick ? QUICK_HEIGHTS : HEIGHTS;
    const simulated = await startBenchNode({ profile: 'dense', seed: 1, heights });
    const node = simulated.address;
    const runs = await interleave<keyof typeof NAMES, LimitRun>(
      {
        inline: () => runLimit('idealRequester', { node, heights, concurrency: CONCURRENCY }),
        split: () => runLimit('splitRequester', { node, heights, concurrency: CONCURRENCY }),
      },
      { rounds },
    );
    simulated.close();
    const ratio = (pick: (run: LimitRun) => number): number =>
      ratioOf(runs.split.map(pick), runs.inline.map(pick));
    return {
      tables: [
        {
          title: `${heights} heights, medians of ${rounds} rounds`,
          columns: [
            'fetching and verifying',
            'heights/s',
            'user ms/height, all threads',
            'main thread ms/height',
          ],
          rows: (['inline', 'split'] as const).map((name) => [
            NAMES[name],
            digits(median(runs[name].map((run) => run.heightsPerSecond))),
            digits(median(runs[name].map((run) => run.userMsPerHeight))),
            digits(median(runs[name].map((run) => run.mainThreadMsPerHeight))),
          ]),
        },
      ],
      figures: [
        { what: 'speed, own thread ÷ main thread', value: ratio((run) => run.heightsPerSecond) },
        { what: 'processor time of all threads', value: ratio((run) => run.userMsPerHeight) },
        { what: 'processor time of the main thread', value: ratio((run) => run.mainThreadMsPerHeight) },
      ],
    };
  },
);
process.exit(0);
