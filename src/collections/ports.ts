import type { AccessMethod, TroubleKind } from '../access/index.js';
import type { VerifiedCollection } from '../flow/index.js';

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

/** A node that is not asked because its rate limit is used up. */
export interface HeldBackNode {
  readonly node: string;
  /** Monotonic milliseconds. */
  readonly untilMs: number;
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
