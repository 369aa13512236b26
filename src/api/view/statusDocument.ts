import type { NodeHealth } from '../../access/index.js';
import type { ReadinessReason } from '../../observability/index.js';
import type { HeightRange } from '../../storage/index.js';

/** The readable heights, and the heads beyond them. `null`: not known yet. */
export interface IndexedRange {
  /** The first height of the live range, which ends at `latestIndexed` and has no holes. */
  readonly firstIndexed: number | null;
  /** The watermark; `firstIndexed - 1` while nothing is indexed. */
  readonly latestIndexed: number | null;
  readonly head: number | null;
  readonly sealed: number | null;
  /** Everything that can be read: ascending ranges that do not touch. Left out: the live range is all. */
  readonly coverage?: readonly HeightRange[];
}

/** The ranges that can be read, ascending. */
export function coverageOf(range: IndexedRange): readonly HeightRange[] {
  const latest = lastReadable(range);
  if (range.coverage !== undefined) return range.coverage;
  return range.firstIndexed === null || latest === null ? [] : [{ from: range.firstIndexed, to: latest }];
}

/** The range that a height is in, if it can be read. */
export function rangeWith(height: number, range: IndexedRange): HeightRange | undefined {
  return coverageOf(range).find(({ from, to }) => height >= from && height <= to);
}

/** Ranges that one answer names at most: those next to the height that was asked for. */
export const MAX_RANGES_TOLD = 16;

/**
 * The last readable height, as shown to callers: `null` while nothing is indexed, whatever represents that internally.
 * An empty store that begins at height 0 ends at -1, which is no height.
 */
export function lastReadable({
  firstIndexed,
  latestIndexed,
}: Pick<IndexedRange, 'firstIndexed' | 'latestIndexed'>): number | null {
  return firstIndexed !== null && latestIndexed !== null && latestIndexed >= firstIndexed
    ? latestIndexed
    : null;
}

/** The body of `/status`. Rates are per second, ages and times are seconds; `null` means: not known (yet). */
export interface StatusDocument extends IndexedRange {
  /** `null` while nothing is indexed. */
  readonly latestIndexed: number | null;
  readonly coverage: readonly HeightRange[];
  readonly network: string;
  readonly chainId: string;
  readonly version: string;
  /** Distinguishes this process from any other that may listen at its address. */
  readonly instance: string;
  /** Heights behind the head; `null` while no node confirms the head. */
  readonly lag: number | null;
  /** Since the head moved. */
  readonly headAgeSeconds: number | null;
  /** Since any node reported the head, moved or not. */
  readonly headConfirmedSeconds: number | null;
  /** Heights that became durable per second, over the last half minute. */
  readonly rate: number;
  /** Seconds until the head is reached; `null` while the gap does not close. */
  readonly eta: number | null;
  readonly window: {
    /** K. */
    readonly heights: number;
    /** The highest height that may be worked on now. */
    readonly upperBound: number | null;
    /** Heights handed out and not yet durable. */
    readonly inFlight: number;
    readonly bytesInFlight: number;
    readonly bytesLimit: number;
  };
  readonly sources: {
    readonly requester: {
      /**
       * `off` with `ediOnly`. `waiting`: collections are missing, and no call may be sent now; `waitingFor` says why.
       */
      readonly state: 'off' | 'idle' | 'waiting' | 'asking';
      /** Collection calls under way. */
      readonly inFlight: number;
      /** Collection ids wanted and not received. */
      readonly missing: number;
    };
    readonly edi: {
      /** `paused`: ahead of the window. `unavailable`: no node serves the stream now. */
      readonly state: 'off' | 'connecting' | 'following' | 'paused' | 'unavailable';
      readonly endpoint: string | null;
      /** The last height that the stream delivered. */
      readonly height: number | null;
      /** Since the stream delivered. */
      readonly ageSeconds: number | null;
      /** Why it does not deliver; `null` while nothing is wrong with it. */
      readonly reason: string | null;
    };
  };
  readonly endpoints: readonly EndpointStatus[];
  /** What the lowest unindexed height waits for, and why that does not come; `null` when all is indexed. */
  readonly waitingFor: {
    readonly height: number;
    readonly message: string;
    /** Since the watermark moved. */
    readonly ageSeconds: number;
  } | null;
  /** The lowest height that waits for its collections; `null` when none does. */
  readonly oldestMissing: {
    readonly height: number;
    /** Ids of this height that are not received. */
    readonly missing: number;
    readonly ageSeconds: number;
  } | null;
  /** The index of each account's transactions. */
  readonly accountIndex: {
    /** `building`: heights from before it was switched on are missing. `stopped`: one of those is damaged. */
    readonly state: 'off' | 'building' | 'stopped' | 'complete';
    /** It covers all heights from here to `latestIndexed`. */
    readonly coveredFrom: number | null;
    /** Heights below that it still has to index. */
    readonly missingHeights: number | null;
  };
  /** History that is filled in below the live range. */
  readonly backfill: BackfillStatus;
  readonly ready: boolean;
  readonly reasons: readonly ReadinessReason[];
  readonly uptimeSeconds: number;
}

/** Rates are per second, times are seconds. */
export interface BackfillStatus {
  /** Planned heights that are not durable yet. */
  readonly missingHeights: number;
  /** Heights of history that became durable per second, over the last half minute. */
  readonly rate: number;
  /** Until everything planned is filled; `null` while nothing moves. */
  readonly eta: number | null;
  readonly plans: readonly BackfillPlanStatus[];
  /** Ranges that were begun and cannot be read yet. */
  readonly ranges: readonly BackfillRangeStatus[];
  /** Planned heights that no access node is known to serve. */
  readonly unserved: readonly HeightRange[];
}

export interface BackfillPlanStatus extends HeightRange {
  readonly id: number;
  readonly order: 'newest' | 'oldest';
  readonly state: 'active' | 'paused';
  readonly missingHeights: number;
}

export interface BackfillRangeStatus extends HeightRange {
  readonly state: 'waiting' | 'running' | 'failed' | 'disputed';
  /** The lowest height that is missing. */
  readonly next: number;
  readonly rate: number;
  readonly eta: number | null;
  /** Runs that failed in a row, and why the last one did. */
  readonly failures: number;
  readonly reason: string | null;
  /** What its lowest missing height waits for, when it has not come for a while. */
  readonly waitingFor: {
    readonly height: number;
    readonly message: string;
    readonly ageSeconds: number;
  } | null;
}

export interface EndpointStatus {
  /** `host:port`. */
  readonly name: string;
  readonly state: NodeHealth;
  /** Why it is not healthy, in the node's own words if it gave any. */
  readonly reason: string | null;
  /** Since the first of the faults for which it is failing or penalized. */
  readonly sinceSeconds: number | null;
  /** Its calls that are asked last, or not at all while there is another way. */
  readonly calls: readonly CallStatus[];
}

/** One call to one node that is not healthy. */
export interface CallStatus {
  readonly method: string;
  readonly state: 'failing' | 'set_aside';
  readonly reason: string;
  /** Faults in a row. */
  readonly count: number;
  readonly sinceSeconds: number;
}

/** What the servers ask the daemon. */
export interface StatusSource {
  /** Expected errors: ApiError (`indexer_silent`) where the thread that indexes does not tell in time. */
  status(): StatusDocument | Promise<StatusDocument>;
  /** The part of the status that each lookup needs. At hand: no waiting, no store, no network. */
  range(): IndexedRange;
}
