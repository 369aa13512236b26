import { apiServer, coverageOf, digestOf, metricsServer, workOfStore } from '../../src/api/index.js';
import type { ApiSecrets, changeFeed, IndexedRange, StatusDocument } from '../../src/api/index.js';
import type { ApiServerDependencies, ApiServerOptions } from '../../src/api/rest/apiServer.js';
import { createMetrics, createReaderMetrics, mergedPage } from '../../src/observability/index.js';
import type { ReaderMetrics } from '../../src/observability/index.js';
import { systemClock, type Clock } from '../../src/runtime/index.js';
import type { BlockEntry, IndexStore, SporkRecord } from '../../src/storage/index.js';
import { atEnd } from './cleanup.js';
import { feedOver } from './feed.js';
import { getJson, type JsonAnswer } from './httpProbe.js';
import { IndexedChain, indexed, type Heads } from './indexedChain.js';
import type { MemoryIndexStore } from './memoryIndexStore.js';
import { RecordingLogger } from './recordingLogger.js';

/** A status with a value in every field, but for what the test sets itself. */
export function statusWith(range: IndexedRange): StatusDocument {
  return {
    ...{ network: 'devnet', chainId: 'flow-localnet', version: '0.1.0', instance: 'one' },
    ...{ ...range, coverage: coverageOf(range), healing: [] },
    backfill: { missingHeights: 0, rate: 0, eta: 0, heldBack: null, plans: [], ranges: [], unserved: [] },
    proof: {
      ...{ mode: 'auto', finality: 'reported', form: 'H8P8', unprovenHeights: 3, reason: null },
      anchor: { kind: 'first_use', height: 100, id: 'cd'.repeat(32) },
      provenHeight: 158,
      sealedHeight: 154,
      committee: { epoch: 7, members: 123, weight: 12_300 },
      latestCertificate: { height: 159, view: 1_159, signers: 83, weight: 8_300, threshold: 8_202 },
    },
    ...{ lowestServed: 0, lag: 11, headAgeSeconds: 0.8, headConfirmedSeconds: 0.2, rate: 197.9 },
    ...{ collectionsPerSecond: 310, eta: 0.06 },
    window: { heights: 64, upperBound: 170, inFlight: 11, bytesInFlight: 0, bytesLimit: 1 },
    log: [{ output: 'standard output', reason: 'the disk is full', lostLines: 12, ageSeconds: 3 }],
    lastHour: {
      requester: { first: 12_000, late: 40 },
      edi: { first: 3_000, late: 900 },
      peer: { first: 0, late: 0 },
    },
    sources: {
      requester: { state: 'asking', inFlight: 3, missing: 4 },
      edi: { state: 'following', endpoint: 'node:9000', height: 160, ageSeconds: 0.2, reason: null },
      peer: { state: 'off', endpoint: null, height: null, ageSeconds: null, reason: null },
    },
    endpoints: [
      {
        ...{ name: 'node:9000', state: 'failing', reason: 'no answer', sinceSeconds: 3, endsInSeconds: 7 },
        ...{ origin: 'configured', version: 'v0.43.0', lowestHeight: 0, latencySeconds: 0.02, inFlight: 1 },
        callsPerSecond: 300,
        lastHour: { calls: 20_000, errors: 3, kinds: [{ kind: 'unavailable', count: 3 }] },
        limits: [
          {
            ...{ method: 'GetFullCollectionByID', ratePerSecond: 40, isLearned: true },
            ...{ pauseSeconds: 0, waiting: 2 },
          },
        ],
        calls: [
          {
            ...{ method: 'GetBlockByHeight', state: 'set_aside', reason: 'no answer', count: 3 },
            ...{ sinceSeconds: 3, endsInSeconds: 7 },
          },
        ],
      },
    ],
    waitingFor: { height: 160, message: 'waiting for 2 of 3 collections of height 160', ageSeconds: 0.3 },
    oldestMissing: {
      ...{ height: 160, missing: 2, collectionId: 'ab'.repeat(32), ageSeconds: 0.3 },
      reason: 'waiting for 2 of 3 collections of height 160',
    },
    cluster: null,
    accountIndex: { state: 'off', coveredFrom: null, missingHeights: null },
    ready: false,
    reasons: [{ code: 'behind', message: '11 heights behind', height: 160, sinceSeconds: 3 }],
    uptimeSeconds: 12,
  };
}

const TOKEN = 'a-token-of-this-test-0123';
/** What is let in where a token is asked for. */
export const BEARER = `Bearer ${TOKEN}`;

/** The secrets of a server that asks for a token. */
export const guarded = <For extends ApiSecrets['tokensFor']>(tokensFor: For) => ({
  ...{ tls: undefined, tokens: [digestOf(TOKEN)], tokensFor },
});

/** The server of the metrics port. It does not listen yet. `failures`: the bugs that it has told its owner of. */
export function metricsServerOver({
  host = '127.0.0.1',
  port = 0,
  clock = systemClock,
  page,
  ...options
}: Partial<ApiServerOptions> & { readonly clock?: Clock; readonly page?: string } = {}) {
  const logger = new RecordingLogger();
  const failures: unknown[] = [];
  const metrics = createMetrics({ version: '0.1.0', node: 'v20' });
  const server = metricsServer(
    { host, port, ...options },
    {
      ...{ clock, logger, metrics, fail: (error) => failures.push(error) },
      page: async () =>
        page === undefined ? mergedPage(metrics.registry, []) : { contentType: 'text/plain', text: page },
      health: { readiness: () => ({ ready: true, reasons: [] }) },
    },
  );
  return { server, logger, failures, metrics };
}

/** The API server over this index. It does not listen yet. `failures`: the bugs that it has told its owner of. */
export function apiServerOver(
  reader: ApiServerDependencies['reader'] & Pick<IndexStore, 'blocksAboveWatermark'>,
  range: () => IndexedRange,
  parts: Partial<ApiServerOptions> & Partial<ApiServerDependencies> = {},
) {
  const { clock = systemClock, status = { range, status: () => statusWith(range()) } } = parts;
  const feed = feedOver({ reader, status, clock });
  const logger = new RecordingLogger();
  const metrics = createReaderMetrics();
  const failures: unknown[] = [];
  const server = apiServer(
    { host: '127.0.0.1', port: 0, chainId: 'flow-localnet', version: '0.1.0', ...parts },
    {
      ...{ reader, status, feed, clock, logger, metrics, work: workOfStore(reader, range) },
      fail: (error) => failures.push(error),
      ...parts,
    },
  );
  return { server, feed, logger, metrics, failures };
}

type Parts = Partial<ApiServerOptions & Pick<ApiServerDependencies, 'work'>> & {
  /** More of the status than the test's default. */
  readonly told?: Partial<StatusDocument>;
  readonly clock?: Clock;
};

/** The API server over a store in memory that holds a chain, until the end of the test. */
export class ServedChain extends IndexedChain {
  readonly feed: ReturnType<typeof changeFeed>;
  readonly logger: RecordingLogger;
  readonly metrics: ReaderMetrics;
  port = 0;
  readonly #server: ReturnType<typeof apiServerOver>['server'];
  readonly #failures: unknown[];

  private constructor(store: MemoryIndexStore, range: IndexedRange, { told, ...parts }: Parts) {
    super(store, range);
    const status = { range: () => this.range, status: () => ({ ...statusWith(this.range), ...told }) };
    const made = apiServerOver(store, status.range, { ...parts, status });
    this.#server = made.server;
    this.#failures = made.failures;
    this.feed = made.feed;
    this.logger = made.logger;
    this.metrics = made.metrics;
    this.onChanged = () => made.feed.notify();
  }

  /** All is indexed, by account too; `sealed` and `head` as told. A bug in the server fails the test, unless the test takes it. */
  static async start(
    chain: readonly BlockEntry[],
    heads: Heads,
    { spork, ...parts }: Parts & { readonly spork?: SporkRecord } = {},
  ): Promise<ServedChain> {
    const { store, range } = await indexed(chain, heads, spork);
    store.switchAccountsOn();
    const served = new ServedChain(store, range, parts);
    await served.#server.start();
    served.port = served.#server.address().port;
    atEnd(async () => {
      await served.stop();
      if (served.#failures.length > 0) throw served.#failures[0];
    });
    return served;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  secure(secrets: ApiSecrets): void {
    this.#server.secure(secrets);
  }

  async stop(): Promise<void> {
    await this.feed.close();
    await this.#server.close();
  }

  /** The bugs that the server told its owner of since the last time. */
  takeFailures(): unknown[] {
    return this.#failures.splice(0);
  }

  get(path: string, init?: RequestInit): Promise<JsonAnswer> {
    return getJson(this.url + path, init);
  }
}
