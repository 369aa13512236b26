import { endpointStates } from '../../observability/index.js';
import type { Identifier } from '../../flow/index.js';
import type { ReadinessReason } from '../../observability/index.js';
import {
  amount,
  arrayOf,
  count,
  flag,
  identifier,
  note,
  object,
  orNull,
  text,
  time,
  words,
} from '../schema.js';
import type { Described } from '../schema.js';
import { executionDataStatus } from './statusDocument.js';
import type { IndexedRange, StatusDocument } from './statusDocument.js';

/** What is known of work that is not indexed yet. Expected errors of both: ApiError (`indexer_silent`). */
export interface WorkSource {
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
  /** Of the block that is durable there, above the watermark. */
  readonly durableId: Identifier | undefined;
  /** The running daemon; `undefined` where none runs. */
  readonly daemon:
    { readonly reasons: readonly ReadinessReason[]; readonly work: HeightWork | undefined } | undefined;
}

/** One height, once indexing has begun. */
export interface HeightWork {
  /** `durable`: on disk. `queued`: in the window, not handed out. `outside`: above the window. */
  readonly stage: 'durable' | 'committing' | 'collecting' | 'queued' | 'outside';
  /** The block in progress, or read ahead. */
  readonly blockId: Identifier | null;
  /** The highest height that may be worked on now. */
  readonly upperBound: number;
  /** Nothing above it is requested; `null` for no such bound. */
  readonly stopHeight: number | null;
  readonly work: WorkDocument | null;
  readonly holdingUp: StatusDocument['waitingFor'];
  readonly sources: Described<typeof heightSources>;
}

export const MAX_MISSING_SHOWN = 100;

const missingCollection = object({
  collectionId: identifier,
  isUnderWay: note('A call for it is in progress.', flag),
  attempts: count,
  notFound: note('Attempts that ended in "no such collection" or "not yet".', count),
  lastNode: orNull(text),
  lastError: orNull(text),
  lastAskedAt: orNull(time),
  failures: note(
    'The nodes that failed to give it, in order of their first failure.',
    arrayOf(object({ node: text, count, lastError: text, lastAt: time })),
  ),
});
export type MissingDocument = Described<typeof missingCollection>;

/** A height in progress. */
export const heightWork = object({
  ageSeconds: note('Since work on it began.', amount),
  collections: note('Guaranteed by its block.', count),
  missing: count,
  missingCollections: arrayOf(missingCollection, MAX_MISSING_SHOWN),
  executionData: note('Why execution data does not deliver it.', orNull(text)),
  dispute: note("What contradicts the block's guarantees.", orNull(text)),
});
export type WorkDocument = Described<typeof heightWork>;

/** The nodes available for a height. */
export const heightSources = object({
  nodes: arrayOf(
    object({
      name: note('host:port', text),
      state: words(...endpointStates),
      servesHeight: note('Asked for this height.', flag),
      trouble: note('What is wrong with it.', orNull(text)),
    }),
  ),
  executionData: executionDataStatus,
});
