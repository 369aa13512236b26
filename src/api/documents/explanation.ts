import type { ReadinessReason } from '../../observability/index.js';
import type { HeightRange } from '../../storage/index.js';
import type { IndexedRange } from '../view/statusDocument.js';
import type { HeightWork, WorkDocument } from '../view/heightWork.js';

/** Why something is, or is not, in the index. */
export const explainStages = [
  /** It can be read. */
  'indexed',
  /** Below the first height of the store, and not planned: it will not be indexed. */
  'below_first_indexed',
  /** Missing between heights that are indexed, and not planned. */
  'hole',
  /** Planned to be filled in below the live range, or being filled in. */
  'backfill',
  /** The chain is not that far yet, as far as the access nodes report. */
  'above_head',
  /** Above the stop height: nobody asks for it. */
  'beyond_stop',
  /** Above the window: it follows when the heights below it are done. */
  'outside_window',
  /** Within the window; its block is unknown, or not confirmed by the chain yet. */
  'queued',
  /** Its missing collections are being fetched. */
  'fetching',
  /** Complete; its batch is not on disk yet. */
  'committing',
  /** On disk, but not readable before the heights below it are. */
  'waiting_for_gap',
  /** A daemon is running but has not started indexing. */
  'starting',
  /** Above what is indexed, and no daemon is running. */
  'not_indexed',
  /** Nothing indexed or in progress has this id. */
  'unknown_id',
] as const;
export type ExplainStage = (typeof explainStages)[number];

/** What was asked about. */
export const explainKinds = ['height', 'block', 'collection', 'transaction', 'unknown'] as const;

/** The body of `/explain/{key}`. `null`: unknown, or not applicable. */
export interface ExplainDocument extends IndexedRange {
  readonly coverage: readonly HeightRange[];
  /** As requested. */
  readonly key: string;
  readonly kind: (typeof explainKinds)[number];
  readonly stage: ExplainStage;
  /** The same for humans. */
  readonly summary: string;
  /** The height; for an id, the lowest at which it stands. */
  readonly height: number | null;
  readonly blockId: string | null;
  /** The work on this height, while there is any. */
  readonly work: WorkDocument | null;
  /** What keeps the watermark from moving: what the lowest unindexed height waits for. */
  readonly holdingUp: HeightWork['holdingUp'];
  /** The nodes available for this height; `null` where no daemon is running. */
  readonly sources: HeightWork['sources'] | null;
  /** Why the daemon is not ready, if it is not. */
  readonly reasons: readonly ReadinessReason[];
}
