import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { connectionMetrics, latencyBuckets, metricMakers, PREFIX, upstreamRequests } from './metricMakers.js';
import { allReadinessCodes } from '../health/readiness.js';

/**
 * The metrics of prom-client that we use. Left out: gauges whose names end in `_total`, which Prometheus reserves
 * for counters, and the lists of handles and requests, which use private parts of Node.js;
 * `nodejs_active_resources` shows the same through the public API.
 */
const processMetrics = [
  'process_cpu_user_seconds_total',
  'process_cpu_system_seconds_total',
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'process_open_fds',
  'process_max_fds',
  'process_resident_memory_bytes',
  'process_virtual_memory_bytes',
  'process_heap_bytes',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_min_seconds',
  'nodejs_eventloop_lag_max_seconds',
  'nodejs_eventloop_lag_mean_seconds',
  'nodejs_eventloop_lag_stddev_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p90_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
  'nodejs_external_memory_bytes',
  'nodejs_heap_space_size_total_bytes',
  'nodejs_heap_space_size_used_bytes',
  'nodejs_heap_space_size_available_bytes',
  'nodejs_version_info',
  'nodejs_gc_duration_seconds',
  'nodejs_active_resources',
];

/** The states of an access node. */
export const endpointStates = ['unknown', 'healthy', 'failing', 'set_aside', 'foreign'] as const;

/** Where a collection came from. */
const collectionSources = ['requester', 'edi', 'peer'] as const;
/** Where the last missing collection of a height came from; `none` for heights without collections. */
const heightSources = [...collectionSources, 'none'] as const;

/** The states of a range of history that has been begun. */
const rangeStates = ['waiting', 'running', 'failed', 'disputed'] as const;

/** Why a reader thread was replaced. */
const readerEnds = ['died', 'hung'] as const;

/** The states of a process that shares a database; `silent`: not heard from lately, though it did not stop. */
const workerStates = ['live', 'silent', 'stopped'] as const;

/** Why data is refused. These series exist from the start, so that an alert sees the first increase. */
const collectionRefusals = [
  ...(['malformed', 'too_large', 'id_mismatch', 'unsolicited'] as const).flatMap((reason) =>
    collectionSources.map((source) => ({ source, reason })),
  ),
  ...(['wrong_count', 'wrong_order', 'wrong_block'] as const).flatMap((reason) =>
    (['edi', 'peer'] as const).map((source) => ({ source, reason })),
  ),
];
/** Why blocks are refused; the first five: what does not fit the block's id (`src/proof`). */
export const blockRefusals = [
  ...(['id', 'chain', 'copy', 'payload', 'ambiguous'] as const),
  ...(['malformed', 'orphaned', 'wrong_height', 'parent_mismatch', 'not_vouched'] as const),
] as const;

/** Values read at each scrape, so that they are correct even when nothing moves. */
export interface ScrapedValues {
  latestIndexedHeight(): number;
  firstIndexedHeight(): number;
  headHeight(): number;
  sealedHeight(): number;
  /** Heights that can be read, in all ranges. */
  coveredHeights(): number;
  /** Covered heights without a proof; `undefined` where that is not counted. */
  unprovenHeights(): number | undefined;
  /** 0 until one is proven. */
  provenHeight(): number;
  /** Planned heights that are not durable yet. */
  backfillMissingHeights(): number;
  /** Ranges that have been begun and are not readable yet, by state. */
  backfillRanges(): ReadonlyMap<string, number>;
  /** Running ranges that do not grow. */
  backfillHeldUpRanges(): number;
  /** Up to 1. */
  backfillShare(): number;
  /** Heights the account index does not cover yet. */
  accountIndexMissingHeights(): number;
  /** Heights handed out and not yet durable. */
  inFlightHeights(): number;
  /** Ids registered in the MCQ and not received yet. */
  collectionsMissing(): number;
  /** Seconds since the lowest incomplete height was queued; 0 when none waits. */
  oldestMissingAgeSeconds(): number;
  /** K. */
  windowHeights(): number;
  bytesInFlight(): number;
  bytesInFlightLimit(): number;
  /** Collection calls under way. */
  requestsInFlight(): number;
  /** Heights that no source could complete for longer than `requester.unresolvableAfterMs`. */
  unresolvableHeights(): number;
  /** Seconds since each stream delivered, by stream name. */
  streamAgeSeconds(): ReadonlyMap<string, number>;
  /** The state of each endpoint. */
  endpointStates(): readonly { readonly endpoint: string; readonly state: string }[];
  /** The codes for which the daemon is not ready; empty when it is. */
  notReady(): ReadonlySet<string>;
  /** Heights behind the head; `undefined` while no node confirms the head. */
  lagHeights(): number | undefined;
  /** Seconds since the finalized head moved; `undefined` until it is known. */
  headAgeSeconds(): number | undefined;
  /** Seconds since the watermark moved, or since the start. */
  indexedAgeSeconds(): number;
  /** 1 while this process leads those that share its database, else 0; `undefined` without a shared database. */
  leads(): number | undefined;
  /** Seconds since the leading process was last heard from; `undefined` while none is known. */
  leaderAgeSeconds(): number | undefined;
  /** How many processes share the database, by state; `undefined` without a shared database. */
  workers(): ReadonlyMap<string, number> | undefined;
  /** `undefined` until first measured. */
  storeBytes(): number | undefined;
  diskFreeBytes(): number | undefined;
  /** Indexing pauses with less free than this; 0: never. */
  diskMinFreeBytes(): number;
  /** 1 while indexing is paused because the disk is nearly full. */
  paused(): number;
}

/**
 * Every metric of the indexing thread, and of the process, made once (docs/metrics.md is generated from here and from
 * `createReaderMetrics`). Label names are checked by the compiler; heights and ids are never labels. Series whose labels
 * are known beforehand exist from the start.
 */
export function createMetrics(build: { readonly version: string; readonly node: string }) {
  const registry = new Registry();
  const registers = [registry];
  let values: ScrapedValues | undefined;

  /** A gauge read at scrape time; absent until the daemon has bound its values, and while the value is unknown. */
  const scraped = (name: string, help: string, read: (from: ScrapedValues) => number | undefined): Gauge =>
    new Gauge({
      name: PREFIX + name,
      help,
      registers,
      collect() {
        if (values === undefined) return;
        const value = read(values);
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
  const makers = metricMakers(registry);
  const { counter, gauge, histogram } = makers;

  scraped(
    'latest_indexed_height',
    'The watermark: every height up to it is complete and durable; start height - 1 on an empty store.',
    (v) => v.latestIndexedHeight(),
  );
  scraped('first_indexed_height', 'The first height of the store.', (v) => v.firstIndexedHeight());
  scraped(
    'covered_heights',
    'Heights that can be read: the live range, and history that was filled in.',
    (v) => v.coveredHeights(),
  );
  scraped(
    'unproven_heights',
    'Heights that can be read and whose ids and guarantees are not proven, or not known to be.',
    (v) => v.unprovenHeights(),
  );
  scraped(
    'proven_height',
    'The height up to which certificates of the consensus nodes prove the chain final; 0 until then.',
    (v) => v.provenHeight(),
  );
  scraped('backfill_missing_heights', 'Heights of history that are planned and not durable yet.', (v) =>
    v.backfillMissingHeights(),
  );
  new Gauge({
    name: PREFIX + 'backfill_ranges',
    help: `Ranges of history that were begun and cannot be read yet, by state: ${rangeStates.join(', ')}.`,
    labelNames: ['state'],
    registers,
    collect() {
      const counts = values?.backfillRanges();
      for (const state of rangeStates) this.set({ state }, counts?.get(state) ?? 0);
    },
  });
  scraped(
    'backfill_held_up_ranges',
    'Ranges of history that are being filled and have not grown for five seconds; /status says why.',
    (v) => v.backfillHeldUpRanges(),
  );
  scraped(
    'backfill_share',
    'The share of its slots and windows that history uses; below 1 while the event loop is late, so that the live range comes first.',
    (v) => v.backfillShare(),
  );
  scraped(
    'leads',
    '1 if this process leads those that share its database, and so follows the chain, else 0; absent without a database.',
    (v) => v.leads(),
  );
  scraped(
    'leader_age_seconds',
    'Seconds since the leading process was last heard from; absent while no leader is known, and without a database.',
    (v) => v.leaderAgeSeconds(),
  );
  new Gauge({
    name: PREFIX + 'workers',
    help: 'Processes that share the database, by state: live; silent (not heard from for 12 s, though it did not stop: dead, or cut off); stopped. Silent and stopped ones are forgotten after a day. Absent without a database.',
    labelNames: ['state'],
    registers,
    collect() {
      this.reset();
      const counts = values?.workers();
      if (counts === undefined) return;
      for (const state of workerStates) this.set({ state }, counts.get(state) ?? 0);
    },
  });
  scraped('head_height', "The node's finalized head.", (v) => v.headHeight());
  scraped('sealed_height', "The node's sealed head.", (v) => v.sealedHeight());
  scraped(
    'lag_heights',
    'Finalized head minus watermark; absent while no access node confirms the head.',
    (v) => v.lagHeights(),
  );
  scraped('head_age_seconds', 'Seconds since the finalized head moved; absent until it is known.', (v) =>
    v.headAgeSeconds(),
  );
  scraped('indexed_age_seconds', 'Seconds since the watermark moved, or since the start.', (v) =>
    v.indexedAgeSeconds(),
  );
  scraped(
    'store_bytes',
    'Size of the store on disk, measured every minute; of a database, every five minutes.',
    (v) => v.storeBytes(),
  );
  scraped('disk_free_bytes', "Free space on the store's disk, measured every second.", (v) =>
    v.diskFreeBytes(),
  );
  scraped(
    'disk_min_free_bytes',
    'Indexing pauses with less than this free (disk.minFreeBytes); 0: never, as always when a database holds the index.',
    (v) => v.diskMinFreeBytes(),
  );
  scraped('indexing_paused', '1 while indexing is paused because the disk is nearly full, else 0.', (v) =>
    v.paused(),
  );
  scraped('ready', '1 when the daemon is ready, 0 when it is not: what /readyz says.', (v) =>
    v.notReady().size === 0 ? 1 : 0,
  );
  new Gauge({
    name: PREFIX + 'not_ready',
    help: '1 for each reason why the daemon is not ready, 0 for all others (docs/readiness.md).',
    labelNames: ['code'],
    registers,
    collect() {
      const current = values?.notReady() ?? new Set(['starting']);
      for (const code of allReadinessCodes) this.set({ code }, current.has(code) ? 1 : 0);
    },
  });
  scraped(
    'account_index_missing_heights',
    'Heights the account index does not cover yet; 0 when it is complete or off.',
    (v) => v.accountIndexMissingHeights(),
  );
  scraped('in_flight_heights', 'Heights in progress: handed out and not yet durable.', (v) =>
    v.inFlightHeights(),
  );
  scraped('collections_missing', 'Collection ids registered as missing and not yet received.', (v) =>
    v.collectionsMissing(),
  );
  scraped(
    'oldest_missing_age_seconds',
    'Seconds since the lowest incomplete height was queued; 0 when none waits.',
    (v) => v.oldestMissingAgeSeconds(),
  );
  scraped('window_heights', 'K: how far above the watermark heights are worked on.', (v) =>
    v.windowHeights(),
  );
  scraped('in_flight_bytes', 'Bytes of received collections that are not yet durable.', (v) =>
    v.bytesInFlight(),
  );
  scraped('in_flight_bytes_limit', 'The bound of in_flight_bytes (maxInFlightBytes).', (v) =>
    v.bytesInFlightLimit(),
  );
  scraped('collection_requests_in_flight', 'Collection calls under way.', (v) => v.requestsInFlight());
  scraped(
    'unresolvable_heights',
    'Heights that no source has completed for requester.unresolvableAfterMs.',
    (v) => v.unresolvableHeights(),
  );
  new Gauge({
    name: PREFIX + 'stream_age_seconds',
    help: 'Seconds since each stream last delivered.',
    labelNames: ['stream'],
    registers,
    collect() {
      this.reset();
      for (const [stream, age] of values?.streamAgeSeconds() ?? []) this.set({ stream }, age);
    },
  });
  new Gauge({
    name: PREFIX + 'endpoint_state',
    help: `1 for the state each access node is in, 0 for the others: ${endpointStates.join(', ')}.`,
    labelNames: ['endpoint', 'state'],
    registers,
    collect() {
      this.reset();
      for (const { endpoint, state } of values?.endpointStates() ?? []) {
        for (const each of endpointStates) this.set({ endpoint, state: each }, each === state ? 1 : 0);
      }
    },
  });
  gauge('build_info', 'Always 1; its labels are the versions of the program and of Node.js.', [
    'version',
    'node',
  ]).set(build, 1);
  registerProcessMetrics(registry);

  const metrics = {
    registry,
    /** Connects the scraped gauges to the running daemon. Called once, by the composition root. */
    bind(source: ScrapedValues): void {
      values = source;
    },
    collectionsRequested: counter('collections_requested_total', 'Collection calls sent, retries included.'),
    collectionsReceived: counter(
      'collections_received_total',
      'Valid collections received, duplicates included.',
      ['source'],
    ),
    duplicateCollections: counter(
      'duplicate_collections_total',
      'Valid collections that were already received or indexed.',
      ['source'],
    ),
    heightsCompleted: counter(
      'heights_completed_total',
      'Heights made durable, by the source of their last missing collection; `none` for heights without collections.',
      ['source'],
    ),
    invalidCollections: counter('invalid_collections_total', 'Collections refused.', ['source', 'reason']),
    invalidBlocks: counter(
      'invalid_blocks_total',
      'Blocks refused, by the node that gave them: they do not fit their id, or the chain.',
      ['endpoint', 'reason'],
    ),
    quorumCertificates: counter(
      'quorum_certificates_total',
      'Certificates of the consensus nodes that were checked for newest blocks: valid, invalid (/status says at which height).',
      ['result'],
    ),
    requestsCancelled: counter(
      'collection_requests_cancelled_total',
      'Collection calls cancelled because another source delivered first.',
    ),
    requestsHeldBack: counter(
      'collection_requests_held_back_total',
      'Heights whose requests were held back for a fresh execution-data stream.',
    ),
    executionDataSkipped: counter(
      'execution_data_skipped_total',
      'Blocks of the execution-data stream skipped because their height was already durable.',
    ),
    heightQueueToComplete: histogram(
      'height_queue_to_complete_seconds',
      'From handing a height out to its durable commit.',
      latencyBuckets,
    ),
    requestToReceive: histogram(
      'collection_request_to_receive_seconds',
      'From the first request for a collection to its valid answer.',
      latencyBuckets,
    ),
    receiveToIndexed: histogram(
      'collection_receive_to_indexed_seconds',
      'From the receipt of a collection to its durable commit.',
      latencyBuckets,
      ['source'],
    ),
    commitDuration: histogram('commit_duration_seconds', 'Duration of one durable batch.', latencyBuckets),
    commitHeights: histogram(
      'commit_heights',
      'Heights in one durable batch.',
      [1, 2, 4, 8, 16, 32, 64, 128, 256],
    ),
    commitBytes: histogram(
      'commit_bytes',
      'Collection bytes in one durable batch.',
      [1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 64e6],
    ),
    scrubRate: gauge(
      'store_scrub_bytes_per_second',
      'How fast the running daemon verifies the stored heights; 0 when it does not.',
    ),
    scrubbedBytes: counter(
      'store_scrubbed_bytes_total',
      'Bytes of stored collections that the running daemon has verified.',
    ),
    lastScrub: gauge(
      'store_last_scrub_timestamp_seconds',
      'When the running daemon had last verified all stored heights, in seconds since 1970; absent until then.',
    ),
    damagedHeights: counter(
      'damaged_heights_total',
      'Stored heights that were found damaged. They cannot be read until they are fetched again.',
    ),
    healedHeights: counter('healed_heights_total', 'Damaged heights that were fetched again.'),
    networkInfo: gauge('network_info', 'Always 1; its labels are the network and its chain id.', [
      'network',
      'chain',
    ]),
    endpointLies: counter(
      'endpoint_lies_total',
      'How often an access node sent data that was proved wrong; the node is set aside each time.',
      ['endpoint'],
    ),
    upstreamRequests: upstreamRequests(makers),
    ...connectionMetrics(makers),
    upstreamErrors: counter('upstream_errors_total', 'Calls to access nodes that failed.', [
      'endpoint',
      'method',
      'kind',
    ]),
    upstreamLatency: histogram(
      'upstream_latency_seconds',
      'Duration of unary calls to access nodes.',
      latencyBuckets,
      ['endpoint', 'method'],
    ),
    streamReopens: counter('stream_reopens_total', 'Streams opened again, by reason.', ['stream', 'reason']),
    certificateExpires: gauge(
      'tls_certificate_expires_timestamp_seconds',
      'When the certificate of the read API expires, in seconds since 1970; absent without TLS.',
    ),
    secretReloads: counter(
      'secret_reloads_total',
      'Changes to the files with the certificate and the tokens of the read API, with the token for peers and with the metadata for nodes, by outcome: changed (the new one is in use), refused (it is unusable, so the previous one stays in use; counted at every check, each 5 s, until the file is fixed).',
      ['secret', 'outcome'],
    ),
    logLinesLost: counter(
      'log_lines_lost_total',
      'Lines that standard output or standard error did not take: a full disk, a reader that is gone or does not read (/status says which, while it lasts); and log records of the reader thread that it could not hand over.',
    ),
    readersReplaced: counter(
      'reader_replaced_total',
      'Reader threads that were replaced, by reason: died (an error of its own ended it, or it ran out of memory), hung (it did not answer, so it was ended).',
      ['reason'],
    ),
    foreignNodes: counter(
      'foreign_nodes_total',
      'How often an access node was found to be of another chain or spork.',
      ['reason'],
    ),
  };
  // A gauge without labels starts at 0, which would mean 1970.
  metrics.lastScrub.remove();
  metrics.certificateExpires.remove();
  for (const source of collectionSources) {
    metrics.collectionsReceived.inc({ source }, 0);
    metrics.duplicateCollections.inc({ source }, 0);
    metrics.receiveToIndexed.zero({ source });
  }
  for (const source of heightSources) metrics.heightsCompleted.inc({ source }, 0);
  for (const labels of collectionRefusals) metrics.invalidCollections.inc(labels, 0);
  for (const result of ['valid', 'invalid'] as const) metrics.quorumCertificates.inc({ result }, 0);
  for (const reason of readerEnds) metrics.readersReplaced.inc({ reason }, 0);
  return metrics;
}

/** All metrics; each part takes those that it updates by `Pick<Metrics, …>`. */
export type Metrics = ReturnType<typeof createMetrics>;

/** The metrics of a Node.js process. Some exist on some platforms only. */
function registerProcessMetrics(registry: Registry): void {
  const defaults = new Registry();
  collectDefaultMetrics({ register: defaults });
  for (const name of processMetrics) {
    const metric = defaults.getSingleMetric(name);
    if (metric !== undefined) registry.registerMetric(metric);
  }
}
