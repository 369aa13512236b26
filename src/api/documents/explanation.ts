import { endpointStates, type ReadinessReason } from '../../observability/index.js';
import type { Identifier } from '../../flow/index.js';
import * as T from '../Schema.js';
import { edges, executionDataStatus, reasons, waitingFor } from '../view/statusDocument.js';
import type { IndexedRange } from '../view/indexedRange.js';
import type { BackfillRangeStatus, StatusDocument } from '../view/statusDocument.js';

/** What is known about a height, or an id, that is not indexed yet. Expected errors: ApiError (`indexer_silent`). */
export interface HeightWorkSource {
  momentAt(key: number | Identifier): WorkMoment | Promise<WorkMoment>;
}

/** One height at one moment. */
export interface WorkMoment {
  readonly range: IndexedRange;
  /** For an id, the lowest height above the watermark whose block is this one, or names this collection; absent if there is none. */
  readonly named?: { readonly kind: 'block' | 'collection'; readonly height: number } | undefined;
  /** The block that is durable there, above the watermark. */
  readonly durableId: Identifier | undefined;
  /** The running daemon; `undefined` if none runs. */
  readonly daemon:
    { readonly reasons: readonly ReadinessReason[]; readonly work: HeightWork | undefined } | undefined;
  /** The plan to fill it in; absent if there is none. */
  readonly history?: PlannedHeight | undefined;
}

/** A height that a plan fills in. */
export interface PlannedHeight {
  readonly plan: number;
  readonly isPaused: boolean;
  /** The open range that includes it; `null` while there is none. */
  readonly range: BackfillRangeStatus | null;
  /** Why no node serves it, in words; absent if one may. */
  readonly unserved?: string | undefined;
}

/** The work on one height, once indexing has started. */
export interface HeightWork {
  /** `durable`: on disk. `queued`: in the window, not handed out. `outside`: above the window. */
  readonly stage: 'durable' | 'committing' | 'collecting' | 'queued' | 'outside';
  /** The block in progress or read ahead. */
  readonly blockId: Identifier | null;
  /** The highest height that may be worked on now. */
  readonly upperBound: number;
  /** Nothing above it is requested; `null` for no such bound. */
  readonly stopHeight: number | null;
  readonly work: WorkDocument | null;
  readonly holdingUp: StatusDocument['waitingFor'];
  readonly sources: T.Described<typeof heightSources>;
}

export const MAX_MISSING_SHOWN = 100;

const missingCollection = T.object({
  collectionId: T.identifier,
  isUnderWay: T.flag.note('A call for it is in progress.'),
  attempts: T.count,
  notFound: T.count.note('Attempts that ended in "no such collection" or "not yet".'),
  lastNode: T.text.orNull,
  lastError: T.text.orNull,
  lastAskedAt: T.time.orNull,
  failures: T.arrayOf(T.object({ node: T.text, count: T.count, lastError: T.text, lastAt: T.time })).note(
    'The nodes that failed to give it, in order of their first failure.',
  ),
});
export type MissingDocument = T.Described<typeof missingCollection>;

/** A height in progress. */
const heightWork = T.object({
  ageSeconds: T.amount.note('Since work on it began.'),
  collections: T.count.note('Guaranteed by its block.'),
  missing: T.count,
  missingCollections: T.arrayOf(missingCollection, MAX_MISSING_SHOWN),
  executionData: T.text.orNull.note('Why execution data does not deliver it.'),
  peer: T.text.orNull.note('Why no peer delivers it.'),
  reportedBy: T.text.orNull.note("The node whose word the block's guarantees are on; null: they are proven."),
});
export type WorkDocument = T.Described<typeof heightWork>;

/** The nodes available for a height. */
const heightSources = T.object({
  nodes: T.arrayOf(
    T.object({
      name: T.text.note('host:port'),
      state: T.words(...endpointStates),
      servesHeight: T.flag.note('Asked for this height.'),
      trouble: T.text.orNull.note('What is wrong with it.'),
    }),
  ),
  executionData: executionDataStatus,
  peer: executionDataStatus,
});

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
export const explainSchema = T.object({
  key: T.text.note('As requested.'),
  kind: T.words('height', 'block', 'collection', 'transaction', 'unknown'),
  stage: T.words(...explainStages),
  summary: T.text.note('One or two sentences for humans.'),
  height: T.count.orNull.note('The height; for an ID, the lowest at which it stands.'),
  blockId: T.text.orNull,
  ...edges,
  sealed: T.count.orNull,
  work: heightWork.orNull.note('While the height is in progress.'),
  holdingUp: waitingFor.note('What the lowest unindexed height waits for.'),
  sources: heightSources.orNull.note('The nodes available for this height; null where no daemon runs.'),
  reasons: reasons.note('Why the daemon is not ready, if it is not.'),
}).named('Explanation');
export type ExplainDocument = T.Described<typeof explainSchema>;
