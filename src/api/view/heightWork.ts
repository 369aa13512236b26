import type { NodeHealth } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import type { StatusDocument } from './statusDocument.js';

/** What a daemon can tell of the work it does. Every answer is read from plain state: no waiting, no store, no network. */
export interface WorkSource {
  /** The work on a height and around it; `undefined` before indexing begins. */
  workAt(height: number): HeightWork | undefined;
  /** The lowest height in hand whose block is this one, or names this collection. */
  naming(id: Identifier): { readonly kind: 'block' | 'collection'; readonly height: number } | undefined;
}

/** One height, as the parts that work on it see it. */
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
