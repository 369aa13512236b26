import type { AccessNetwork } from '../../access/index.js';
import type { FinalizationListener, FinalityProver, ProofBackfill } from '../../finality/index.js';
import type { Leadership } from '../../ranges/index.js';
import type { AccountIndexBuilder, IndexStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/Lifecycle.js';
import type { Backfill } from './history/Backfill.js';
import type { Healing } from './Healing.js';
import type { HistoryPace } from './history/HistoryPace.js';
import type { IndexingLineParts } from './sections/lineParts.js';

/** Everything that indexing needs, for the live line and the lines of other ranges. */
export interface IndexingParts extends Omit<IndexingLineParts, 'nodes'> {
  readonly store: IndexStore;
  readonly network: AccessNetwork;
  readonly listener: FinalizationListener;
  readonly lifecycle: Lifecycle;
  readonly accountBuilder: AccountIndexBuilder;
  readonly backfill: Backfill;
  readonly pace: HistoryPace;
  readonly healing: Healing;
  readonly leadership: Leadership;
  /** Absent: nothing is proven final. */
  readonly prover: FinalityProver | undefined;
  /** Absent: blocks that are stored without a proof stay so. */
  readonly proofBackfill: ProofBackfill | undefined;
}
