import type { AccessMethod, TroubleKind } from '../access/index.js';
import type { Identifier, VerifiedCollection } from '../flow/index.js';

/** Where a collection came from; a label of metrics. */
export type Source = 'requester' | 'edi' | 'peer';

/** One collection from a source, already verified against its id. */
export interface ReceivedCollection {
  readonly collection: VerifiedCollection;
  readonly source: Source;
  /** Monotonic milliseconds at which all its bytes had arrived. */
  readonly receivedAtMs: number;
}

/** How a collection is requested: whole, or the light one followed by its transactions. */
export type CollectionWay = 'GetFullCollectionByID' | 'GetCollectionByID';

/** Requests what the queue reports as missing. */
export interface CollectionRequests {
  /** Requests what this height lacks. An id is never requested twice. */
  request(height: number): void;
  /** The height no longer lacks these: cancels calls for ids that no other height lacks. */
  cancel(height: number, ids: readonly Identifier[]): void;
  /** What was tried for an id that is still wanted; `undefined` if it is unknown. */
  trail(id: Identifier): RequestTrail | undefined;
  /** Nodes whose rate limit delays calls for this height, and until when. */
  heldBack(height: number): readonly HeldBackNode[];
}

/** A node that is not asked because its rate limit is used up. */
export interface HeldBackNode {
  readonly node: string;
  /** Monotonic milliseconds. */
  readonly untilMs: number;
}

/** The history of one wanted id, for "why is it not here". It changes with what is tried. */
export interface RequestTrail {
  readonly attempts: number;
  readonly lastNode: string | undefined;
  readonly lastError: string | undefined;
  /** Wall-clock milliseconds of the last call. */
  readonly lastAskedAt?: number | undefined;
  /** Attempts answered with "no such collection" or "not yet". */
  readonly notFound: number;
  /** A call for it is under way. */
  readonly isUnderWay: boolean;
  /** Monotonic milliseconds at which the current call was sent; `undefined` while none is under way. */
  readonly askedAtMs?: number | undefined;
  /** The last call. */
  readonly lastWay?: CollectionWay | undefined;
  /** Nodes that failed to deliver it, by name, in order of their first failure. */
  readonly failures: ReadonlyMap<string, NodeFailures> | undefined;
}

/** How often and how one node failed to deliver one collection. */
export interface NodeFailures {
  readonly count: number;
  /** The call that failed last, and how. */
  readonly method: AccessMethod;
  readonly kind: TroubleKind;
  readonly lastError: string;
  /** Wall-clock milliseconds of the call that failed last. */
  readonly lastAt: number;
  /** Monotonic milliseconds of the first failure. */
  readonly sinceMs: number;
}

/** What the requester needs to know about the streams, to hold requests back in their favour. */
export interface ExecutionDataForecast {
  /** True while a stream is fresh and is expected, at its present pace, to deliver this height in time. */
  expects(height: number, withinMs: number): boolean;
}

/** Where sources deliver. */
export interface CollectionSink {
  /** One verified collection, asked for by id. */
  onCollection(received: ReceivedCollection): void;
  /** All collections of a block in guarantee order, from a stream. Returns at once; the block is durable later. */
  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): void;
}
