import type { Identifier } from '../../flow/index.js';
import type { StoredBlock, WholeBlock } from '../../storage/index.js';
import { heightOutside, nothingIndexed } from '../view/ApiError.js';
import { awaitsProof } from '../view/indexedRange.js';
import type { IndexView } from '../view/IndexView.js';

/** The interface by which a follower reads the feed: the `kind` of the feed's metrics. */
export const followerKinds = [
  ...(['blocks', 'headers', 'digests', 'indexed_heights', 'indexed_blocks', 'events'] as const),
  ...(['ws_blocks', 'ws_headers', 'ws_digests'] as const),
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

/** A block that a follower has. */
export interface GivenBlock {
  readonly height: number;
  readonly id: Identifier;
}

export interface Cursor {
  /** The next height to send. */
  readonly next: number;
  /** Sent before the next height. */
  readonly rewind?: RewindEvent | undefined;
  /** The block below `next`, where the follower is known to have it. */
  readonly last?: GivenBlock | undefined;
}

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
  readonly send: (event: E, taken: () => void) => void;
  /**
   * Ends the stream: without a reason after the last wanted height, else with an ApiError for the caller, the StorageError of a
   * read, or anything else, which is a bug. May be called after the caller has left.
   */
  readonly end: (reason?: unknown) => void;
}

/** The callback of a write, which calls `taken` if it succeeded. A failed write ends the stream, so no next event is due. */
export function whenTaken(taken: () => void): (error: unknown) => void {
  return (error) => {
    if (error === null || error === undefined) taken();
  };
}

/** The last block that a follower has; without an id only the height is compared. */
type SeenBlock = Pick<RewindEvent, 'height' | 'blockId'>;

/** Where a follower wants to begin. */
export type StartPoint =
  | { readonly height: number }
  | { readonly blockId: Identifier }
  | { readonly lastSeen: SeenBlock }
  /** The newest indexed block that is known to be sealed. */
  | 'sealed'
  /** The next height that will be indexed. */
  | 'next';

/**
 * The starting point of a stream. A height may be requested before it is indexed, up to the one after the head: a
 * returning follower asks for the height after its last one, which may not be there yet.
 *
 * Expected errors: ApiError (not_yet_indexed, below_first_indexed, hole, unknown_id), `StorageError`. With `waits`, a height
 * below the live range may be missing: the stream waits for it.
 */
export async function cursorAt(point: StartPoint, view: IndexView, { waits = false } = {}): Promise<Cursor> {
  const { awaitsProof: unread = [], firstIndexed: first, latestIndexed: latest, head } = view.range;
  if (first === null || latest === null) throw nothingIndexed(view.range);
  // While nothing is known to be proven, as right after a start: after all heights that may be soon.
  if (point === 'next') return { next: ((latest < first ? unread.at(-1)?.to : undefined) ?? latest) + 1 };
  if (point === 'sealed') return { next: view.head('sealed') };
  if ('blockId' in point) return { next: (await view.block(point.blockId)).block.height };
  if ('lastSeen' in point) return after(point.lastSeen, view, { latest, waits });
  const { height } = point;
  const isMissing = height <= latest && !waits && !view.covers(height);
  if (isMissing || height > Math.max(latest, head ?? 0) + 1) throw heightOutside(height, view.range);
  return { next: height };
}

/** After the last block that a follower has, if it is the indexed one; otherwise with a rewind. */
async function after(
  { height, blockId }: SeenBlock,
  view: IndexView,
  { latest, waits }: { readonly latest: number; readonly waits: boolean },
): Promise<Cursor> {
  const next = height + 1;
  const last = blockId && { height, id: blockId };
  // Still there, but not proven yet: whether it is the same block shows when the one above can be read.
  if (height > latest) return awaitsProof(height, view.range) ? { next, last } : rewound(latest, view);
  if (!view.covers(height)) {
    // A missing height would be skipped silently.
    if (next <= latest && !view.covers(next) && !waits) throw heightOutside(next, view.range);
    const known = blockId && (await blockIdAt(height, view));
    return known === blockId || known === undefined ? { next } : rewound(height, view);
  }
  if (blockId === undefined) return { next };
  const { block } = await view.block(height);
  // The discarded blocks are gone: the follower compares the block below with its own, and continues from there.
  return block.id === blockId ? { next, last } : rewound(height - 1, view);
}

async function rewound(height: number, view: IndexView): Promise<Cursor> {
  const blockId = await blockIdAt(height, view);
  const last = blockId && { height, id: blockId };
  return { next: height + 1, rewind: { kind: 'rewind', height, blockId }, last };
}

/** The block below the first one of a range is known as its parent; there is none below height 0. */
async function blockIdAt(height: number, view: IndexView): Promise<Identifier | undefined> {
  if (view.covers(height)) return (await view.block(height)).block.id;
  if (height < 0 || !view.covers(height + 1)) return undefined;
  return (await view.block(height + 1)).block.parentId;
}
