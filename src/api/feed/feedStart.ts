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
 * Where a stream begins. A height may be asked for before it is indexed, up to the one behind the head: a follower that
 * comes back asks for the height behind its last one, which need not be there yet.
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

/** Behind the last block that a follower has, should it be the one that is indexed; else it is told to go back. */
async function behind({ height, blockId }: SeenBlock, view: IndexView, edges: Edges): Promise<Cursor> {
  const { first, latest } = edges;
  // What is missing between the two would be passed over in silence.
  if (height < first - 1) throw heightOutside(height + 1, view.range);
  if (height > latest) return rewound(latest, view, edges);
  if (height < first || blockId === undefined) return plain(height + 1);
  const { block } = await view.block(height);
  if (block.id === blockId) return plain(height + 1);
  // Nobody keeps what was forgotten: the follower compares the block below with its own, and goes on from there.
  return rewound(height - 1, view, edges);
}

async function rewound(height: number, view: IndexView, edges: Edges): Promise<Cursor> {
  const blockId = await blockIdAt(height, view, edges);
  return { next: height + 1, rewind: { kind: 'rewind', height, blockId } };
}

/** The block below the first one is known as the parent of the first one. */
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
