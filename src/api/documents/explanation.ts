import * as t from '../schema.js';
import { heightSources, heightWork } from '../view/heightWork.js';
import { edges, reasons, waitingFor } from '../view/statusDocument.js';

/** Why something is, or is not, in the index. */
const explainStages = [
  /** It can be read. */
  'indexed',
  /** Below the first height of the store, and not planned: it will not be indexed. */
  'below_first_indexed',
  /** Missing between heights that are indexed, and not planned. */
  'hole',
  /** Planned to be filled in below the live range, or being filled in. */
  'backfill',
  /** The chain has not reached it, according to the access nodes. */
  'above_head',
  /** Above the stop height: it is not requested. */
  'beyond_stop',
  /** Above the window: its turn comes when the heights below it are done. */
  'outside_window',
  /** Within the window; its block is unknown, or not confirmed by the chain yet. */
  'queued',
  /** Its missing collections are being fetched. */
  'fetching',
  /** Complete; its batch is not on disk yet. */
  'committing',
  /** On disk, but not readable before the heights below it are. */
  'waiting_for_gap',
  /** Indexed, but not readable before it is proven final (proof.finality). */
  'awaiting_proof',
  /** A daemon is running but has not started indexing. */
  'starting',
  /** Above the indexed heights, and no daemon is running. */
  'not_indexed',
  /** Nothing indexed or in progress has this id. */
  'unknown_id',
] as const;
export type ExplainStage = (typeof explainStages)[number];

/** The body of `/explain/{key}`. */
export const explainSchema = t.named(
  'Explanation',
  t.object({
    key: t.note('As requested.', t.text),
    kind: t.words('height', 'block', 'collection', 'transaction', 'unknown'),
    stage: t.words(...explainStages),
    summary: t.note('One or two sentences for humans.', t.text),
    height: t.note('The height; for an ID, the lowest at which it stands.', t.orNull(t.count)),
    blockId: t.orNull(t.text),
    ...edges,
    sealed: t.orNull(t.count),
    work: t.note('While the height is in progress.', t.orNull(heightWork)),
    holdingUp: t.note('What the lowest unindexed height waits for.', waitingFor),
    sources: t.note(
      'The nodes available for this height; null where no daemon runs.',
      t.orNull(heightSources),
    ),
    reasons: t.note('Why the daemon is not ready, if it is not.', reasons),
  }),
);
export type ExplainDocument = t.Described<typeof explainSchema>;
