import { endpointStates } from '../../observability/index.js';
import type { Identifier } from '../../flow/index.js';
import type { ReadinessReason } from '../../observability/index.js';
import * as t from '../schema.js';
import { edges, executionDataStatus, reasons, waitingFor } from '../view/statusDocument.js';
import type { IndexedRange } from '../view/indexedRange.js';
import type { BackfillRangeStatus, StatusDocument } from '../view/statusDocument.js';

/** What is known about heights that are not indexed yet. Expected errors of both: ApiError (`indexer_silent`). */
export interface HeightWorkSource {
  momentAt(height: number): WorkMoment | Promise<WorkMoment>;
  /** The lowest height above the watermark whose block is this one, or names this collection. */
  naming(id: Identifier): NamedHeight | undefined | Promise<NamedHeight | undefined>;
}

export interface NamedHeight {
  readonly kind: 'block' | 'collection';
  readonly height: number;
}

/** One height at one moment. */
export interface WorkMoment {
  readonly range: IndexedRange;
  /** The block that is durable there, above the watermark. */
  readonly durableId: Identifier | undefined;
  /** The running daemon; `undefined` if none runs. */
  readonly daemon:
    { readonly reasons: readonly ReadinessReason[]; readonly work: HeightWork | undefined } | undefined;
  /** The plan to fill it in; absent if there is none. */
  readonly history?: PlannedHeight | undefined;
}

/** A height that is to be filled in. */
export interface PlannedHeight {
  readonly plan: number;
  readonly isPaused: boolean;
  /** The open range that includes it; `null` while there is none. */
  readonly range: BackfillRangeStatus | null;
}

/** One height, once indexing has begun. */
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
  readonly sources: t.Described<typeof heightSources>;
}

export const MAX_MISSING_SHOWN = 100;

const missingCollection = t.object({
  collectionId: t.identifier,
  isUnderWay: t.note('A call for it is in progress.', t.flag),
  attempts: t.count,
  notFound: t.note('Attempts that ended in "no such collection" or "not yet".', t.count),
  lastNode: t.orNull(t.text),
  lastError: t.orNull(t.text),
  lastAskedAt: t.orNull(t.time),
  failures: t.note(
    'The nodes that failed to give it, in order of their first failure.',
    t.arrayOf(t.object({ node: t.text, count: t.count, lastError: t.text, lastAt: t.time })),
  ),
});
export type MissingDocument = t.Described<typeof missingCollection>;

/** A height in progress. */
const heightWork = t.object({
  ageSeconds: t.note('Since work on it began.', t.amount),
  collections: t.note('Guaranteed by its block.', t.count),
  missing: t.count,
  missingCollections: t.arrayOf(missingCollection, MAX_MISSING_SHOWN),
  executionData: t.note('Why execution data does not deliver it.', t.orNull(t.text)),
  peer: t.note('Why no peer delivers it.', t.orNull(t.text)),
  reportedBy: t.note(
    "The node whose word the block's guarantees are on; null: they are proven.",
    t.orNull(t.text),
  ),
});
export type WorkDocument = t.Described<typeof heightWork>;

/** The nodes available for a height. */
const heightSources = t.object({
  nodes: t.arrayOf(
    t.object({
      name: t.note('host:port', t.text),
      state: t.words(...endpointStates),
      servesHeight: t.note('Asked for this height.', t.flag),
      trouble: t.note('What is wrong with it.', t.orNull(t.text)),
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
