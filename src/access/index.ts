export { proxyFor } from './transport/channel/proxy.js';
export type { OpenChannel, StreamCall } from './transport/channel/rpcChannel.js';
export type { CallCredentials, NodeMetadata } from './transport/ports.js';
export { longestValue, maskValues, withoutValues } from './transport/channel/sentMetadata.js';
export { readStream, SLACK_HEIGHTS, streamPace, type StreamReader } from './transport/streams/readStream.js';
export { PROVABLE } from './transport/methodPaths.js';
export { parseEndpoint, type Endpoint } from './transport/endpoint.js';
export type { Admission, AdmissionEnd, AdmittedCall } from './transport/ports.js';
export type { ForwardingAdmission, NotAdmitted } from './transport/ports.js';
export { Forwarder, type ForwardOutcome, type ForwarderSink } from './forwarding/Forwarder.js';
export { addressTurns, redirectLibraryLogs } from './transport/channel/connection.js';
export { worseOf } from './selection/NodeHealthRecord.js';
export { surveyNode, type CallSurvey, type NodeSurvey } from './survey/surveyNode.js';
export { AccessNetwork } from './pool/AccessNetwork.js';
export { highestShared } from './pool/identity/highestShared.js';
export { NodeChooser, type Way } from './selection/NodeChooser.js';
export { Attempts, type Choice } from './selection/Attempts.js';
export { answerOf, faultOf, NodeTroubles, SILENT_AFTER_MS, troubleOf } from './selection/NodeTroubles.js';
export { Failures, worse, type NodeTrouble, type TroubleKind } from './selection/NodeTroubles.js';
export type { AccessNetworkDependencies } from './pool/NodePool.js';
export { readSporkTable, sporkOf, type SporkTable } from './pool/sporks/sporkTable.js';
export type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  BlockDigest,
  BlockHeader,
  BlockSource,
  NodeFault,
  NodeHealth,
  NodeVersionInfo,
  ReceivedBlock,
  StreamOptions,
} from './types.js';
export { type UpstreamErrorKind, outcomeOf, UpstreamError } from './UpstreamError.js';
