export { CallFailure, openRpcChannel } from './channel.js';
export type { Channel, ChannelOptions, OpenChannel, StreamCall, StreamSink } from './channel.js';
export type { NodeEvents } from './caller.js';
export { parseEndpoint } from './endpoint.js';
export type { CallStatus } from './errors.js';
export { kindOfStatus, upstreamError } from './errors.js';
export type { ForwardOutcome, Forwarder, ForwarderSink } from './Forwarder.js';
export type { ChainReplaced, HeadBelow } from './identification.js';
export type { Expectation, SporkRoot } from './identity.js';
export { inOrderOfAsking, NodeLedger, worseOf } from './ledger.js';
export { MethodLimiter } from './limiter.js';
export type { Permit } from './limiter.js';
export { takeGrpcRemarks } from './grpcRemarks.js';
export { AccessNetwork } from './network.js';
export type { AccessNetworkDependencies, AccessNetworkOptions, NodeState } from './network.js';
export { NodeTroubles, SILENT_AFTER_MS, troubleOf } from './NodeTroubles.js';
export type { NodeTrouble, TroubleKind } from './NodeTroubles.js';
export { GrpcAccessNode } from './node.js';
export type { GrpcAccessNodeOptions, PooledNode } from './node.js';
export type { ForwardedCall, ForwardedRequest, ForwardedStatus, NodeForwarding } from './NodeForwarding.js';
export type { OpenNode } from './pool.js';
export { parseSporkTable, readSporkTable, sporkOf } from './sporks.js';
export type { SporkTable } from './sporks.js';
export { loadMethodStubs } from './stubs.js';
export type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  BlockDigest,
  BlockHeader,
  CallOptions,
  NodeFault,
  NodeHealth,
  NodeVersionInfo,
  ReceivedBlock,
  StreamMethod,
  UnaryMethod,
  UpstreamErrorKind,
} from './types.js';
export { UpstreamError } from './types.js';
