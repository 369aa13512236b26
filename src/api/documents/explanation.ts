import type { ReadinessReason } from '../../observability/index.js';
import type { IndexedRange } from '../view/statusDocument.js';
import type { HeightWork, WorkDocument } from '../view/heightWork.js';

/** Why something is, or is not, in the index. */
export const explainStages = [
  /** It can be read. */
  'indexed',
  /** Below the first height of the store: it will not come. */
  'below_first_indexed',
  /** The chain has not come so far, as far as the access nodes tell. */
  'above_head',
  /** Above the stop height: nobody asks for it. */
  'beyond_stop',
  /** Above the window: its turn comes when the heights below it are done. */
  'outside_window',
  /** Within the window; its block is not known, or not borne out by the chain yet. */
  'queued',
  /** It lacks collections, which are being fetched. */
  'fetching',
  /** Complete; its batch is not on disk yet. */
  'committing',
  /** On disk, and not readable before the heights below it are. */
  'waiting_for_gap',
  /** A daemon runs and has not begun to index. */
  'starting',
  /** Above what is indexed, and no daemon runs. */
  'not_indexed',
  /** Nothing that is indexed or worked on has this id. */
  'unknown_id',
] as const;
export type ExplainStage = (typeof explainStages)[number];

/** What was asked about. */
export const explainKinds = ['height', 'block', 'collection', 'transaction', 'unknown'] as const;

/** The body of `/explain/{key}`. `null`: not known, or does not apply. */
export interface ExplainDocument extends IndexedRange {
  /** As it was asked for. */
  readonly key: string;
  readonly kind: (typeof explainKinds)[number];
  readonly stage: ExplainStage;
  /** The same for people. */
  readonly summary: string;
  /** The height; of an id, the lowest at which it stands. */
  readonly height: number | null;
  readonly blockId: string | null;
  /** The work on this height, while there is any. */
  readonly work: WorkDocument | null;
  /** What keeps the watermark from moving: what the lowest height that is not indexed waits for. */
  readonly holdingUp: HeightWork['holdingUp'];
  /** Whom the daemon has for this height; `null` where no daemon runs. */
  readonly sources: HeightWork['sources'] | null;
  /** Why the daemon is not ready, if it is not. */
  readonly reasons: readonly ReadinessReason[];
}
