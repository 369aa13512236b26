import { lines, number, states, type Row } from '../panels.js';
import { gauges, ofProcess, own, quantiles, rate } from '../queries.js';

const yesNo = { '1': ['yes', 'green'], '0': ['no', 'red'] } as const;

export const healthRow: Row = {
  title: 'Is it healthy?',
  panels: [
    number({
      title: 'Ready',
      text: 'What /readyz says. If not, the panel below has the code, and docs/readiness.md what to do.',
      names: yesNo,
      queries: [[own('ready'), '{{instance}}']],
    }),
    number({
      title: 'Scraped',
      text: 'Whether Prometheus reaches the daemon. While it does not, all panels show old values or none.',
      names: yesNo,
      queries: [['up{instance=~"$instance"}', '{{instance}}']],
    }),
    number({
      title: 'Behind',
      text: 'Finalized head minus watermark. At the tip a few heights. Not known while no access node confirms the head.',
      limits: [20, 100],
      queries: [[own('lag_heights'), '{{instance}}']],
    }),
    number({
      title: 'Head moved',
      text: 'Since the finalized head moved. On mainnet a block comes nearly every second.',
      unit: 's',
      limits: [60, 300],
      queries: [[own('head_age_seconds'), '{{instance}}']],
    }),
    number({
      title: 'Watermark moved',
      text: 'Since the latest indexed height moved.',
      unit: 's',
      limits: [60, 300],
      queries: [[own('indexed_age_seconds'), '{{instance}}']],
    }),
    number({
      title: 'Unresolvable',
      text: 'Heights that no source has completed for requester.unresolvableAfterMs. `explain HEIGHT` has who was asked.',
      limits: [null, 1],
      queries: [[own('unresolvable_heights'), '{{instance}}']],
    }),
    number({
      title: 'Up for',
      text: 'Since the process was started.',
      unit: 's',
      queries: [[`time() - ${ofProcess('process_start_time_seconds')}`, '{{instance}}']],
    }),
    number({
      title: 'Version',
      text: 'Of the program, and of Node.js.',
      isName: true,
      queries: [[own('build_info'), '{{version}} on {{node}}']],
    }),
    states({
      title: 'Not ready, and why',
      text: 'The codes of /readyz while they stand. Nothing is shown while the daemon is ready.',
      names: { '1': ['not ready', 'red'] },
      queries: [[`${own('not_ready')} == 1`, '{{instance}} {{code}}']],
    }),
    states({
      title: 'Alerts',
      text: 'Firing alerts of deploy/prometheus/alerts.yml. docs/runbook.md has a section for each.',
      names: { '1': ['fires', 'red'] },
      queries: [
        [
          // Some alerts have no instance.
          'label_replace(max by (alertname, instance) (ALERTS{alertname=~"FlowIndexer.+", alertstate="firing"}), "instance", "all", "instance", "")',
          '{{alertname}} {{instance}}',
        ],
      ],
    }),
  ],
};

export const progressRow: Row = {
  title: 'Progress',
  panels: [
    lines({
      title: 'Heights',
      text: 'The head of the chain, its sealed head, and how far the index is. The lines should lie upon each other.',
      unit: 'locale',
      queries: gauges({
        head_height: 'head',
        sealed_height: 'sealed',
        latest_indexed_height: 'indexed',
        first_indexed_height: 'first indexed',
      }),
    }),
    lines({
      title: 'Behind',
      text: 'Finalized head minus watermark; ready up to ready.maxLag (100).',
      limits: [null, 100],
      queries: [[own('lag_heights'), '{{instance}}']],
    }),
    lines({
      title: 'Not proven',
      text: 'Heights whose ids are on the word of the nodes; and heights above the last one that certificates of the consensus nodes prove final: two at the tip, more where views were skipped (nothing is shown while none is proven). /status says why.',
      queries: [
        [own('unproven_heights'), '{{instance}} ids'],
        [`${own('latest_indexed_height')} - (${own('proven_height')} > 0)`, '{{instance}} finality'],
      ],
    }),
    lines({
      title: 'Heights per second',
      text: 'Made durable, against what the chain grows by. While it catches up the first is far above the second.',
      unit: 'none',
      queries: [
        [rate('heights_completed_total'), '{{instance}} indexed'],
        [`deriv(${own('head_height')}[$__rate_interval])`, '{{instance}} head'],
      ],
    }),
    lines({
      title: 'Caught up in',
      text: 'The lag, divided by how much faster than the chain it indexes. Nothing is shown while it does not catch up.',
      unit: 's',
      queries: [[`${own('lag_heights')} / (-deriv(${own('lag_heights')}[5m]) > 0)`, '{{instance}}']],
    }),
    lines({
      title: 'How old',
      text: 'Since the head moved, since the watermark moved, and since the lowest incomplete height was handed out.',
      unit: 's',
      limits: [null, 300],
      queries: gauges({
        head_age_seconds: 'head',
        indexed_age_seconds: 'watermark',
        oldest_missing_age_seconds: 'oldest missing',
      }),
    }),
    lines({
      title: 'Work in hand',
      text: 'Heights handed out and not durable, within the window; ids of collections still missing; calls under way.',
      queries: gauges({
        in_flight_heights: 'heights',
        window_heights: 'window',
        collections_missing: 'collections missing',
        collection_requests_in_flight: 'calls under way',
      }),
    }),
    lines({
      title: 'Bytes in hand',
      text: 'Of collections received and not yet durable. Never far above the limit (maxInFlightBytes).',
      unit: 'bytes',
      queries: gauges({ in_flight_bytes: 'in flight', in_flight_bytes_limit: 'limit' }),
    }),
    lines({
      title: 'From handed out to durable',
      text: 'How long a height takes. At the tip the waiting of the nodes is most of it.',
      unit: 's',
      queries: quantiles('height_queue_to_complete_seconds'),
    }),
    lines({
      title: 'Completed by',
      text: 'Which source brought the last collection of a height; none: the block had no collections.',
      unit: 'none',
      isStacked: true,
      queries: [[rate('heights_completed_total', ['source']), '{{instance}} {{source}}']],
    }),
  ],
};
