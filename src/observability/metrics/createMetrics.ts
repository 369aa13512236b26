import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { registerProcessMetrics } from './processMetrics.js';
import { allReadinessCodes } from '../health/readiness.js';

const PREFIX = 'flow_collection_indexer_';

/** The states of an access node. */
export const endpointStates = ['unknown', 'healthy', 'failing', 'set_aside', 'foreign'] as const;

/** Where a collection came from. */
const collectionSources = ['requester', 'edi'] as const;
/** Where the last missing collection of a height came from; `none` for heights without collections. */
const heightSources = [...collectionSources, 'none'] as const;

/** Forwarded traffic, each kind with its own limit. */
const forwardedKinds = [
  { protocol: 'grpc', kind: 'call' },
  { protocol: 'grpc', kind: 'stream' },
  { protocol: 'rest', kind: 'call' },
] as const;

/** Values read at each scrape, so that they are correct even when nothing moves. */
export interface ScrapedValues {
  latestIndexedHeight(): number;
  firstIndexedHeight(): number;
  headHeight(): number;
  sealedHeight(): number;
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
  /** `undefined` until first measured. */
  storeBytes(): number | undefined;
  diskFreeBytes(): number | undefined;
}

/**
 * Every metric of the daemon, created once per process; docs/metrics.md is generated from here. The compiler
 * checks label names; heights and ids are never labels. Series with known labels exist from the start.
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
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: PREFIX + name, help, labelNames: [...labelNames], registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly L[] = [],
  ) => new Histogram<L>({ name: PREFIX + name, help, buckets, labelNames: [...labelNames], registers });

  const latencyBuckets = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
  ];

  scraped(
    'latest_indexed_height',
    'The watermark: every height up to it is complete and durable; start height - 1 on an empty store.',
    (v) => v.latestIndexedHeight(),
  );
  scraped('first_indexed_height', 'The first height of the store.', (v) => v.firstIndexedHeight());
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
  scraped('store_bytes', 'Size of the store on disk, measured every minute.', (v) => v.storeBytes());
  scraped('disk_free_bytes', "Free space on the store's disk, measured every five seconds.", (v) =>
    v.diskFreeBytes(),
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
      const standing = values?.notReady() ?? new Set(['starting']);
      for (const code of allReadinessCodes) this.set({ code }, standing.has(code) ? 1 : 0);
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
  new Gauge({
    name: PREFIX + 'build_info',
    help: 'Always 1; its labels are the versions of the program and of Node.js.',
    labelNames: ['version', 'node'],
    registers,
  }).set(build, 1);
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
    invalidBlocks: counter('invalid_blocks_total', 'Blocks refused.', ['reason']),
    requestsCancelled: counter(
      'collection_requests_cancelled_total',
      'Collection calls cancelled because the other source delivered first.',
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
    scrubbedBytes: counter(
      'store_scrubbed_bytes_total',
      "Bytes of the store's tables checked against their checksums by the running daemon.",
    ),
    lastScrub: new Gauge({
      name: `${PREFIX}store_last_scrub_timestamp_seconds`,
      help: 'When the running daemon last found all tables of the store sound, in seconds since 1970; absent until then.',
      registers,
    }),
    apiRequests: counter(
      'api_requests_total',
      'Finished requests of callers, forwarded ones included, by interface (http or grpc), route (the pattern of a path, or the path of a gRPC method) and status (HTTP status, or name of the gRPC code).',
      ['interface', 'route', 'status'],
    ),
    apiLatency: histogram(
      'api_request_seconds',
      'Duration of those requests, from their first byte to the end of the answer; without streams.',
      latencyBuckets,
      ['interface', 'route', 'status'],
    ),
    upstreamRequests: counter('upstream_requests_total', 'Calls sent to access nodes.', [
      'endpoint',
      'method',
    ]),
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
    forwardedCalls: counter('forwarded_calls_total', 'Calls of callers to be forwarded, by outcome.', [
      'protocol',
      'method',
      'outcome',
    ]),
    forwardedLatency: histogram(
      'forwarded_call_seconds',
      'Duration of forwarded calls that a node answered, errors included; without streams.',
      latencyBuckets,
      ['protocol', 'method'],
    ),
    forwardedUnderWay: new Gauge({
      name: `${PREFIX}forwarded_calls_in_flight`,
      help: 'Forwarded calls and streams under way.',
      labelNames: ['protocol', 'kind'],
      registers,
    }),
    grpcConnections: new Gauge({
      name: `${PREFIX}grpc_connections`,
      help: 'Open connections to the gRPC port.',
      registers,
    }),
    grpcConnectionsCut: counter(
      'grpc_connections_cut_total',
      'Connections to the gRPC port that the daemon closed, by reason: make_room (all were taken, and this one was idle), no_room (a new one, while all others were busy), overdue (a call or an answer did not end), talkative (it sent more than its calls account for).',
      ['reason'],
    ),
    feedFollowers: new Gauge({
      name: `${PREFIX}feed_followers`,
      help: 'Open streams of the change feed, by interface.',
      labelNames: ['kind'],
      registers,
    }),
    feedEvents: counter('feed_events_total', 'Events of the change feed that were delivered.', ['kind']),
    feedFollowersCut: counter(
      'feed_followers_cut_total',
      'Streams of the change feed closed because the client took nothing for too long.',
      ['kind'],
    ),
    readRequestsWaiting: new Gauge({
      name: `${PREFIX}read_requests_waiting`,
      help: "Requests that wait for their turn because readers have used up their share of the event loop's time.",
      labelNames: ['interface'],
      registers,
    }),
    readWait: histogram(
      'read_wait_seconds',
      'How long the requests that had to wait for their turn waited. Those that were served at once are not counted.',
      latencyBuckets,
      ['interface'],
    ),
    readRequestsTurnedAway: counter(
      'read_requests_turned_away_total',
      'Requests that got no turn, by reason: queue_full, waited_too_long, stopping (all three were refused), caller_left.',
      ['interface', 'reason'],
    ),
    foreignNodes: counter(
      'foreign_nodes_total',
      'How often an access node was found to be of another chain or spork.',
      ['reason'],
    ),
  };
  // A gauge without labels starts at 0, which would mean 1970.
  metrics.lastScrub.remove();
  for (const source of collectionSources) {
    metrics.collectionsReceived.inc({ source }, 0);
    metrics.duplicateCollections.inc({ source }, 0);
    metrics.receiveToIndexed.zero({ source });
  }
  for (const source of heightSources) metrics.heightsCompleted.inc({ source }, 0);
  for (const forwarded of forwardedKinds) metrics.forwardedUnderWay.set({ ...forwarded }, 0);
  return metrics;
}

/** All metrics; each part takes the ones it updates by `Pick<Metrics, …>`. */
export type Metrics = ReturnType<typeof createMetrics>;
