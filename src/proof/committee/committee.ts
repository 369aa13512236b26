import type { Identifier } from '../../flow/index.js';

/** Who signs the certificates of an epoch. Plain data: it can be stored and sent to another thread. */
export interface Committee {
  /** The epoch's counter. */
  readonly epoch: number;
  /** Ascending by node id. */
  readonly members: readonly CommitteeMember[];
  /** Key of the random beacon, 192 hex digits. Without it, beacon signatures are not checked. */
  readonly beaconKey?: string;
}

export interface CommitteeMember {
  readonly nodeId: Identifier;
  /** BLS key, 192 hex digits, as Flow writes it. */
  readonly stakingKey: string;
  /** A positive integer. */
  readonly weight: number;
}

/** The sum of all weights; a safe integer, as `setupOf` checks. */
export function weightOf(committee: Committee): number {
  return committee.members.reduce((sum, { weight }) => sum + weight, 0);
}

/** The weight that a certificate needs: more than two thirds. */
export function thresholdOf(totalWeight: number): number {
  return 2 * Math.floor(totalWeight / 3) + Math.max(1, totalWeight % 3);
}

/** An epoch that is committed. `finalView` includes its extensions. */
export interface KnownEpoch {
  readonly firstView: number;
  readonly finalView: number;
  readonly committee: Committee;
}

/** The epochs that the protocol state of a block knows. Plain data. */
export interface EpochState {
  readonly previous?: KnownEpoch | undefined;
  readonly current: KnownEpoch;
  readonly next?: KnownEpoch | undefined;
}

/** Who signs, by view, in the epochs that a protocol state knows, and in no others. */
export function committeesIn({ previous, current, next }: EpochState) {
  return (view: number): Committee | undefined =>
    [next, current, previous].find(
      (epoch) => epoch !== undefined && view >= epoch.firstView && view <= epoch.finalView,
    )?.committee;
}

/** The last view whose committee is known. */
export function lastViewOf({ current, next }: EpochState): number {
  return (next ?? current).finalView;
}
