import { lines, type Row } from '../panels.js';
import { increase, ofProcess, own, quantiles, rate, type Query } from '../queries.js';

export const readersRow: Row = {
  title: 'Readers',
  panels: [
    lines({
      title: 'Requests per second',
      text: 'By route.',
      unit: 'reqps',
      isStacked: true,
      queries: [[rate('api_requests_total', ['interface', 'route']), '{{instance}} {{interface}} {{route}}']],
    }),
    lines({
      title: 'Refused and failed, per second',
      text: 'By status. 404 and NOT_FOUND are answers; 5xx, INTERNAL and UNAVAILABLE are not.',
      unit: 'reqps',
      queries: [
        [
          rate('api_requests_total', ['interface', 'status'], 'status!~"2..|OK"'),
          '{{instance}} {{interface}} {{status}}',
        ],
      ],
    }),
    lines({
      title: 'How long callers wait',
      text: 'From the first byte of a request to the end of its answer.',
      unit: 's',
      queries: quantiles('api_request_seconds', ['interface']),
    }),
    lines({
      title: 'The reader thread',
      text: 'How late its event loop is (99 of 100 turns are earlier). Above a tenth of a second it has more to do than it can.',
      unit: 's',
      width: 6,
      limits: [null, 0.1],
      queries: [[own('reader_event_loop_lag_p99_seconds'), '{{instance}}']],
    }),
    lines({
      title: 'Its heap',
      text: 'The limit is 1 GiB.',
      unit: 'bytes',
      width: 6,
      limits: [null, 1024 ** 3],
      queries: [[own('reader_heap_used_bytes'), '{{instance}}']],
    }),
    lines({
      title: 'Replaced',
      text: 'How often the thread died or hung and another took its place. Should stay at 0.',
      width: 6,
      limits: [null, 1],
      queries: [[increase('reader_replaced_total', ['reason']), '{{instance}} {{reason}}']],
    }),
    lines({
      title: 'The certificate lasts for',
      text: 'Until the certificate of the read API expires. Nothing is shown where it speaks plain text.',
      unit: 's',
      queries: [[`${own('tls_certificate_expires_timestamp_seconds')} - time()`, '{{instance}}']],
    }),
    lines({
      title: 'Certificate and tokens read again',
      text: 'Changes of their files that were taken, and looks at what cannot be used. The log says what is wrong with it.',
      unit: 'none',
      queries: [
        [increase('secret_reloads_total', ['secret', 'outcome']), '{{instance}} {{secret}} {{outcome}}'],
      ],
    }),
    lines({
      title: 'Connections of callers',
      text: 'Open ones by port, how many may be open, and those that were cut, by reason.',
      width: 6,
      queries: [
        [own('connections'), '{{instance}} {{port}} open'],
        [own('connections_limit'), '{{instance}} {{port}} at most'],
        [increase('connections_cut_total', ['port', 'reason']), '{{instance}} {{port}} cut: {{reason}}'],
      ],
    }),
    lines({
      title: 'Followers of the change feed',
      text: 'Streams that are open, and those that were cut because nothing was taken.',
      queries: [
        [own('feed_followers'), '{{instance}} {{kind}}'],
        [increase('feed_followers_cut_total', ['kind']), '{{instance}} cut: {{kind}}'],
      ],
    }),
    lines({
      title: 'Events of the change feed per second',
      text: 'Sent and taken.',
      unit: 'none',
      queries: [[rate('feed_events_total', ['kind']), '{{instance}} {{kind}}']],
    }),
    lines({
      title: 'Forwarded calls per second',
      text: 'By what became of them; docs/metrics.md explains the outcomes.',
      unit: 'reqps',
      isStacked: true,
      queries: [
        [rate('forwarded_calls_total', ['protocol', 'outcome']), '{{instance}} {{protocol}} {{outcome}}'],
      ],
    }),
    lines({
      title: 'How long forwarded calls take',
      text: 'Those that a node answered, errors included.',
      unit: 's',
      width: 12,
      queries: quantiles('forwarded_call_seconds', ['protocol']),
    }),
    lines({
      title: 'Forwarded calls under way',
      text: 'At most 100 gRPC calls, 100 streams and 64 REST requests.',
      width: 12,
      queries: [[own('forwarded_calls_in_flight'), '{{instance}} {{protocol}} {{kind}}']],
    }),
  ],
};

/** Gauges of the Node.js process. */
function ofNode(names: Readonly<Record<string, string>>): readonly Query[] {
  return Object.entries(names).map(([name, legend]) => [ofProcess(name), `{{instance}} ${legend}`]);
}

export const processRow: Row = {
  title: 'Process',
  panels: [
    lines({
      title: 'Processor',
      text: 'Seconds per second: 1 is one processor. Indexing and readers each have a thread.',
      unit: 'none',
      queries: (['', 'user_', 'system_'] as const).map((part) => [
        `rate(${ofProcess(`process_cpu_${part}seconds_total`)}[$__rate_interval])`,
        `{{instance}} ${part === '' ? 'all' : part.slice(0, -1)}`,
      ]),
    }),
    lines({
      title: 'Memory',
      text: 'Resident memory must level off.',
      unit: 'bytes',
      queries: ofNode({
        process_resident_memory_bytes: 'resident',
        nodejs_heap_size_total_bytes: 'heap',
        nodejs_heap_size_used_bytes: 'heap in use',
        nodejs_external_memory_bytes: 'buffers',
      }),
    }),
    lines({
      title: 'Address space',
      text: 'Virtual memory, and the data segment: large numbers are usual.',
      unit: 'bytes',
      queries: ofNode({ process_virtual_memory_bytes: 'virtual', process_heap_bytes: 'data segment' }),
    }),
    lines({
      title: 'Event loop of the indexing thread',
      text: 'How late it is. Above a tenth of a second at the 99th percentile, the thread has more to do than it can.',
      unit: 's',
      limits: [null, 0.1],
      queries: ofNode({
        nodejs_eventloop_lag_p50_seconds: 'p50',
        nodejs_eventloop_lag_p90_seconds: 'p90',
        nodejs_eventloop_lag_p99_seconds: 'p99',
        nodejs_eventloop_lag_max_seconds: 'max',
      }),
    }),
    lines({
      title: 'The same, at the scrape and on average',
      text: 'The delay at the moment of the scrape, and mean, least and spread since the one before.',
      unit: 's',
      queries: ofNode({
        nodejs_eventloop_lag_seconds: 'at the scrape',
        nodejs_eventloop_lag_mean_seconds: 'mean',
        nodejs_eventloop_lag_min_seconds: 'min',
        nodejs_eventloop_lag_stddev_seconds: 'standard deviation',
      }),
    }),
    lines({
      title: 'Garbage collection',
      text: 'Seconds per second, by kind.',
      unit: 'none',
      queries: [
        [
          `sum by (instance, kind) (rate(${ofProcess('nodejs_gc_duration_seconds_sum')}[$__rate_interval]))`,
          '{{instance}} {{kind}}',
        ],
      ],
    }),
    lines({
      title: 'Heap, by space',
      text: 'In use, taken from the system, and free.',
      unit: 'bytes',
      queries: ofNode({
        nodejs_heap_space_size_used_bytes: '{{space}} used',
        nodejs_heap_space_size_total_bytes: '{{space}} total',
        nodejs_heap_space_size_available_bytes: '{{space}} free',
      }),
    }),
    lines({
      title: 'Lines of the log that were lost',
      text: 'What standard output and standard error did not take. Should stay at 0; /status says why it does not.',
      width: 6,
      limits: [null, 1],
      queries: [[increase('log_lines_lost_total'), '{{instance}}']],
    }),
    lines({
      title: 'Open files',
      text: 'Files and connections. The store needs some 60, each caller one.',
      queries: ofNode({ process_open_fds: 'open', process_max_fds: 'limit' }),
    }),
    lines({
      title: 'Active resources',
      text: 'What the event loop waits for, by type. A type that only grows is a leak.',
      queries: ofNode({ nodejs_active_resources: '{{type}}' }),
    }),
    lines({
      title: 'Node.js',
      text: 'The version that runs.',
      width: 24,
      queries: [
        [ofProcess('nodejs_version_info'), '{{instance}} {{version}}'],
        [own('network_info'), '{{instance}} {{network}} {{chain}}'],
      ],
    }),
  ],
};
