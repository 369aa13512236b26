export { BlockCollectionIndexer } from './indexer/BlockCollectionIndexer.js';
export { ParentLinkError } from './indexer/ParentLinkError.js';
export type {
  BlockCollectionIndexerDependencies,
  BlockCollectionIndexerOptions,
} from './indexer/BlockCollectionIndexer.js';
export { ByteBudget } from './heights/ByteBudget.js';
export type { ByteBudgetDependencies, ByteBudgetOptions } from './heights/ByteBudget.js';
export { CollectionRequester } from './requester/CollectionRequester.js';
export type {
  CollectionRequesterDependencies,
  CollectionRequesterOptions,
} from './requester/CollectionRequester.js';
export { EndpointSlots } from './requester/nodes/EndpointSlots.js';
export { GuaranteeReview } from './disputes/GuaranteeReview.js';
export type { GuaranteeReviewDependencies } from './disputes/GuaranteeReview.js';
export { Disputes } from './disputes/Disputes.js';
export { DisputeReviewer } from './disputes/DisputeReviewer.js';
export type { DisputeReviewerDependencies } from './disputes/DisputeReviewer.js';
export { DEFAULT_HOLD_BACK_MS } from './requester/order/EdiPreference.js';
export { PEER } from './executionData/BodyStream.js';
export { ExecutionDataIndexer } from './executionData/ExecutionDataIndexer.js';
export type {
  ExecutionDataIndexerDependencies,
  ExecutionDataIndexerOptions,
} from './executionData/ExecutionDataIndexer.js';
export type { ExecutionDataState, ExecutionDataStatus } from './executionData/StreamState.js';
export { HeightRecord, NEXT_STATUSES } from './heights/HeightRecord.js';
export type { CompletionSource, HeightStatus } from './heights/HeightRecord.js';
export { HeightTable } from './heights/HeightTable.js';
export type { HeightTableDependencies } from './heights/HeightTable.js';
export type { HeldUpHeight } from './heldUp.js';
export { IndexingWindow } from './heights/IndexingWindow.js';
export type { IndexingWindowDependencies } from './heights/IndexingWindow.js';
export { WindowEnds } from './heights/WindowEnds.js';
export type { WindowEndsDependencies, WindowEndsOptions } from './heights/WindowEnds.js';
export { JobProcessor } from './JobProcessor.js';
export type { JobProcessorDependencies, JobProcessorOptions } from './JobProcessor.js';
export { HeightExplainer } from './HeightExplainer.js';
export type { HeightExplanation, MissingExplanation } from './HeightExplainer.js';
export { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
export type {
  MissingCollectionQueueDependencies,
  MissingCollectionQueueOptions,
  Receipt,
} from './heights/MissingCollectionQueue.js';
export type {
  BlockWindow,
  ExecutionDataForecast,
  HeldBackNode,
  NodeFailures,
  RequestTrail,
  BlockIndexer,
  BlockAsker,
  BlockReviewer,
  BlockVerdict,
  CollectionRequests,
  CollectionSink,
  CollectionWay,
  ReceivedCollection,
  Source,
  StreamGiver,
} from './ports.js';
export { OffChainBlockError } from './heights/OffChainBlockError.js';
