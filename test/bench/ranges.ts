/** What history that is filled in costs the live range. Build first: it runs `dist/main.js`. */
import { availableParallelism } from 'node:os';
import { followFresh } from './lib/followFresh.js';
import { bench, digits } from './lib/report.js';
import { percentile } from './lib/statistics.js';

/** Small, so that full speed is many heights. */
const profile = {
  base: 'dense',
  collectionsPerBlock: { min: 1, max: 1 },
  transactionsPerCollection: { min: 2, max: 2 },
} as const;

/** More history than can be filled in while the tip is watched. */
const FULL = { history: 120_000, warmUpHeights: 20, heights: 120 };
const QUICK = { history: 25_000, warmUpHeights: 6, heights: 24 };
/** With fewer the simulated node, the bench and the database have none of their own. */
const PROCESSORS_FOR_FRESHNESS = 4;

await bench(
  {
    title: 'Ranges of history',
    about:
      'Blocks of 1 × 2 transactions, one every 500 ms, whose collections come later, as in "At the tip"; ' +
      'with nothing else to do, and with history filled in at full speed (default flags), all of it from the same node.',
  },
  async ({ quick }) => {
    const effort = quick ? QUICK : FULL;
    const common = { ...effort, profile, startHeight: effort.history };
    const alone = await followFresh(common);
    const filling = await followFresh({ ...common, isHistoryMade: true, flags: ['--backfill', '1'] });
    if (filling.missingHeights === 0) throw new Error('history was filled in before the last height');
    const late = (times: readonly number[], share: number): string => digits(percentile(times, share));
    const rows = Object.entries({ alone, 'history is filled in': filling }).map(([name, found]) => [
      ...[name, late(found.lateMs, 0.5), late(found.lateMs, 0.9), found.mostLagHeights],
      digits(found.filledPerSecond),
    ]);
    const isRoomy = availableParallelism() >= PROCESSORS_FOR_FRESHNESS;
    return {
      tables: [
        {
          title: `The live range, ${effort.heights} heights`,
          columns: ['beside it', 'late p50 ms', 'late p90 ms', 'heights behind, most', 'history, heights/s'],
          rows,
        },
      ],
      figures: [
        { what: 'heights behind while filling in', value: filling.mostLagHeights, atMost: 2 },
        {
          what: 'late p50, live only ÷ while filling in',
          value: percentile(alone.lateMs, 0.5) / percentile(filling.lateMs, 0.5),
          ...(isRoomy ? { atLeast: 0.95 } : {}),
        },
      ],
    };
  },
);
