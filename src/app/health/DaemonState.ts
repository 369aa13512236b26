import type { AccessNetwork } from '../../access/index.js';
import type { IndexedRange } from '../../api/index.js';
import type { Window } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import type { FinalityProver, FinalizationListener, ProofBackfill } from '../../finality/index.js';
import type { SharedQueue } from '../../ranges/index.js';
import type { Clock } from '../../runtime/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Backfill } from '../line/history/Backfill.js';
import type { IndexingLine } from '../line/buildLine.js';
import type { Descriptors } from '../lifecycle/Descriptors.js';
import { readableIndex } from '../threads/readableIndex.js';
import type { ReaderThread } from '../threads/ReaderThread.js';
import type { BackfillWatch } from './watches/BackfillWatch.js';
import type { DiskWatch } from './watches/DiskWatch.js';
import type { LeaderWatch } from './watches/LeaderWatch.js';

interface DaemonParts {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly window: Window;
  readonly accountBuilder: AccountIndexBuilder;
  readonly backfill: Pick<Backfill, 'state' | 'heldBack'>;
  readonly backfillWatch: BackfillWatch;
  readonly descriptors: Pick<Descriptors, 'status' | 'trouble'>;
  readonly diskWatch: Pick<DiskWatch, 'disk' | 'minFreeBytes' | 'pause' | 'storeBytes'>;
  /** What readers use instead of the store. */
  readonly replica: IndexStore | undefined;
  /** Shared with other processes, if they share the store. */
  readonly queue: Pick<SharedQueue, 'trouble'> | undefined;
  readonly leaderWatch: LeaderWatch;
  readonly prover: Pick<FinalityProver, 'finalBlock' | 'sealedHeight' | 'status'> | undefined;
  readonly proofBackfill: Pick<ProofBackfill, 'reason'> | undefined;
  /** Absent when no readers are served. */
  readonly readers: Pick<ReaderThread, 'down'> | undefined;
  readonly clock: Clock;
}

/** The base of all reports: the parts of the daemon, and the current line. It caches nothing, so nothing is stale. */
export class DaemonState {
  readonly config: DaemonConfig;
  readonly parts: DaemonParts;
  #phase: 'starting' | 'running' | 'stopping' = 'starting';
  #line: IndexingLine | undefined;

  constructor(config: DaemonConfig, parts: DaemonParts) {
    this.config = config;
    this.parts = parts;
  }

  /** How much of the daemon is up. */
  get phase(): 'starting' | 'running' | 'stopping' {
    const waitsForLeader = this.#line === undefined && this.parts.store.meta() === undefined;
    return this.#phase === 'running' && waitsForLeader ? 'starting' : this.#phase;
  }

  /** `undefined` until the first line has started, and while another process leads. */
  get line(): IndexingLine | undefined {
    return this.#line;
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
}
