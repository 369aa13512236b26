import type { Identifier } from '../../flow/index.js';
import { heightOutside, nothingIndexed } from '../view/ApiError.js';
import type { IndexView } from '../view/IndexView.js';
import type { Cursor } from './feedEvents.js';

/** The last block that a follower has; without an id only the height is compared. */
interface SeenBlock {
  readonly height: number;
  readonly blockId: Identifier | undefined;
}

/** Where a follower wants to begin. */
export type StartPoint =
  | { readonly height: number }
  | { readonly blockId: Identifier }
  | { readonly lastSeen: SeenBlock }
  /** The newest indexed block that is known to be sealed. */
  | 'sealed'
  /** The next height that will be indexed. */
  | 'next';

interface Edges {
  readonly first: number;
  readonly latest: number;
}

/**
 * The starting point of a stream. A height may be requested before it is indexed, up to the one after the head: a
 * returning follower asks for the height after its last one, which may not be there yet.
 *
 * Expected errors: ApiError (not_yet_indexed, below_first_indexed, unknown_id), `StorageError`.
 */
export async function cursorAt(point: StartPoint, view: IndexView): Promise<Cursor> {
  const { firstIndexed: first, latestIndexed: latest, head } = view.range;
  if (first === null || latest === null) throw nothingIndexed(view.range);
  if (point === 'next') return plain(latest + 1);
  if (point === 'sealed') return plain(view.head('sealed'));
  if ('blockId' in point) return plain((await view.block(point.blockId)).block.height);
  if ('lastSeen' in point) return behind(point.lastSeen, view, { first, latest });
  const { height } = point;
  if (height < first || height > Math.max(latest, head ?? 0) + 1) throw heightOutside(height, view.range);
  return plain(height);
}

/** After the last block that a follower has, if that is the indexed one; otherwise it is sent back. */
async function behind({ height, blockId }: SeenBlock, view: IndexView, edges: Edges): Promise<Cursor> {
  const { first, latest } = edges;
  // The gap between the two would be skipped silently.
  if (height < first - 1) throw heightOutside(height + 1, view.range);
  if (height > latest) return rewound(latest, view, edges);
  if (height < first || blockId === undefined) return plain(height + 1);
  const { block } = await view.block(height);
  if (block.id === blockId) return plain(height + 1);
  // The discarded blocks are gone: the follower compares the block below with its own, and continues from there.
  return rewound(height - 1, view, edges);
}

async function rewound(height: number, view: IndexView, edges: Edges): Promise<Cursor> {
  const blockId = await blockIdAt(height, view, edges);
  return { next: height + 1, rewind: { kind: 'rewind', height, blockId } };
}

/** The block below the first one is known as its parent. */
async function blockIdAt(
  height: number,
  view: IndexView,
  { first, latest }: Edges,
): Promise<Identifier | undefined> {
  if (latest < first) return undefined;
  const { block } = await view.block(Math.max(height, first));
  return height < first ? block.parentId : block.id;
}

function plain(next: number): Cursor {
  return { next, rewind: undefined };
}
