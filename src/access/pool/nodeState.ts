import type { CallRecord } from '../selection/CallHealth.js';
import type { MethodLimit } from '../transport/RpcClient.js';
import type { AccessMethod, NodeHealth } from '../types.js';
import type { ForeignReason } from './identity/foreignness.js';
import { isHeard } from './poolMember.js';
import type { PoolMember } from './poolMember.js';

/** What is known about one node, for metrics and the status page. */
export interface NodeState {
  readonly endpoint: string;
  readonly state: NodeHealth;
  /** `peer`: an indexer that feeds us, and nothing else. */
  readonly origin: 'configured' | 'historic' | 'peer';
  readonly executionData: boolean;
  /** Average latency of its answered calls; `undefined` before the first. */
  readonly latencyMs: number | undefined;
  readonly callsInFlight: number;
  /** Empty when unknown. */
  readonly semver: string;
  readonly lowestHeight: number | undefined;
  /** Why a foreign node is foreign. */
  readonly foreign: ForeignReason | undefined;
  /** Why its handshake fails; `undefined` while it succeeds. */
  readonly trouble: string | undefined;
  /** Why the node as a whole is not healthy; `undefined` while it is. */
  readonly record: CallRecord | undefined;
  /** Its calls that are not healthy, and why. */
  readonly calls: readonly (CallRecord & { readonly method: AccessMethod })[];
  /** Its calls that are limited now, by us or by rate limits that it answered. */
  readonly limits: readonly MethodLimit[];
}

/** A snapshot. */
export function nodeState(member: PoolMember): NodeState {
  const { node, origin, roles, identity, range, foreign, trouble } = member;
  return {
    endpoint: node.name,
    state: node.health,
    origin: isHeard(member) ? origin : 'peer',
    executionData: roles.executionData,
    latencyMs: node.healthRecord.averageLatencyMs,
    callsInFlight: node.inFlight,
    semver: identity?.semver ?? '',
    lowestHeight: range.lowest,
    foreign: foreign?.reason,
    trouble,
    record: node.healthRecord.record,
    calls: node.healthRecord.callRecords(),
    limits: node.limits?.() ?? [],
  };
}
