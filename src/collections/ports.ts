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
