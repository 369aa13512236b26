import type { AccessNetwork } from '../../access/index.js';
import type { IndexedRange } from '../../api/index.js';
import type { Window } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalityProver, FinalizationListener, ProofBackfill } from '../../finality/index.js';
import { readinessCodes } from '../../observability/index.js';
import type { HealthMonitor, ProgressSource, Readiness } from '../../observability/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import type { Clock } from '../../runtime/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Backfill } from '../line/history/Backfill.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { Descriptors } from '../lifecycle/Descriptors.js';
import { readableIndex } from '../threads/readableIndex.js';
import type { ReaderThread } from '../threads/ReaderThread.js';
import type { BackfillWatch } from './watches/BackfillWatch.js';
import type { Diagnosis } from './causes/Diagnosis.js';
import type { DiskWatch } from './watches/DiskWatch.js';
import type { LeaderWatch } from './watches/LeaderWatch.js';

/** How much of the daemon is up. */
export type Phase = 'starting' | 'running' | 'stopping';

export interface DaemonParts {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly window: Window;
  readonly accountBuilder: AccountIndexBuilder;
  readonly backfill: Pick<Backfill, 'state'>;
  readonly backfillWatch: BackfillWatch;
  readonly descriptors: Pick<Descriptors, 'status' | 'trouble'>;
  readonly diskWatch: Pick<DiskWatch, 'disk' | 'minFreeBytes' | 'pause' | 'storeBytes'>;
  /** What readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  /** Shared with other processes, if they share the store. */
  readonly queue: Pick<SharedQueue, 'trouble'> | undefined;
  readonly leaderWatch: LeaderWatch;
  readonly prover: Pick<FinalityProver, 'finalBlock' | 'status'> | undefined;
  readonly proofBackfill: Pick<ProofBackfill, 'reason'> | undefined;
  /** Absent when no readers are served. */
  readonly readers: Pick<ReaderThread, 'down'> | undefined;
  readonly clock: Clock;
}

/**
 * The base of all reports: the parts of the daemon, the current line, and values derived from several of them. It caches
 * nothing, so nothing is stale.
 */
export class DaemonState {
  readonly config: DaemonConfig;
  readonly parts: DaemonParts;
  #phase: Phase = 'starting';
  #line: IndexingLine | undefined;
  #diagnosis: Diagnosis | undefined;
  #monitor: HealthMonitor | undefined;

  constructor(options: { readonly config: DaemonConfig }, parts: DaemonParts) {
    this.config = options.config;
    this.parts = parts;
  }

  get phase(): Phase {
    const waitsForLeader = this.#line === undefined && this.parts.store.meta() === undefined;
    return this.#phase === 'running' && waitsForLeader ? 'starting' : this.#phase;
  }

  /** `undefined` until the first line has started, and while another process leads. */
  get line(): IndexingLine | undefined {
    return this.#line;
  }

  get diagnosis(): Diagnosis | undefined {
    return this.#diagnosis;
  }

  /** Set after construction: both read this state, and the reports show their results. */
  attach(diagnosis: Diagnosis, monitor: HealthMonitor): void {
    this.#diagnosis = diagnosis;
    this.#monitor = monitor;
  }

  running(line: IndexingLine): void {
    this.#line = line;
    this.#phase = 'running';
  }

  /** Another process indexes the live range, or none does. */
  following(): void {
    this.#line = undefined;
    this.#phase = 'running';
  }

  stopping(): void {
    this.#phase = 'stopping';
  }

  latestIndexedHeight(): number {
    return this.parts.store.latestIndexedHeight();
  }

  /** The height to reach: the head, or the stop height if that is lower. */
  target(): number | undefined {
    return this.parts.window.target();
  }

  /** The range that readers see. */
  range(): IndexedRange {
    const { listener } = this.parts;
    const { awaitsProof, proven, shown } = readableIndex(this.config, this.parts);
    const { coverage, healing, latestIndexedHeight, meta } = shown;
    return {
      firstIndexed: meta?.firstHeight ?? null,
      latestIndexed: meta === undefined ? null : latestIndexedHeight,
      head: listener.finalizedHeight() ?? null,
      sealed: listener.sealedHeight() ?? null,
      coverage,
      healing,
      proven,
      awaitsProof,
    };
  }

  /** Unknown while no node confirms the head. */
  lag(): number | undefined {
    const { head, latestIndexed } = this.range();
    const isKnown = head !== null && latestIndexed !== null && this.isHeadConfirmed();
    return isKnown ? Math.max(0, head - latestIndexed) : undefined;
  }

  isHeadConfirmed(): boolean {
    return this.#diagnosis?.isHeadConfirmed() ?? false;
  }

  readiness(): Readiness {
    return this.#monitor?.readiness() ?? { ready: false, reasons: [] };
  }

  /** What the progress line measures. */
  progressSource(): ProgressSource {
    return {
      latestIndexedHeight: () =>
        this.parts.store.meta() === undefined ? undefined : this.latestIndexedHeight(),
      headHeight: () => (this.isHeadConfirmed() ? this.target() : undefined),
      heldUpBy: () => this.#heldUpCode(),
    };
  }

  /** The first code that is not part of a normal catch-up. */
  #heldUpCode(): string | undefined {
    const { reasons } = this.readiness();
    return reasons.find(({ code }) => code !== 'reader_down' && readinessCodes[code].severity === 'trouble')
      ?.code;
  }
}
