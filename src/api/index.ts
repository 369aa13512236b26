export { apiServer } from './rest/apiServer.js';
export { GrpcApiServer } from './grpc/GrpcApiServer.js';
export { hasSoundHttp2 } from './grpc/hasSoundHttp2.js';
export { metricsServer } from './http/metricsServer.js';
export type { HttpServer } from './http/HttpServer.js';
export { ChangeFeed } from './feed/ChangeFeed.js';
export type { ApiSecrets, TlsIdentity } from './guard/TokenGuard.js';
export { digestOf } from './guard/TokenGuard.js';
export { ApiError, indexerSilent } from './view/ApiError.js';
export { coverageOf, lastReadable } from './view/indexedRange.js';
export type { IndexedRange } from './view/indexedRange.js';
export type {
  BackfillRangeStatus,
  BackfillStatus,
  EndpointStatus,
  StatusDocument,
} from './view/statusDocument.js';
export { accountDocument, parseAccountRequest } from './documents/accountTransactions.js';
export { checkLookupKey, isLookupKind, lookupDocument } from './documents/lookupDocument.js';
export type { LookupKind } from './documents/lookupDocument.js';
export { proofDocument } from './documents/proofDocument.js';
export type { ProofDocument } from './documents/proofDocument.js';
export { blockAbove, explainDocument, parseExplainKey, workOfStore } from './documents/explainDocument.js';
export type { ExplainDocument } from './documents/explanation.js';
export { exportedLines, MAX_PAGE_HEIGHTS, PAGE_BYTES } from './documents/exportPage.js';
export type { StoredLine } from './documents/exportPage.js';
export { MAX_MISSING_SHOWN } from './documents/explanation.js';
export type {
  HeightWork,
  MissingDocument,
  NamedHeight,
  PlannedHeight,
  WorkDocument,
  WorkMoment,
} from './documents/explanation.js';
export { isLoopback } from './server/ListeningServer.js';
