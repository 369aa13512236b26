import type { NodeHealth } from '../../access/index.js';
import type { ReadinessReason } from '../../observability/index.js';

/** The readable heights, and the heads beyond them. `null`: not known yet. */
export interface IndexedRange {
  readonly firstIndexed: number | null;
  /** The watermark; `firstIndexed - 1` while nothing is indexed. */
  readonly latestIndexed: number | null;
  readonly head: number | null;
  readonly sealed: number | null;
}

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
  readonly ready: boolean;
  readonly reasons: readonly ReadinessReason[];
  readonly uptimeSeconds: number;
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
