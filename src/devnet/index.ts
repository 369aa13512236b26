export { ChainGenerator } from './chain/ChainGenerator.js';
export type { ChainOptions, GeneratedBlock, GeneratedCollection } from './chain/ChainGenerator.js';
export { Chain, INDEXED_COLLECTIONS } from './chain/Chain.js';
export { collectionLagMs } from './node/collectionLag.js';
export { DevnetNode } from './node/DevnetNode.js';
export { parseFaults } from './faults/faultRules.js';
export type {
  FaultCondition,
  FaultEffect,
  FaultKind,
  FaultRule,
  Lie,
  StatusName,
} from './faults/faultRules.js';
export { FREE_RUN_LEAD_HEIGHTS } from './node/ChainHead.js';
export { methodNames, methods } from './faults/rpcMethods.js';
export type { DevnetMethod, DevnetRequest } from './faults/rpcMethods.js';
export { resolveNodeOptions } from './node/devnetOptions.js';
export type { DevnetOptions, NodeOptions } from './node/devnetOptions.js';
export { oddKinds, profiles } from './chain/chainProfile.js';
export type { ChainProfile, OddKind, ProfileName } from './chain/chainProfile.js';
export type { RequestLog } from './node/RequestLog.js';
export { consecutiveSporks } from './node/consecutiveSporks.js';
export type { SporksDescription } from './node/consecutiveSporks.js';
export { StatusError } from './faults/StatusError.js';
export { startDevnet } from './server/startDevnet.js';
export type { DevnetHandle } from './server/startDevnet.js';
export { Subscriptions } from './server/Subscriptions.js';
export type { MessageSink } from './server/Subscriptions.js';
export { UnaryCalls } from './server/UnaryCalls.js';
