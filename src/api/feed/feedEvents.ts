import type { Identifier } from '../../flow/index.js';
import type { StoredBlock } from '../../storage/index.js';

/** By which interface a follower reads the feed: the `kind` of the feed's metrics. */
export const followerKinds = [
  ...(['blocks', 'digests', 'indexed_heights', 'events'] as const),
  ...(['ws_blocks', 'ws_digests'] as const),
] as const;
export type FollowerKind = (typeof followerKinds)[number];

/** A height can be read now. */
export interface HeightEvent {
  readonly kind: 'height';
  readonly stored: StoredBlock;
  /** Known to be sealed when this was read. */
  readonly isSealed: boolean;
}

/** What the follower has above `height` is not what is indexed. */
export interface RewindEvent {
  readonly kind: 'rewind';
  readonly height: number;
  /** Of the block that is indexed at `height`; `undefined` where none is known. */
  readonly blockId: Identifier | undefined;
}

export type FeedEvent = HeightEvent | RewindEvent;

/** Where a follower stands. */
export interface Cursor {
  /** The next height to send. */
  readonly next: number;
  /** What is to be told before it. */
  readonly rewind: RewindEvent | undefined;
}

/** The other end of a follower's stream. */
export interface FeedSink {
  /** Sends an event; `taken` is to be called once the transport has passed it on. Until then no further one comes. */
  send(event: FeedEvent, taken: () => void): void;
  /**
   * The stream is over: an ApiError that the caller is told, the StorageError of a read, or anything else, which is a bug. May
   * come after the caller has gone.
   */
  end(reason: unknown): void;
}

/** The block of an event of a stream that begins where it is told to, and so never has to take anything back. */
export function storedOf(event: FeedEvent): StoredBlock {
  if (event.kind === 'height') return event.stored;
  throw new Error('a rewind for a stream that told of nothing seen');
}
