export { BlockCollectionIndexer } from './indexer/BlockCollectionIndexer.js';
export { ParentLinkError } from './indexer/ParentLinkError.js';
export type { BlockCollectionIndexerOptions } from './indexer/BlockCollectionIndexer.js';
export { ByteBudget } from './heights/ByteBudget.js';
export { CollectionRequester, DEFAULT_HOLD_BACK_MS } from './requester/CollectionRequester.js';
export type {
  CollectionRequesterDependencies,
  CollectionRequesterOptions,
} from './requester/CollectionRequester.js';
export { EndpointSlots } from './requester/EndpointSlots.js';
export { watchForOffChainBlocks } from './watchForOffChainBlocks.js';
export { PEER } from './executionData/BodyStream.js';
export { ExecutionDataIndexer } from './executionData/ExecutionDataIndexer.js';
export type { ExecutionDataIndexerOptions } from './executionData/ExecutionDataIndexer.js';
export type { ExecutionDataStatus } from './executionData/StreamState.js';
export { HeightRecord, NEXT_STATUSES } from './heights/HeightRecord.js';
export type { HeightStatus } from './heights/HeightRecord.js';
export { HeightTable } from './heights/HeightTable.js';
export type { HeldUpHeight } from './heldUp.js';
export { IndexingWindow } from './heights/IndexingWindow.js';
export { WindowEnds } from './heights/WindowEnds.js';
export { JobProcessor } from './JobProcessor.js';
export { HeightExplainer } from './HeightExplainer.js';
export type { HeightExplanation, MissingExplanation } from './HeightExplainer.js';
export { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
export type {
  BlockWindow,
  ExecutionDataForecast,
  HeldBackNode,
  RequestTrail,
  CollectionRequests,
  CollectionSink,
  ReceivedCollection,
  Source,
} from './ports.js';
export { OffChainBlockError } from './heights/OffChainBlockError.js';
