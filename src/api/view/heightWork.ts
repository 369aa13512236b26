import type { NodeHealth } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import type { ReadinessReason } from '../../observability/index.js';
import type { BackfillRangeStatus, IndexedRange, StatusDocument } from './statusDocument.js';

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
  /** The daemon that works; `undefined` where none runs. */
  readonly daemon:
    { readonly reasons: readonly ReadinessReason[]; readonly work: HeightWork | undefined } | undefined;
  /** The plan to fill it in; left out where there is none. */
  readonly history?: PlannedHeight | undefined;
}

/** A height that is to be filled in. */
export interface PlannedHeight {
  readonly plan: number;
  readonly isPaused: boolean;
  /** The range of it that was begun; `null` while none was. */
  readonly range: BackfillRangeStatus | null;
}

/** One height, as the parts that work on it see it, once indexing has begun. */
export interface HeightWork {
  /** `durable`: on disk. `queued`: in the window, not handed out. `outside`: above the window. */
  readonly stage: 'durable' | 'committing' | 'collecting' | 'queued' | 'outside';
  /** The block in progress, or read ahead. */
  readonly blockId: Identifier | null;
  /** The highest height that may be worked on now. */
  readonly upperBound: number;
  /** Nothing above it is asked for; `null` for no such bound. */
  readonly stopHeight: number | null;
  readonly work: WorkDocument | null;
  readonly holdingUp: StatusDocument['waitingFor'];
  readonly sources: {
    readonly nodes: readonly NodeDocument[];
    readonly executionData: StatusDocument['sources']['edi'];
  };
}

/** A height that was handed out and is not durable. */
export interface WorkDocument {
  /** Since it was handed out. */
  readonly ageSeconds: number;
  /** That its block guarantees. */
  readonly collections: number;
  readonly missing: number;
  /** The first missing ones, at most MAX_MISSING_SHOWN. */
  readonly missingCollections: readonly MissingDocument[];
  /** Why execution data do not deliver it; `null` while nothing is wrong with that. */
  readonly executionData: string | null;
  /** What contradicts the block's guarantees. */
  readonly dispute: string | null;
}

export const MAX_MISSING_SHOWN = 100;

/** The attempts for a missing collection. */
export interface MissingDocument {
  readonly collectionId: string;
  /** A call for it is under way. */
  readonly isUnderWay: boolean;
  readonly attempts: number;
  /** Attempts answered with "no such collection", or "not yet". */
  readonly notFound: number;
  readonly lastNode: string | null;
  readonly lastError: string | null;
  /** RFC 3339. */
  readonly lastAskedAt: string | null;
  /** Nodes that failed to give it, in order of their first failure. */
  readonly failures: readonly NodeFailures[];
}

/** The results of asking one node for one collection. */
export interface NodeFailures {
  readonly node: string;
  readonly count: number;
  readonly lastError: string;
  /** RFC 3339. */
  readonly lastAt: string;
}

export interface NodeDocument {
  /** `host:port`. */
  readonly name: string;
  readonly state: NodeHealth;
  /** Asked for this height. */
  readonly servesHeight: boolean;
  /** What is wrong with it. */
  readonly trouble: string | null;
}
