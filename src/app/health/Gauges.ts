import type { ScrapedValues } from '../../observability/index.js';
import { countHeights, countWorkers } from '../../ranges/index.js';
import type { DaemonState } from './DaemonState.js';
import { finalBlock } from '../threads/readableIndex.js';

/** The metrics that are read from the parts at each scrape: nothing here can be stale. */
export class Gauges implements ScrapedValues {
  readonly #state: DaemonState;

  constructor(dependencies: { readonly state: DaemonState }) {
    this.#state = dependencies.state;
  }

  latestIndexedHeight(): number {
    return this.#state.latestIndexedHeight();
  }

  firstIndexedHeight(): number {
    return this.#state.parts.store.meta()?.firstHeight ?? 0;
  }

  /** The finalized head; 0 until a node reports it. */
  headHeight(): number {
    return this.#state.parts.listener.finalizedHeight() ?? 0;
  }

  sealedHeight(): number {
    return this.#state.parts.listener.sealedHeight() ?? 0;
  }

  accountIndexMissingHeights(): number {
    return this.#state.parts.accountBuilder.progress().coverage?.missingHeights ?? 0;
  }

  coveredHeights(): number {
    return countHeights(this.#state.parts.store.coverage());
  }

  unprovenHeights(): number | undefined {
    const unproven = this.#state.parts.store.unproven?.();
    return unproven && countHeights(unproven);
  }

  provenHeight(): number {
    const { parts } = this.#state;
    return parts.prover?.status().provenHeight ?? finalBlock(parts)?.height ?? 0;
  }

  backfillMissingHeights(): number {
    return this.#state.parts.backfillWatch.missingHeights();
  }

  backfillRanges(): ReadonlyMap<string, number> {
    return this.#state.parts.backfillWatch.counts().phases;
  }

  backfillHeldUpRanges(): number {
    return this.#state.parts.backfillWatch.counts().heldUp;
  }

  backfillShare(): number {
    return this.#state.parts.backfillWatch.share();
  }

  inFlightHeights(): number {
    return this.#state.line?.mcq.size ?? 0;
  }

  collectionsMissing(): number {
    return this.#state.line?.mcq.missingCollections ?? 0;
  }

  oldestMissingAgeSeconds(): number {
    return this.#state.line?.explainer.oldestMissing()?.ageSeconds ?? 0;
  }

  windowHeights(): number {
    return this.#state.config.window;
  }

  bytesInFlight(): number {
    return this.#state.line?.budget.inFlightBytes ?? 0;
  }

  bytesInFlightLimit(): number {
    return this.#state.config.maxInFlightBytes;
  }

  requestsInFlight(): number {
    return this.#state.line?.requester?.inFlight() ?? 0;
  }

  unresolvableHeights(): number {
    return (
      this.#state.line?.explainer.unresolvable(this.#state.config.requester.unresolvableAfterMs).length ?? 0
    );
  }

  streamAgeSeconds(): ReadonlyMap<string, number> {
    const ages = new Map(this.#state.parts.listener.streamAges());
    const { edi, peer } = this.#state.line ?? {};
    for (const [stream, source] of [
      ['execution_data', edi],
      ['peer', peer],
    ] as const) {
      const ageMs = source?.status().lastMessageAgeMs;
      if (ageMs !== undefined) ages.set(stream, ageMs / 1000);
    }
    return ages;
  }

  endpointStates(): readonly { readonly endpoint: string; readonly state: string }[] {
    return this.#state.parts.network.states();
  }

  /** The codes for which the daemon is not ready. */
  notReady(): ReadonlySet<string> {
    const { reasons } = this.#state.readiness();
    return new Set(reasons.map(({ code }) => code));
  }

  lagHeights(): number | undefined {
    return this.#state.lag();
  }

  headAgeSeconds(): number | undefined {
    const ageMs = this.#state.parts.listener.lastAdvanceAgeMs();
    return ageMs === undefined ? undefined : ageMs / 1000;
  }

  indexedAgeSeconds(): number {
    return (this.#state.diagnosis?.indexedAgeMs() ?? 0) / 1000;
  }

  leads(): number | undefined {
    const { shared } = this.#state.parts.store;
    return shared && Number(shared.isLeading());
  }

  leaderAgeSeconds(): number | undefined {
    return this.#state.parts.leaderWatch.leaderAgeSeconds();
  }

  workers(): ReadonlyMap<string, number> | undefined {
    const { workers } = this.#state.parts.backfill.state();
    return workers && countWorkers(workers);
  }

  storeBytes(): number | undefined {
    return this.#state.parts.diskWatch.storeBytes();
  }

  paused(): number {
    return Number(this.#state.parts.diskWatch.pause() !== undefined);
  }

  diskMinFreeBytes(): number {
    return this.#state.parts.diskWatch.minFreeBytes;
  }

  diskFreeBytes(): number | undefined {
    return this.#state.parts.diskWatch.disk()?.freeBytes;
  }
}
