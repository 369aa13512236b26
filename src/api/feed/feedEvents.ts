import type { Identifier } from '../../flow/index.js';
import type { StoredBlock, WholeBlock } from '../../storage/index.js';

/** The interface by which a follower reads the feed: the `kind` of the feed's metrics. */
export const followerKinds = [
  ...(['blocks', 'headers', 'digests', 'indexed_heights', 'indexed_blocks', 'events'] as const),
  ...(['ws_blocks', 'ws_digests'] as const),
] as const;
type FollowerKind = (typeof followerKinds)[number];

/** A height became readable. */
export interface HeightEvent {
  readonly kind: 'height';
  readonly stored: StoredBlock;
  /** Known to be sealed when this was read. */
  readonly isSealed: boolean;
  /** Known to be proven final when this was read. */
  readonly isProven: boolean;
}

/** A block with its bodies, and whether it was known to be proven final when it was read. */
export type ProvenBlock = WholeBlock & Pick<HeightEvent, 'isProven'>;

/** The follower's blocks above `height` differ from the indexed ones. */
export interface RewindEvent {
  readonly kind: 'rewind';
  readonly height: number;
  /** The block indexed at `height`; `undefined` where none is known. */
  readonly blockId: Identifier | undefined;
}

export type FeedEvent = HeightEvent | RewindEvent;

/** A block as a follower has it. */
export interface GivenBlock {
  readonly height: number;
  readonly id: Identifier;
}

/** The position of a follower. */
export interface Cursor {
  /** The next height to send. */
  readonly next: number;
  /** Sent before the next height. */
  readonly rewind: RewindEvent | undefined;
  /** The block below `next`, where the follower is known to have it. */
  readonly last: GivenBlock | undefined;
}

/** What a follower wants. */
export interface Following {
  readonly kind: FollowerKind;
  readonly from: Cursor;
  /** The last height, after which the stream ends. Default: it follows the index. */
  readonly to?: number | undefined;
  /** `sealed`: a height is sent only once it is known to be sealed. `proven`: once it is proven final. */
  readonly until: 'indexed' | 'sealed' | 'proven';
  /** What to do at a height that is missing below the live range: wait until it is filled in, or end there. Default: end. */
  readonly waits?: boolean;
}

/** The receiving end of a follower's stream. */
export interface FeedSink<E = FeedEvent> {
  /** Sends an event. `taken` must be called once the transport has passed it on; no further event comes before that. */
  send(event: E, taken: () => void): void;
  /**
   * Ends the stream: without a reason after the last wanted height, else with an ApiError for the caller, the StorageError of a
   * read, or anything else, which is a bug. May be called after the caller has left.
   */
  end(reason?: unknown): void;
}

/** An event of a stream that follows no earlier one, and so never rewinds. */
export function heightEventOf(event: FeedEvent): HeightEvent {
  if (event.kind === 'height') return event;
  throw new Error('a rewind for a stream that continues no earlier one');
}
