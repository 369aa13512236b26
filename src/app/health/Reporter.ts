import type { AccessNetwork, NodeState } from '../../access/index.js';
import { lastReadable } from '../../api/index.js';
import type { EndpointStatus, IndexedRange, StatusDocument, StatusSource } from '../../api/index.js';
import type { ExecutionDataStatus } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { ChainTrouble, FinalizationListener } from '../../finality/index.js';
import type {
  HealthMonitor,
  ProgressMeter,
  ProgressSource,
  Readiness,
  ScrapedValues,
} from '../../observability/index.js';
import { formatDuration, readinessCodes } from '../../observability/index.js';
import { programVersion } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Diagnosis, Symptoms } from './Diagnosis.js';
import type { DiskWatch } from './DiskWatch.js';
import type { ReaderThread } from '../threads/ReaderThread.js';
import { heldUpBy } from './heldUp.js';
import type { HeldUp } from './heldUp.js';
import type { IndexingLine } from '../line/indexingLine.js';
import { describeTroubles } from './describeTroubles.js';

/** Ids that one message names at most: a block may lack a thousand. */
const UNRESOLVABLE_IDS_NAMED = 3;

/** How much of the line is up. */
export type Phase = 'starting' | 'running' | 'stopping';

interface ReporterParts {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly accountBuilder: AccountIndexBuilder;
  readonly diskWatch: DiskWatch;
  readonly readers: Pick<ReaderThread, 'down'>;
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
  #diagnosis: Diagnosis | undefined;
  #monitor: HealthMonitor | undefined;
  #meter: ProgressMeter | undefined;

  constructor(options: { readonly config: DaemonConfig; readonly instance: string }, parts: ReporterParts) {
    this.#config = options.config;
    this.instance = options.instance;
    this.#parts = parts;
    this.#startedAtMs = parts.clock.monotonic();
  }

  /** Completes the circle: these read the reporter, and the status shows what they make of it. */
  attach(diagnosis: Diagnosis, monitor: HealthMonitor, meter: ProgressMeter): void {
    this.#diagnosis = diagnosis;
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

  /** The codes for which the daemon is not ready. */
  notReady(): ReadonlySet<string> {
    const { reasons } = this.#readiness();
    return new Set(reasons.map(({ code }) => code));
  }

  lagHeights(): number | undefined {
    const { lag } = this.#lag();
    return lag ?? undefined;
  }

  headAgeSeconds(): number | undefined {
    const ageMs = this.#parts.listener.lastAdvanceAgeMs();
    return ageMs === undefined ? undefined : ageMs / 1000;
  }

  indexedAgeSeconds(): number {
    return (this.#diagnosis?.indexedAgeMs() ?? 0) / 1000;
  }

  storeBytes(): number | undefined {
    return this.#parts.diskWatch.storeBytes();
  }

  diskFreeBytes(): number | undefined {
    return this.#parts.diskWatch.disk()?.freeBytes;
  }

  /** What the diagnosis asks. */
  symptoms(): Symptoms {
    const { diskWatch, listener, network, readers, store } = this.#parts;
    return {
      phase: () => this.#phase,
      firstHeight: () => store.meta()?.firstHeight,
      latestIndexedHeight: () => this.latestIndexedHeight(),
      headHeight: () => listener.finalizedHeight(),
      target: () => this.#target(),
      sealedHeight: () => listener.sealedHeight(),
      headAnswerAgeMs: () => listener.lastAnswerAgeMs(),
      headAgeMs: () => listener.lastAdvanceAgeMs(),
      sealedAgeMs: () => listener.sealedAdvanceAgeMs(),
      identityTroubles: () => network.identityTroubles(),
      headTroubles: () => listener.headTroubles(),
      chainReplaced: () => network.chainReplaced(),
      headBehind: () => network.headBelow(),
      parentMismatch: () => this.#chainTrouble(this.#line?.blocks.parentMismatch()),
      missingSporkEnd: () => this.#chainTrouble(this.#line?.blocks.missingSporkEnd()),
      undecidedSpork: () => this.#undecidedSpork(),
      unresolvable: () => this.#unresolvable(),
      heldUp: () => this.#heldUp(),
      commitStartedAtMs: () => this.#line?.indexer.commitStartedAtMs(),
      database: () => store.trouble && { trouble: store.trouble() },
      readerDown: () => readers.down(),
      disk: () => diskWatch.disk(),
    };
  }

  /** A trouble of the chain: what does not fit, who gave it, and what mends it. */
  #chainTrouble(
    trouble: ChainTrouble | undefined,
  ): { readonly height: number; readonly message: string } | undefined {
    if (trouble === undefined) return undefined;
    const { height, what, mend } = trouble;
    const words = describeTroubles(this.#line?.blocks.heldUpBy()?.troubles ?? [], this.#parts.clock);
    return { height, message: words === '' ? `${what}: ${mend}` : `${what}: ${words}; ${mend}` };
  }

  /** A spork of which it is not known whether it is one, and that the next block waits for. */
  #undecidedSpork(): { readonly height: number; readonly message: string } | undefined {
    const block = this.#line?.blocks.heldUpBy();
    const spork = block?.isUnserved === true ? this.#parts.network.undecidedSporkAt(block.height) : undefined;
    if (block === undefined || spork === undefined) return undefined;
    const { awaited, rootHeight, tellers } = spork;
    const told = tellers.join(', ');
    return {
      height: block.height,
      message:
        `a spork that begins at height ${rootHeight} is told of by ${told} and is not in config/sporks.json; it is not known yet ` +
        `whether the chain goes on above it without one (asked: ${awaited.join(', ')}). If there is such a spork, say so with ` +
        `--access-spork-root ${rootHeight}; if not, leave out --access-node ${told}`,
    };
  }

  /** What the lowest missing height waits for; `undefined` when there is none. */
  #heldUp(): HeldUp | undefined {
    const { clock, listener, network } = this.#parts;
    const line = this.#line;
    const height = this.latestIndexedHeight() + 1;
    if (line === undefined || height > (this.#target() ?? -1)) return undefined;
    const trouble = this.#parts.store.trouble?.();
    // Whatever else there is to say: without the database nothing goes on.
    if (trouble !== undefined) return { height, message: trouble, code: 'database_unreachable' };
    const sealedAgeMs = listener.sealedAdvanceAgeMs();
    const { stage } = line.processor.explain(height);
    const block = line.blocks.heldUpBy();
    return heldUpBy(
      {
        height,
        stage,
        commitStartedAtMs: line.indexer.commitStartedAtMs(),
        block: block?.isUnserved === true ? { ...block, troubles: network.whyUnserved(block.height) } : block,
        collections: stage === 'collecting' ? line.processor.heldUpBy(height) : undefined,
        executionData: {
          isOnlySource: this.#config.ediOnly,
          trouble: line.edi?.trouble(),
          troubles: line.edi?.troubles() ?? [],
        },
        sealedHeight: listener.sealedHeight(),
        sealedAtMs: sealedAgeMs === undefined ? undefined : clock.monotonic() - sealedAgeMs,
        sealedTroubles: listener.sealedTroubles(),
      },
      clock,
    );
  }

  /** What the progress line measures. */
  progressSource(): ProgressSource {
    return {
      latestIndexedHeight: () =>
        this.#parts.store.meta() === undefined ? undefined : this.latestIndexedHeight(),
      headHeight: () => (this.#isHeadConfirmed() ? this.#target() : undefined),
      heldUpBy: () => this.#heldUpCode(),
    };
  }

  /** The first code that is not part of a normal catch-up. */
  #heldUpCode(): string | undefined {
    const { reasons } = this.#readiness();
    return reasons.find(({ code }) => code !== 'reader_down' && readinessCodes[code].severity === 'trouble')
      ?.code;
  }

  #isHeadConfirmed(): boolean {
    return this.#diagnosis?.isHeadConfirmed() ?? false;
  }

  #readiness(): Readiness {
    return this.#monitor?.readiness() ?? { ready: false, reasons: [] };
  }

  /** Unknown while no node confirms the head. */
  #lag(): { readonly lag: number | null; readonly head: number | null } {
    const { head, latestIndexed } = this.range();
    const isKnown = head !== null && latestIndexed !== null && this.#isHeadConfirmed();
    return { head, lag: isKnown ? Math.max(0, head - latestIndexed) : null };
  }

  /** The head, or the stop height where that is lower: what there is to reach. */
  #target(): number | undefined {
    const head = this.#parts.listener.finalizedHeight();
    return head === undefined ? undefined : Math.min(head, this.#config.stopHeight ?? head);
  }

  #unresolvable(): { readonly height: number; readonly message: string } | undefined {
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
    };
  }

  status(): StatusDocument {
    const { config, line } = { config: this.#config, line: this.#line };
    const range = this.range();
    const progress = this.#meter?.state();
    const readiness = this.#readiness();
    const oldest = line?.processor.oldestMissing();
    const { listener } = this.#parts;
    return {
      network: config.network,
      chainId: config.chainId,
      version: this.#version,
      instance: this.instance,
      ...{ ...range, latestIndexed: lastReadable(range) },
      lag: this.#lag().lag,
      headAgeSeconds: this.headAgeSeconds() ?? null,
      headConfirmedSeconds: seconds(listener.lastAnswerAgeMs()),
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
      endpoints: this.#parts.network.states().map((state) => this.#endpointStatus(state)),
      waitingFor: this.#waitingFor(),
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

  #waitingFor(): StatusDocument['waitingFor'] {
    const waiting = this.#diagnosis?.waitingFor();
    if (waiting === undefined) return null;
    const { height, message, sinceMs } = waiting;
    return { height, message, ageSeconds: (this.#parts.clock.monotonic() - sinceMs) / 1000 };
  }

  #endpointStatus({ endpoint, state, foreign, trouble, record, calls }: NodeState): EndpointStatus {
    const nowMs = this.#parts.clock.monotonic();
    const because = foreign === undefined ? (record?.said ?? trouble) : `another ${foreign} than ours`;
    return {
      name: endpoint,
      state,
      reason: because ?? null,
      sinceSeconds: record === undefined ? null : (nowMs - record.sinceMs) / 1000,
      calls: calls.map((call) => ({
        method: call.method,
        state: call.state,
        reason: call.said,
        count: call.count,
        sinceSeconds: (nowMs - call.sinceMs) / 1000,
      })),
    };
  }

  #requesterStatus(): StatusDocument['sources']['requester'] {
    const inFlight = this.requestsInFlight();
    const missing = this.collectionsMissing();
    if (this.#config.ediOnly) return { state: 'off', inFlight, missing };
    const idle = missing > 0 ? 'waiting' : 'idle';
    return { state: inFlight > 0 ? 'asking' : idle, inFlight, missing };
  }

  #ediStatus(): StatusDocument['sources']['edi'] {
    const none = { endpoint: null, height: null, ageSeconds: null, reason: null };
    if (!this.#config.edi.enabled) return { state: 'off', ...none };
    const edi = this.#line?.edi?.status();
    return {
      state: this.#ediState(edi),
      endpoint: edi?.node ?? null,
      height: edi?.lastHeight ?? null,
      ageSeconds: seconds(edi?.lastMessageAgeMs),
      reason: this.#line?.edi?.trouble() ?? null,
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
        return this.#isHeadConfirmed() ? 'following' : 'connecting';
      case 'waiting_window':
        if (edi.nextHeight <= (this.#target() ?? Infinity)) return 'paused';
        // Up to date: it waits for the chain, not for us.
        return this.#isHeadConfirmed() ? 'following' : 'connecting';
    }
  }
}

function seconds(milliseconds: number | undefined): number | null {
  return milliseconds === undefined ? null : milliseconds / 1000;
}
