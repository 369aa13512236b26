import type { NodeState } from '../../../access/index.js';
import type { EndpointStatus } from '../../../api/index.js';
import type { Stretch } from '../../../observability/index.js';

/** The status of one node: its state now, and its last hour. */
export function endpointReport(
  { endpoint, state, foreign, trouble, record, calls, limits, ...node }: NodeState,
  { nowMs, now, hour }: { readonly nowMs: number; readonly now?: Stretch; readonly hour?: Stretch },
): EndpointStatus {
  const because = foreign === undefined ? (record?.said ?? trouble) : `another ${foreign} than ours`;
  const since = (atMs: number): number => (nowMs - atMs) / 1_000;
  const until = (atMs: number): number => Math.max(0, (atMs - nowMs) / 1_000);
  const { calls: sent = 0, errors = 0, kinds = [] } = hour?.nodes.get(endpoint) ?? {};
  return {
    name: endpoint,
    state,
    reason: because ?? null,
    sinceSeconds: record === undefined ? null : since(record.sinceMs),
    endsInSeconds: record === undefined ? null : until(record.untilMs),
    origin: node.origin,
    version: node.semver === '' ? null : node.semver,
    lowestHeight: node.lowestHeight ?? null,
    latencySeconds: node.latencyMs === undefined ? null : node.latencyMs / 1_000,
    inFlight: node.callsInFlight,
    callsPerSecond: now === undefined ? 0 : (now.nodes.get(endpoint)?.calls ?? 0) / now.seconds,
    lastHour: { calls: sent, errors, kinds: [...kinds].map(([kind, count]) => ({ kind, count })) },
    limits: limits.map(({ method, ratePerSecond = null, isLearned, pauseMs, waiting }) => ({
      ...{ method, ratePerSecond, isLearned, pauseSeconds: pauseMs / 1_000, waiting },
    })),
    calls: calls.map(({ method, state: itsState, said, count, sinceMs, untilMs }) => ({
      ...{ method, state: itsState, reason: said, count },
      ...{ sinceSeconds: since(sinceMs), endsInSeconds: until(untilMs) },
    })),
  };
}
