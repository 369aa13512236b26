import type { AccessNetwork } from '../access/index.js';
import { lastReadable } from '../api/index.js';
import type { IndexedRange, StatusDocument, StatusSource } from '../api/index.js';
import type { ExecutionDataStatus } from '../collections/index.js';
import type { DaemonConfig } from '../config/index.js';
import type { FinalizationListener } from '../finality/index.js';
import type {
  Finding,
  HealthMonitor,
  HealthProbes,
  ProgressMeter,
  ProgressSource,
  ScrapedValues,
} from '../observability/index.js';
import { formatDuration } from '../observability/index.js';
import { programVersion } from '../runtime/index.js';
import type { Clock } from '../runtime/index.js';
import type { AccountIndexBuilder, IndexStore } from '../storage/index.js';
import type { IndexingLine } from './indexingLine.js';

/** Ids that one message names at most: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** Silent nodes whose trouble one message tells at most. */
const TROUBLES_NAMED = 3;

/** How much of the line is up. */
export type Phase = 'starting' | 'running' | 'stopping';

interface ReporterParts {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly accountBuilder: AccountIndexBuilder;
  readonly clock: Clock;
}

/**
 * Everything the daemon says of itself, read from the parts at the moment of asking: the status document, the scraped
 * metrics, the probes behind readiness, and the progress line. It holds nothing that could be stale.
 */
export class Reporter implements StatusSource, ScrapedValues {
  readonly #config: DaemonConfig;
  readonly #parts: ReporterParts;
  readonly #startedAtMs: number;
  readonly #version = programVersion();
  /** Distinguishes this process from whoever listens at its address later. */
  readonly instance: string;
  #phase: Phase = 'starting';
  #line: IndexingLine | undefined;
  #monitor: HealthMonitor | undefined;
  #meter: ProgressMeter | undefined;

  constructor(options: { readonly config: DaemonConfig; readonly instance: string }, parts: ReporterParts) {
    this.#config = options.config;
    this.instance = options.instance;
    this.#parts = parts;
    this.#startedAtMs = parts.clock.monotonic();
  }

  /** Completes the circle: these read the reporter, and the status shows what they make of it. */
  attach(monitor: HealthMonitor, meter: ProgressMeter): void {
    this.#monitor = monitor;
    this.#meter = meter;
  }

  running(line: IndexingLine): void {
    this.#line = line;
    this.#phase = 'running';
  }

  stopping(): void {
    this.#phase = 'stopping';
  }

  phase(): Phase {
    return this.#phase;
  }

  // The store and the heads.

  latestIndexedHeight(): number {
    return this.#parts.store.latestIndexedHeight();
  }

  firstIndexedHeight(): number {
    return this.#parts.store.meta()?.firstHeight ?? 0;
  }

  /** The finalized head; 0 until a node told it, as a gauge wants it. */
  headHeight(): number {
    return this.#parts.listener.finalizedHeight() ?? 0;
  }

  sealedHeight(): number {
    return this.#parts.listener.sealedHeight() ?? 0;
  }

  range(): IndexedRange {
    const meta = this.#parts.store.meta();
    return {
      firstIndexed: meta?.firstHeight ?? null,
      latestIndexed: meta === undefined ? null : this.latestIndexedHeight(),
      head: this.#parts.listener.finalizedHeight() ?? null,
      sealed: this.#parts.listener.sealedHeight() ?? null,
    };
  }

  accountIndexMissingHeights(): number {
    return this.#parts.accountBuilder.progress().coverage?.missingHeights ?? 0;
  }

  // Work in hand.

  inFlightHeights(): number {
    return this.#line?.mcq.size ?? 0;
  }

  collectionsMissing(): number {
    return this.#line?.mcq.missingCollections ?? 0;
  }

  oldestMissingAgeSeconds(): number {
    return this.#line?.processor.oldestMissing()?.ageSeconds ?? 0;
  }

  windowHeights(): number {
    return this.#config.window;
  }

  bytesInFlight(): number {
    return this.#line?.budget.inFlightBytes ?? 0;
  }

  bytesInFlightLimit(): number {
    return this.#config.maxInFlightBytes;
  }

  requestsInFlight(): number {
    return this.#line?.requester?.inFlight() ?? 0;
  }

  unresolvableHeights(): number {
    return this.#line?.processor.unresolvable(this.#config.requester.unresolvableAfterMs).length ?? 0;
  }

  streamAgeSeconds(): ReadonlyMap<string, number> {
    const ages = new Map(this.#parts.listener.streamAges());
    const edi = this.#line?.edi?.status();
    if (edi?.lastMessageAgeMs !== undefined) ages.set('execution_data', edi.lastMessageAgeMs / 1000);
    return ages;
  }

  endpointStates(): readonly { readonly endpoint: string; readonly state: string }[] {
    return this.#parts.network.states();
  }

  /** What the health monitor asks. */
  probes(): HealthProbes {
    const { listener, clock } = this.#parts;
    return {
      phase: () => this.#phase,
      latestIndexedHeight: () => this.latestIndexedHeight(),
      headHeight: () => this.#target(),
      headAnsweredAtMs: () => {
        const ageMs = listener.lastAnswerAgeMs();
        return ageMs === undefined ? undefined : clock.monotonic() - ageMs;
      },
      upstreamTrouble: () => this.#upstreamTrouble(),
      executionDataAvailable: () => {
        const state = this.#line?.edi?.status().state;
        return state !== undefined && state !== 'unavailable' && state !== 'off';
      },
      parentMismatch: () => {
        const missing = this.#line?.blocks.missingSporkEnd();
        if (missing !== undefined) {
          const { height, mend } = missing;
          return {
            height,
            message: mend,
            logged: `no access node has the last block of the spork, ${height}`,
          };
        }
        const mismatch = this.#line?.blocks.parentMismatch();
        if (mismatch === undefined) return undefined;
        const { height, mend } = mismatch;
        return { height, message: mend, logged: `no access node confirms the block below height ${height}` };
      },
      unresolvable: () => this.#unresolvable(),
      commitStartedAtMs: () => this.#line?.indexer.commitStartedAtMs(),
    };
  }

  /** What the progress line measures. */
  progressSource(): ProgressSource {
    return {
      latestIndexedHeight: () =>
        this.#parts.store.meta() === undefined ? undefined : this.latestIndexedHeight(),
      headHeight: () => this.#target(),
    };
  }

  /** The head, or the stop height where that is lower: what there is to reach. */
  #target(): number | undefined {
    const head = this.#parts.listener.finalizedHeight();
    return head === undefined ? undefined : Math.min(head, this.#config.stopHeight ?? head);
  }

  #upstreamTrouble(): string | undefined {
    const troubles = this.#parts.network.states().flatMap(({ trouble }) => trouble ?? []);
    if (troubles.length === 0) return undefined;
    const more = troubles.length - TROUBLES_NAMED;
    return troubles.slice(0, TROUBLES_NAMED).join('; ') + (more > 0 ? `; and ${more} more` : '');
  }

  #unresolvable(): Finding | undefined {
    const found = this.#line?.processor.unresolvable(this.#config.requester.unresolvableAfterMs) ?? [];
    const [lowest] = found;
    if (lowest === undefined) return undefined;
    const named = lowest.ids.slice(0, UNRESOLVABLE_IDS_NAMED).join(', ');
    const unnamed = lowest.ids.length - UNRESOLVABLE_IDS_NAMED;
    const ids = unnamed > 0 ? `${named} and ${unnamed} more` : named;
    const others = found.length > 1 ? `; ${found.length - 1} more like it` : '';
    const since = `for ${formatDuration(lowest.ageMs / 1000)}`;
    return {
      height: lowest.height,
      message: `height ${lowest.height} has lacked collection ${ids} ${since} (${lowest.reason})${others}`,
      logged: `height ${lowest.height} has lacked ${lowest.ids.length} collections ${since}${others}; /readyz names them and why`,
    };
  }

  status(): StatusDocument {
    const { config, line } = { config: this.#config, line: this.#line };
    const range = this.range();
    const progress = this.#meter?.state();
    const readiness = this.#monitor?.readiness() ?? { ready: false, reasons: [] };
    const oldest = line?.processor.oldestMissing();
    return {
      network: config.network,
      chainId: config.chainId,
      version: this.#version,
      instance: this.instance,
      ...{ ...range, latestIndexed: lastReadable(range) },
      lag:
        range.head === null || range.latestIndexed === null
          ? null
          : Math.max(0, range.head - range.latestIndexed),
      rate: progress?.ratePerSecond ?? 0,
      eta: progress?.etaSeconds ?? null,
      window: {
        heights: config.window,
        upperBound: line === undefined || range.head === null ? null : line.window.upperBound(),
        inFlight: this.inFlightHeights(),
        bytesInFlight: this.bytesInFlight(),
        bytesLimit: config.maxInFlightBytes,
      },
      sources: { requester: this.#requesterStatus(), edi: this.#ediStatus() },
      endpoints: this.#parts.network.states().map(({ endpoint, state }) => ({ name: endpoint, state })),
      oldestMissing:
        oldest === undefined
          ? null
          : { height: oldest.height, missing: oldest.missingIds.length, ageSeconds: oldest.ageSeconds },
      accountIndex: this.#accountIndex(),
      ready: readiness.ready,
      reasons: readiness.reasons,
      uptimeSeconds: (this.#parts.clock.monotonic() - this.#startedAtMs) / 1000,
    };
  }

  #accountIndex(): StatusDocument['accountIndex'] {
    const { state, coverage } = this.#parts.accountBuilder.progress();
    const { from = null, missingHeights = null } = coverage ?? {};
    return { state, coveredFrom: from, missingHeights };
  }

  #requesterStatus(): StatusDocument['sources']['requester'] {
    const inFlight = this.requestsInFlight();
    const missing = this.collectionsMissing();
    const state = this.#config.ediOnly ? 'off' : inFlight > 0 ? 'asking' : 'idle';
    return { state, inFlight, missing };
  }

  #ediStatus(): StatusDocument['sources']['edi'] {
    if (!this.#config.edi.enabled) return { state: 'off', endpoint: null, height: null, ageSeconds: null };
    const edi = this.#line?.edi?.status();
    return {
      state: this.#ediState(edi),
      endpoint: edi?.node ?? null,
      height: edi?.lastHeight ?? null,
      ageSeconds: edi?.lastMessageAgeMs === undefined ? null : edi.lastMessageAgeMs / 1000,
    };
  }

  #ediState(edi: ExecutionDataStatus | undefined): StatusDocument['sources']['edi']['state'] {
    switch (edi?.state) {
      case undefined:
      case 'off':
      case 'connecting':
        return 'connecting';
      case 'unavailable':
        return 'unavailable';
      case 'streaming':
        return 'following';
      case 'waiting_window':
        // Up to date: it waits for the chain, not for us.
        return edi.nextHeight > (this.#target() ?? Infinity) ? 'following' : 'paused';
    }
  }
}
