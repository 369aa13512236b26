import type { Clock } from '../../runtime/index.js';
import type { Foreignness } from './foreignness.js';
import type { NodeIdentity } from './nodeIdentity.js';
import type { PooledNode } from '../node/GrpcAccessNode.js';
import { NodeTroubles } from '../selection/NodeTroubles.js';

/** One node in the pool and what is known of it. */
export interface PoolMember {
  readonly node: PooledNode;
  /** `configured`: named by the operator. `historic`: from the spork table, made when first wanted. */
  readonly origin: 'configured' | 'historic';
  /** Named as a source of blocks and collections, of execution data, or both. */
  readonly roles: { access: boolean; executionData: boolean };
  /** Set once it was asked who it is, with whatever outcome. */
  tried: boolean;
  identity: NodeIdentity | undefined;
  foreign: Foreignness | undefined;
  /** Monotonic milliseconds since when it is foreign. */
  foreignSinceMs: number;
  /** When it was last asked who it is. */
  askedAtMs: number;
  /** The latest finalized head that it told, and when; see `tellHead`. */
  head: { readonly height: number; readonly atMs: number } | undefined;
  highestHead: number;
  /** When it last told a head above all that it had told before, and the times before that; at most `RISES_KEPT`. */
  risesMs: readonly number[];
  /** What happened since it last said who it is. */
  readonly troubles: NodeTroubles;
  /** Where it said that it begins, how often in a row and since when (monotonic milliseconds). */
  beginning:
    { readonly height: number | undefined; readonly count: number; readonly sinceMs: number } | undefined;
  /** The heights it serves, from its identity and the sporks known. */
  range: ServedRange;
  /** Higher than what its identity says, when it refused a height since. */
  refusedBelow: number;
  /** A call could not reach it: it must say who it is once it is back. */
  outage: boolean;
  /** Why its handshake fails; `undefined` while it succeeds. The log was told when it was set. */
  trouble: string | undefined;
  /** Ends the pause before it is asked again. */
  wake: (() => void) | undefined;
  /** When `forHeight` last offered it. */
  wantedAtMs: number;
}

/** Heights from `lowest` (`undefined` = not told) below `endExclusive` (`undefined` = it follows the head). */
export interface ServedRange {
  readonly lowest: number | undefined;
  readonly endExclusive: number | undefined;
}

export function newPoolMember(
  node: PooledNode,
  origin: PoolMember['origin'],
  roles: PoolMember['roles'],
  clock: Clock,
): PoolMember {
  return {
    node,
    origin,
    roles,
    tried: false,
    identity: undefined,
    foreign: undefined,
    foreignSinceMs: -Infinity,
    askedAtMs: -Infinity,
    head: undefined,
    highestHead: -1,
    risesMs: [],
    troubles: new NodeTroubles({ clock }),
    beginning: undefined,
    range: { lowest: undefined, endExclusive: undefined },
    refusedBelow: 0,
    outage: false,
    trouble: undefined,
    wake: undefined,
    wantedAtMs: clock.monotonic(),
  };
}

/** A chain that was seen to grow so often goes on: fewer rises may come from several nodes behind one address. */
export const RISES_KEPT = 4;

/** A lower head than one that the node told a moment ago says little: a call may have been overtaken, or one of two lie. */
const HIGHER_HEAD_HOLDS_MS = 5_000;

/** The node told its head: by a stream, an answer, or when it said who it is. */
export function tellHead(member: PoolMember, height: number, atMs: number): void {
  const { head, highestHead, risesMs } = member;
  if (height > highestHead) {
    member.highestHead = height;
    member.risesMs = [...risesMs, atMs].slice(-RISES_KEPT);
  }
  if (head !== undefined && height < head.height && atMs - head.atMs < HIGHER_HEAD_HOLDS_MS) return;
  member.head = { height, atMs };
}

export function isUsable(member: PoolMember): boolean {
  return member.node.healthRecord.identity === 'usable';
}

export function covers({ lowest, endExclusive }: ServedRange, height: number): boolean {
  return (lowest === undefined || height >= lowest) && (endExclusive === undefined || height < endExclusive);
}

/**
 * The heights a node serves: from its own root to where the next known spork begins. `sporkRoots` is ascending. A node
 * whose spork is the latest known, or that does not say which it is of, follows the head.
 */
export function rangeOf(member: PoolMember, sporkRoots: readonly number[]): ServedRange {
  const lowest = lowestOf(member);
  const anchor = anchorOf(member);
  const endExclusive = anchor === undefined ? undefined : sporkRoots.find((root) => root > anchor);
  return { lowest, endExclusive };
}

/** A height of the node's spork: its root, if the node tells it; `undefined` if it tells nothing. */
export function anchorOf(member: PoolMember): number | undefined {
  return member.identity?.sporkRootHeight ?? lowestOf(member);
}

function lowestOf({ identity, refusedBelow }: PoolMember): number | undefined {
  const told = identity?.lowestHeight;
  return refusedBelow > (told ?? 0) ? refusedBelow : told;
}
