import type { BlockHead } from '../../storage/index.js';
import type { Cursor, FeedSink, FollowerKind, GivenBlock, RewindEvent } from './feedEvents.js';

/** What a follower wants. */
export interface Following {
  readonly kind: FollowerKind;
  readonly from: Cursor;
  /** `sealed`: a height is sent only once it is known to be sealed. `proven`: once it is proven final. */
  readonly until: 'indexed' | 'sealed' | 'proven';
  /** What to do at a height that is missing below the live range: wait until it is filled in, or end there. Default: end. */
  readonly waits?: boolean;
}

/** What a follower of bodies wants. */
export interface BodiesFollowing extends Pick<Following, 'from' | 'until' | 'waits'> {
  /** The last height, after which the stream ends. Default: it follows the index. */
  readonly to?: number | undefined;
}

/** What to send to a follower next. */
export interface Sending {
  /** Its blocks, from `next` on. */
  readonly blocks: readonly BlockHead[];
  readonly send: (taken: () => void) => void;
}

/** A follower as it begins. */
export interface NewFollower extends Pick<Following, 'kind' | 'until'> {
  readonly waits: boolean;
  /** The last height that is wanted. */
  readonly to: number;
  /** Reads the next event, from `next` on. */
  readonly read: (follower: Follower) => Promise<Sending>;
  readonly end: FeedSink['end'];
  next: number;
  rewind: RewindEvent | undefined;
  last: GivenBlock | undefined;
}

/** A follower and its position. */
export interface Follower extends NewFollower {
  /** The store was rewound: `last` is to be compared with what is indexed now. */
  isDoubted: boolean;
  /** `queued`: its next event, or the comparison, waits to be read. */
  state: 'waiting' | 'queued' | 'sending';
  sentAtMs: number;
}
