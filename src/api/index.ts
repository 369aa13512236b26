export { ApiServer } from './ApiServer.js';
export type { ApiServerOptions } from './ApiServer.js';
export { GrpcApiServer } from './grpc/GrpcApiServer.js';
export type { GrpcApiServerDependencies, GrpcApiServerOptions } from './grpc/GrpcApiServer.js';
export { MetricsServer } from './MetricsServer.js';
export { AddressLimiter } from './AddressLimiter.js';
export { ChangeFeed, MAX_FOLLOWERS, SEND_LIMIT_MS } from './feed/ChangeFeed.js';
export type { FeedEvent } from './feed/events.js';
export type { StartPoint } from './feed/start.js';
export { ApiError } from './errors.js';
export { lastReadable } from './status.js';
export type { EndpointStatus, IndexedRange, StatusDocument, StatusSource } from './status.js';
export {
  accountDocument,
  accountRoleNames,
  DEFAULT_PAGE_ITEMS,
  MAX_PAGE_ITEMS,
  parseAccountRequest,
} from './accounts.js';
export type { AccountRequest } from './accounts.js';
export { machinePace } from './share/pace.js';
export { MAX_WAIT_MS, MAX_WAITING_REQUESTS, ReadGovernor, SHARE_AT_HEAD } from './share/ReadGovernor.js';
export { freeTurns } from './share/turns.js';
export { checkLookupKey, isLookupKind, lookupDocument, lookupKinds, MAX_PLACES } from './lookup.js';
export type { LookupKind } from './lookup.js';
export { restBlock, restBlockPayload } from './rest/block.js';
export { collectionBody, restCollection } from './rest/collection.js';
export { restTransaction, transactionBody } from './rest/transaction.js';
export { selectFields } from './rest/select.js';
export { explainDocument, parseExplainKey } from './explain.js';
export type { ExplainDocument } from './explanation.js';
export { exportPage } from './exportPage.js';
export type { ExportedBlock, ExportRange } from './exportPage.js';
export { MAX_MISSING_SHOWN } from './work.js';
export type { HeightWork, MissingDocument, WorkDocument, WorkSource } from './work.js';
