import { lines, number, type Row } from '../panels.js';
import { gauges, mean, own, quantiles, rate } from '../queries.js';

const GIB = 1024 ** 3;

export const storeRow: Row = {
  title: 'Store',
  panels: [
    lines({
      title: 'Duration of a commit',
      text: 'One durable batch. Milliseconds on a good disk; what is above a second holds everything up.',
      unit: 's',
      limits: [null, 1],
      queries: quantiles('commit_duration_seconds'),
    }),
    lines({
      title: 'Heights in a commit',
      text: 'At the tip one; the further behind and the slower the disk, the more share one commit.',
      queries: [[mean('commit_heights'), '{{instance}} mean'], ...quantiles('commit_heights')],
    }),
    lines({
      title: 'Bytes in a commit',
      text: 'Of collections, before the database compresses them.',
      unit: 'bytes',
      queries: [[mean('commit_bytes'), '{{instance}} mean'], ...quantiles('commit_bytes')],
    }),
    lines({
      title: 'Written',
      text: 'Bytes of collections per second.',
      unit: 'Bps',
      width: 6,
      queries: [[rate('commit_bytes_sum'), '{{instance}}']],
    }),
    lines({
      title: 'Size',
      text: 'Of the store on disk; of a database, its tables with their indexes.',
      unit: 'bytes',
      width: 6,
      queries: [[own('store_bytes'), '{{instance}}']],
    }),
    lines({
      title: 'Free',
      text: "On the store's disk, where the last six hours lead to within a day, and below what indexing pauses.",
      unit: 'bytes',
      width: 6,
      limits: [5 * GIB, GIB],
      isLowBad: true,
      queries: [
        [own('disk_free_bytes'), '{{instance}}'],
        [`predict_linear(${own('disk_free_bytes')}[6h], 24 * 3600)`, '{{instance}} in a day'],
        [own('disk_min_free_bytes'), '{{instance}} pauses below'],
      ],
    }),
    lines({
      title: 'Checked',
      text: 'Bytes of collections verified per second, and how fast that may go (scrub.bytesPerSecond).',
      unit: 'Bps',
      width: 6,
      queries: [
        [rate('store_scrubbed_bytes_total'), '{{instance}} checked'],
        [own('store_scrub_bytes_per_second'), '{{instance}} at most'],
      ],
    }),
    number({
      title: 'All heights verified',
      text: 'How long ago. Not known until the first pass since the start has ended.',
      unit: 's',
      width: 8,
      queries: [[`time() - ${own('store_last_scrub_timestamp_seconds')}`, '{{instance}}']],
    }),
    number({
      title: 'Damaged heights',
      text: 'Found since the start, and how many of them were fetched again.',
      width: 8,
      queries: [
        [own('damaged_heights_total'), '{{instance}} found'],
        [own('healed_heights_total'), '{{instance}} healed'],
      ],
    }),
    number({
      title: 'Indexing',
      text: 'Paused while the disk is nearly full (disk.minFreeBytes). Reads go on.',
      width: 8,
      names: { '0': ['goes on', 'green'], '1': ['paused', 'red'] },
      queries: [[own('indexing_paused'), '{{instance}}']],
    }),
  ],
};

export const historyRow: Row = {
  title: 'Ranges and workers',
  panels: [
    lines({
      title: 'History that is missing',
      text: 'Heights that are planned and not durable. Goes down to 0.',
      unit: 'locale',
      queries: [[own('backfill_missing_heights'), '{{instance}}']],
    }),
    lines({
      title: 'Heights that can be read',
      text: 'The live range, and history that was filled in.',
      unit: 'locale',
      queries: [
        [own('covered_heights'), '{{instance}}'],
        [own('unproven_heights'), '{{instance}} unproven'],
      ],
    }),
    lines({
      title: 'Ranges begun',
      text: 'By state, and those that do not grow. Disputed ones have failed five times and wait for `backfill redrive`.',
      queries: [
        [own('backfill_ranges'), '{{instance}} {{state}}'],
        [own('backfill_held_up_ranges'), '{{instance}} held up'],
      ],
    }),
    lines({
      title: 'Processes on one database',
      text: 'Live; silent: dead or cut off; stopped by themselves. Empty without a database.',
      queries: [[own('workers'), '{{instance}} sees {{state}}']],
    }),
    lines({
      title: 'Who leads',
      text: '1 for the process that follows the chain. The sum is 1; 0 for some seconds while another takes over.',
      max: 2,
      queries: [
        [own('leads'), '{{instance}}'],
        [`sum(${own('leads')})`, 'all'],
      ],
    }),
    lines({
      title: 'Leader last heard of',
      text: 'Another takes over from one that is silent for longer than 12 s.',
      unit: 's',
      limits: [null, 12],
      queries: [[own('leader_age_seconds'), '{{instance}}']],
    }),
    lines({
      title: 'How much history may take',
      text: 'The share of its slots and windows that it uses; less while the event loop that it shares with the tip is late.',
      unit: 'percentunit',
      width: 12,
      max: 1,
      queries: [[own('backfill_share'), '{{instance}}']],
    }),
    lines({
      title: 'Account index',
      text: 'Heights that it does not cover yet; 0 when it is complete or off.',
      unit: 'locale',
      width: 12,
      queries: gauges({ account_index_missing_heights: 'missing' }),
    }),
  ],
};
