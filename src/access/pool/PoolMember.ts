import { Pause, type Clock } from '../../runtime/index.js';
import type { Foreignness, NodeIdentity } from './identity/nodeIdentity.js';
import type { PooledNode } from '../node/grpcAccessNode.js';
import { NodeTroubles } from '../selection/NodeTroubles.js';

/** One node in the pool and what is known about it. */
export class PoolMember {
  readonly node: PooledNode;
  /** `configured`: named by the operator. `historic`: from the spork table, added when first wanted. */
  readonly origin: 'configured' | 'historic';
  /** Its roles: a source of blocks and collections, a source of execution data, an indexer that feeds us. */
  readonly roles: { access: boolean; executionData: boolean; peer: boolean };
  /** The spork table names it for a wanted height, so it is asked for everything there, whatever its roles. */
  isTabled = false;
  /** Set after its first handshake, whatever the result. */
  tried = false;
  identity: NodeIdentity | undefined;
  foreign: Foreignness | undefined;
  /** When its last handshake began. */
  askedAtMs = -Infinity;
  /** The latest finalized head that it reported, and when; see `noteHead`. */
  head: { readonly height: number; readonly atMs: number } | undefined;
  highestHead = -1;
  /** When its highest head rose, latest last; at most `RISES_KEPT`. */
  risesMs: readonly number[] = [];
  /** Consecutive handshakes that failed, and consecutive ones that left a question open. */
  failures = 0;
  opens = 0;
  /** How its handshake fails, or why the root of its spork is open; empty while all is well. */
  readonly troubles: NodeTroubles;
  /** The first height that it reports, how many times in a row, and since when (monotonic milliseconds). */
  beginning:
    { readonly height: number | undefined; readonly count: number; readonly sinceMs: number } | undefined;
  /** The heights it serves, from its identity and the sporks known. */
  range: ServedRange = { lowest: undefined, endExclusive: undefined };
  /** A lowest height that it named when it refused a height; counts if higher than that of its identity. */
  refusedBelow = 0;
  /** The lowest height of several nodes behind its address, as behind a balancer: what one lacks, another has. */
  sharedFrom: number | undefined;
  /** A call could not reach it: it needs a handshake once it is back. */
  outage = false;
  /** Before its next handshake. */
  readonly pause: Pause;
  /** When `forHeight` last returned it. */
  wantedAtMs: number;

  constructor(node: PooledNode, origin: PoolMember['origin'], roles: PoolMember['roles'], clock: Clock) {
    this.node = node;
    this.origin = origin;
    this.roles = roles;
    this.troubles = new NodeTroubles({ clock });
    this.pause = new Pause({ clock });
    this.wantedAtMs = clock.monotonic();
  }
}

/** Heights from `lowest` (`undefined`: unknown) below `endExclusive` (`undefined`: it follows the head). */
export interface ServedRange {
  readonly lowest: number | undefined;
  readonly endExclusive: number | undefined;
}

/** After this many rises a chain counts as growing: fewer may come from several nodes behind one address. */
export const RISES_KEPT = 4;

/**
 * A head below one that was reported a moment ago is ignored: a call may have been overtaken, or one of the two is a lie.
 */
const HIGHER_HEAD_HOLDS_MS = 5_000;

/** Records the head that the node reported: in a stream, an answer, or its handshake. */
export function noteHead(member: PoolMember, height: number, atMs: number): void {
  const { head, highestHead, risesMs } = member;
  if (height > highestHead) {
    member.highestHead = height;
    member.risesMs = [...risesMs, atMs].slice(-RISES_KEPT);
  }
  if (head !== undefined && height < head.height && atMs - head.atMs < HIGHER_HEAD_HOLDS_MS) return;
  member.head = { height, atMs };
}

/** A head this far below a height is not just late; older than this it says nothing about the present. */
const FAR_BEHIND = { heights: 20, reportedWithinMs: 30_000 };

/** The node lags so far behind that it cannot have the height: it is being restored, or stands still. */
export function isFarBehind({ head }: PoolMember, height: number, nowMs: number): boolean {
  if (head === undefined || height <= head.height + FAR_BEHIND.heights) return false;
  return nowMs - head.atMs < FAR_BEHIND.reportedWithinMs;
}

export function isUsable(member: PoolMember): boolean {
  return member.node.healthRecord.identity === 'usable';
}

/** The kind of node, for messages. */
export function nameOf({ roles }: PoolMember): string {
  return roles.peer ? 'peer' : 'access node';
}

/** False for a node that is only a peer: what it reports of the chain, its sporks and its head does not count. */
export function isChainSource({ roles }: PoolMember): boolean {
  return roles.access || roles.executionData;
}

export function covers({ lowest, endExclusive }: ServedRange, height: number): boolean {
  return (lowest === undefined || height >= lowest) && (endExclusive === undefined || height < endExclusive);
}

/**
 * The heights a node serves: from its own root up to the next known spork. `sporkRoots` is ascending. A node of the
 * latest known spork, or of an unknown one, follows the head.
 */
export function rangeOf(member: PoolMember, sporkRoots: readonly number[]): ServedRange {
  const lowest = lowestOf(member);
  const anchor = anchorOf(member);
  const endExclusive = anchor === undefined ? undefined : sporkRoots.find((root) => root > anchor);
  return { lowest, endExclusive };
}

/** A height of the node's spork: its root, if the node names it, else its lowest height; `undefined` if unknown. */
export function anchorOf(member: PoolMember): number | undefined {
  return member.identity?.sporkRootHeight ?? lowestOf(member);
}

/** Takes what a handshake has found. A node gets no history back: one that begins lower than before is another. */
export function identify(member: PoolMember, identity: NodeIdentity): void {
  const { lowestHeight: lowest = Infinity, sporkRootHeight: root } = identity;
  const before = member.sharedFrom ?? member.identity?.lowestHeight ?? 0;
  const isSame = root !== undefined && root === member.identity?.sporkRootHeight && !member.roles.peer;
  if (!isSame || lowest < before) member.sharedFrom = isSame ? lowest : undefined;
  member.identity = identity;
  member.refusedBelow = 0;
}

function lowestOf({ identity, refusedBelow, sharedFrom }: PoolMember): number | undefined {
  const reported = identity?.lowestHeight;
  return sharedFrom ?? (refusedBelow > (reported ?? 0) ? refusedBelow : reported);
}

/** What is known about one node, as `/status` has it. */
export type NodeState = Readonly<ReturnType<typeof nodeState>>;

export function nodeState(member: PoolMember) {
  const { node, origin, identity, range, failures, foreign, troubles } = member;
  const { averageLatencyMs, health, record } = node.healthRecord;
  const why = record?.reason ?? (failures > 0 ? troubles.all()[0]?.said : undefined);
  const because = foreign === undefined ? why : `another ${foreign.reason} than ours`;
  return {
    name: node.name,
    state: health,
    reason: because ?? null,
    sinceSeconds: record?.sinceSeconds ?? null,
    endsInSeconds: record?.endsInSeconds ?? null,
    /** `peer`: an indexer that feeds us, and nothing else. */
    origin: isChainSource(member) ? origin : ('peer' as const),
    version: identity === undefined || identity.semver === '' ? null : identity.semver,
    lowestHeight: range.lowest ?? null,
    latencySeconds: averageLatencyMs === undefined ? null : averageLatencyMs / 1_000,
    inFlight: node.client.inFlight,
    calls: node.healthRecord.callRecords(),
    limits: node.client.limits(),
  };
}
