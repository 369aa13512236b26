import { collectDefaultMetrics, Registry } from 'prom-client';
import { connectionMetrics, latencyBuckets, metricMakers, upstreamRequests } from './metricMakers.js';
import { allReadinessCodes, endpointStates } from '../health/readiness.js';

/**
 * prom-client's metrics that we drop: gauges whose names end in `_total`, which Prometheus reserves for counters, and the lists
 * of handles and requests, which use private parts of Node.js; `nodejs_active_resources` shows the same by the public API.
 */
const UNUSED = /^nodejs_active_(?:handles|requests|\w+_total)/;

/** Where a collection came from. */
const collectionSources = ['requester', 'edi', 'peer'] as const;
/** Where the last missing collection of a height came from; `none` for heights without collections. */
const heightSources = [...collectionSources, 'none'] as const;

/** The states of a range of history that has been started. */
const rangeStates = ['waiting', 'running', 'failed', 'disputed'] as const;
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
/** Why blocks are refused; the first five are mismatches with the block's id (`src/proof`). */
export const blockRefusals = [
  ...(['id', 'chain', 'copy', 'payload', 'ambiguous'] as const),
  ...(['malformed', 'orphaned', 'wrong_height', 'parent_mismatch', 'not_vouched'] as const),
] as const;

/**
 * The gauges without labels, by name, with their meaning. They are read at each scrape, so they are correct even when nothing
 * changes.
 */
const scrapedGauges = {
  latest_indexed_height:
    'The watermark: every height up to it is complete and durable; start height - 1 on an empty store.',
  first_indexed_height: 'The first height of the store; absent while it is empty.',
  covered_heights: 'Heights that can be read: the live range, and history that was filled in.',
  unproven_heights:
    'Heights that can be read and whose ids and guarantees are not proven, or not known to be.',
  proven_height:
    'The height up to which certificates of the consensus nodes prove the chain final; 0 until then.',
  backfill_missing_heights: 'Heights of history that are planned and not durable yet.',
  backfill_held_up_ranges:
    'Ranges of history that are being filled and have not grown for five seconds; /status says why.',
  backfill_share:
    'The share of its slots and windows that history uses; below 1 while the event loop is late, so that the live range comes first.',
  leads:
    '1 if this process leads those that share its database, and so follows the chain, else 0; absent without a database.',
  leader_age_seconds:
    'Seconds since the leading process was last heard from; absent while no leader is known, and without a database.',
  head_height: "The node's finalized head; absent until it is known.",
  sealed_height: "The node's sealed head; absent until it is known.",
  lag_heights: 'Finalized head minus watermark; absent while no access node confirms the head.',
  head_age_seconds: 'Seconds since the finalized head moved; absent until it is known.',
  indexed_age_seconds: 'Seconds since the watermark moved, or since the start.',
  store_bytes: 'Size of the store on disk, measured every few seconds; of a database, every five minutes.',
  disk_free_bytes: "Free space on the store's disk, measured every second.",
  disk_min_free_bytes:
    'Indexing pauses with less than this free (disk.minFreeBytes); 0: never, as always when a database holds the index.',
  indexing_paused: '1 while indexing is paused because the disk is nearly full, else 0.',
  ready: '1 when the daemon is ready, 0 when it is not: what /readyz says.',
  account_index_missing_heights:
    'Heights the account index does not cover yet; 0 when it is complete or off.',
  in_flight_heights: 'Heights in progress: handed out and not yet durable.',
  collections_missing: 'Collection ids registered as missing and not yet received.',
  oldest_missing_age_seconds: 'Seconds since the lowest incomplete height was queued; 0 when none waits.',
  window_heights: 'K: how far above the watermark heights are worked on.',
  in_flight_bytes: 'Bytes of received collections that are not yet durable.',
  in_flight_bytes_limit: 'The bound of in_flight_bytes (maxInFlightBytes).',
  collection_requests_in_flight: 'Collection calls under way.',
  unresolvable_heights: 'Heights that no source has completed for requester.unresolvableAfterMs.',
} as const;

/** Reads each of them (`undefined` while the value is unknown), and the gauges with labels. */
export interface ScrapedValues extends Readonly<
  Record<keyof typeof scrapedGauges, () => number | undefined>
> {
  /** By state. */
  backfill_ranges(): ReadonlyMap<string, number>;
  /** By state; `undefined` without a shared database. */
  workers(): ReadonlyMap<string, number> | undefined;
  /** By stream. */
  stream_age_seconds(): ReadonlyMap<string, number>;
  endpoint_state(): readonly { readonly name: string; readonly state: string }[];
  /** The codes for which the daemon is not ready; empty when it is. */
  not_ready(): ReadonlySet<string>;
}

/**
 * Every metric of the indexing thread, and of the process, made once (docs/metrics.md is generated from here and from
 * `createReaderMetrics`). Label names are checked by the compiler; heights and ids are never labels. Series whose labels
 * are known beforehand exist from the start.
 */
export function createMetrics(build: { readonly version: string; readonly node: string }) {
  const registry = new Registry();
  let values: ScrapedValues | undefined;
  const makers = metricMakers(registry);
  const { counter, gauge, histogram, scraped, scrapedEach } = makers;

  // 0 until the daemon has bound its values, before anybody can scrape them.
  for (const [name, help] of Object.entries(scrapedGauges))
    scraped(name, help, () => (values === undefined ? 0 : values[name as keyof typeof scrapedGauges]()));
  /** 0 for each of the known ones that is not found. */
  const atLeast = (known: readonly string[], found: Iterable<readonly [string, number]> = []) => [
    ...new Map([...known.map((each) => [each, 0] as const), ...found]),
  ];
  scrapedEach(
    'backfill_ranges{state}',
    `Ranges of history that were begun and cannot be read yet, by state: ${rangeStates.join(', ')}.`,
    () => atLeast(rangeStates, values?.backfill_ranges()).map(([state, count]) => [{ state }, count]),
  );
  scrapedEach(
    'workers{state}',
    'Processes that share the database, by state: live; silent (not heard from for 12 s, though it did not stop: dead, or cut off); stopped. Silent and stopped ones are forgotten after a day. Absent without a database.',
    () => {
      const workers = values?.workers();
      return workers && atLeast(workerStates, workers).map(([state, count]) => [{ state }, count]);
    },
  );
  scrapedEach(
    'not_ready{code}',
    '1 for each reason why the daemon is not ready, 0 for all others (docs/readiness.md).',
    () => {
      const codes = values?.not_ready() ?? new Set(['starting']);
      return allReadinessCodes.map((code) => [{ code }, Number(codes.has(code))]);
    },
  );
  scrapedEach(
    'stream_age_seconds{stream}',
    'Seconds since each stream last delivered; of a head, since it last rose.',
    () => [...(values?.stream_age_seconds() ?? [])].map(([stream, age]) => [{ stream }, age]),
  );
  scrapedEach(
    'endpoint_state{endpoint,state}',
    `1 for the state each access node is in, 0 for the others: ${endpointStates.join(', ')}.`,
    () =>
      (values?.endpoint_state() ?? []).flatMap(({ name: endpoint, state: its }) =>
        endpointStates.map((state) => [{ endpoint, state }, Number(state === its)] as const),
      ),
  );
  gauge(
    'build_info{version,node}',
    'Always 1; its labels are the versions of the program and of Node.js.',
  ).set(build, 1);
  // The metrics of a Node.js process; some exist on some platforms only.
  collectDefaultMetrics({ register: registry });
  for (const { name } of registry.getMetricsAsArray())
    if (UNUSED.test(name)) registry.removeSingleMetric(name);

  const metrics = {
    registry,
    /** Connects the scraped gauges to the running daemon. Called once, by the composition root. */
    bind(source: ScrapedValues): void {
      values = source;
    },
    collectionsRequested: counter('collections_requested_total', 'Collection calls sent, retries included.'),
    collectionsReceived: counter(
      'collections_received_total{source}',
      'Valid collections received, duplicates included.',
    ),
    duplicateCollections: counter(
      'duplicate_collections_total{source}',
      'Valid collections that were already received or indexed.',
    ),
    heightsCompleted: counter(
      'heights_completed_total{source}',
      'Heights made durable, by the source of their last missing collection; `none` for heights without collections.',
    ),
    invalidCollections: counter('invalid_collections_total{source,reason}', 'Collections refused.'),
    invalidBlocks: counter(
      'invalid_blocks_total{endpoint,reason}',
      'Blocks refused, by the node that gave them: they do not fit their id, or the chain.',
    ),
    quorumCertificates: counter(
      'quorum_certificates_total{result}',
      'Certificates of the consensus nodes that were checked for newest blocks: valid, invalid (/status says at which height).',
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
      'collection_receive_to_indexed_seconds{source}',
      'From the receipt of a collection to its durable commit.',
      latencyBuckets,
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
    networkInfo: gauge(
      'network_info{network,chain}',
      'Always 1; its labels are the network and its chain id.',
    ),
    endpointLies: counter(
      'endpoint_lies_total{endpoint}',
      'How often an access node sent data that was proved wrong; the node is set aside each time.',
    ),
    upstreamRequests: upstreamRequests(makers),
    ...connectionMetrics(makers),
    upstreamErrors: counter(
      'upstream_errors_total{endpoint,method,kind}',
      'Calls to access nodes that failed.',
    ),
    upstreamLatency: histogram(
      'upstream_latency_seconds{endpoint,method}',
      'Duration of unary calls to access nodes.',
      latencyBuckets,
    ),
    streamReopens: counter('stream_reopens_total{stream,reason}', 'Streams opened again, by reason.'),
    certificateExpires: gauge(
      'tls_certificate_expires_timestamp_seconds',
      'When the certificate of the read API expires, in seconds since 1970; absent without TLS.',
    ),
    secretReloads: counter(
      'secret_reloads_total{secret,outcome}',
      'Changes to the files with the certificate and the tokens of the read API and with the metadata for nodes, by outcome: changed (the new one is in use), refused (it is unusable, so the previous one stays in use; counted at every check, each 5 s, until the file is fixed).',
    ),
    logLinesLost: counter(
      'log_lines_lost_total',
      'Lines that standard output or standard error did not take: a full disk, a reader that is gone or does not read (/status says which, while it lasts); and log records of the reader thread that it could not hand over.',
    ),
    readersReplaced: counter(
      'reader_replaced_total{reason}',
      'Reader threads that were replaced, by reason: died (an error of its own ended it, or it ran out of memory), hung (it did not answer, so it was ended).',
    ),
    foreignNodes: counter(
      'foreign_nodes_total{reason}',
      'How often an access node was found to be of another chain or spork.',
    ),
  };
  // A gauge without labels starts at 0, which here would mean 1970.
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
  for (const reason of ['died', 'hung'] as const) metrics.readersReplaced.inc({ reason }, 0);
  for (const reason of ['chain', 'spork', 'block'] as const) metrics.foreignNodes.inc({ reason }, 0);
  return metrics;
}

/** All metrics; each part takes those that it updates by `Pick<Metrics, …>`. */
export type Metrics = ReturnType<typeof createMetrics>;
