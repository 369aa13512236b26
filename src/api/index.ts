export { ApiServer } from './rest/ApiServer.js';
export { GrpcApiServer } from './grpc/GrpcApiServer.js';
export { MetricsServer } from './http/MetricsServer.js';
export { ChangeFeed } from './feed/ChangeFeed.js';
export type { ApiSecrets, TlsIdentity } from './guard/tls.js';
export { digestOf } from './guard/TokenGuard.js';
export { ApiError, indexerSilent } from './view/ApiError.js';
export { coverageOf, lastReadable } from './view/indexedRange.js';
export type { IndexedRange } from './view/indexedRange.js';
export type {
  BackfillRangeStatus,
  BackfillStatus,
  StatusDocument,
  StatusSource,
} from './view/statusDocument.js';
export type { EndpointStatus } from './view/statusDocument.js';
export { MAX_WINDOW_CELLS, windowStates } from './view/statusDocument.js';
export type { WindowCell, WindowState } from './view/statusDocument.js';
export { accountDocument, parseAccountRequest } from './documents/accountTransactions.js';
export type { AccountRequest } from './documents/accountTransactions.js';
export { checkLookupKey, isLookupKind, lookupDocument } from './documents/lookupDocument.js';
export type { LookupKind } from './documents/lookupDocument.js';
export { proofDocument } from './documents/proofDocument.js';
export type { ProofDocument } from './documents/proofDocument.js';
export { blockAbove, explainDocument, parseExplainKey, workOfStore } from './documents/explainDocument.js';
export type { ExplainDocument } from './documents/explanation.js';
export {
  exportedBlock,
  exportedTransaction,
  exportPage,
  lineOf,
  MAX_PAGE_HEIGHTS,
  PAGE_BYTES,
} from './documents/exportPage.js';
export type { ExportRange } from './documents/exportPage.js';
export type { StoredLine } from './documents/storedPage.js';
export { MAX_MISSING_SHOWN } from './view/heightWork.js';
export type {
  HeightWork,
  MissingDocument,
  NamedHeight,
  PlannedHeight,
  WorkDocument,
  WorkMoment,
  HeightWorkSource,
} from './view/heightWork.js';
export { isLoopback } from './server/listenError.js';
