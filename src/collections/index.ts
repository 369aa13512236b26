export { BlockCollectionIndexer, ParentLinkError } from './BlockCollectionIndexer.js';
export type {
  BlockCollectionIndexerDependencies,
  BlockCollectionIndexerOptions,
} from './BlockCollectionIndexer.js';
export { ByteBudget } from './ByteBudget.js';
export type { ByteBudgetDependencies, ByteBudgetOptions } from './ByteBudget.js';
export { CollectionRequester } from './CollectionRequester.js';
export type { CollectionRequesterDependencies, CollectionRequesterOptions } from './CollectionRequester.js';
export { Disputes } from './Disputes.js';
export { DisputeWatch } from './DisputeWatch.js';
export type { DisputeWatchDependencies } from './DisputeWatch.js';
export { DEFAULT_HOLD_BACK_MS } from './HoldBack.js';
export { ExecutionDataIndexer } from './ExecutionDataIndexer.js';
export type {
  ExecutionDataIndexerDependencies,
  ExecutionDataIndexerOptions,
  ExecutionDataState,
  ExecutionDataStatus,
} from './ExecutionDataIndexer.js';
export type { HeldUpHeight } from './heldUp.js';
export { IndexingWindow } from './IndexingWindow.js';
export type { IndexingWindowDependencies, IndexingWindowOptions } from './IndexingWindow.js';
export { JobProcessor } from './JobProcessor.js';
export type {
  HeightExplanation,
  JobProcessorDependencies,
  JobProcessorOptions,
  MissingExplanation,
  OldestMissing,
  UnresolvableHeight,
} from './JobProcessor.js';
export { MissingCollectionQueue } from './MissingCollectionQueue.js';
export type {
  CompletionSource,
  MissingCollectionQueueOptions,
  QueuedHeight,
  Receipt,
} from './MissingCollectionQueue.js';
export type {
  BlockWindow,
  ExecutionDataOutlook,
  HeldBackNode,
  NodeFailures,
  RequestTrail,
  BlockIndexer,
  BlockJob,
  BlockReviewer,
  BlockVerdict,
  CollectionRequests,
  CollectionSink,
  ReceivedCollection,
  Source,
} from './ports.js';
export { OffChainBlockError } from './DurableHeads.js';
