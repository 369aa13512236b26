import { ok as assert } from 'node:assert/strict';
import { ParentLinkError } from '../../port/ParentLinkError.js';
import type { CommitBatch } from '../../port/RangeStore.js';
import type { BlockHead, SporkRecord, StoreMeta } from '../../port/stored.js';
import { MAX_BLOCKS_ABOVE_WATERMARK, type StoreState } from './StoreBook.js';

/**
 * The state after a commit. The assertions check the batch before it becomes durable. A failed one is a bug and stops the
 * process. Expected errors: `ParentLinkError`.
 */
export function applyCommit<State extends StoreState>(state: State, batch: CommitBatch): State {
  const { damage, latestIndexedHeight: latest } = state;
  const next = batch.latestIndexedHeight;
  assert(damage === undefined, 'what is damaged has not been taken back');
  assert(
    Number.isSafeInteger(next) && next >= latest,
    `the watermark would go from ${latest} down to ${next}`,
  );
  const known = new Map(state.above);
  for (const entry of batch.blocks) {
    const { height, id, parentId } = entry.block;
    assert(height > latest && !known.has(height), `height ${height} is durable already`);
    assert(
      entry.collections.length === entry.block.collectionIds.length &&
        entry.collections.every(({ id: collectionId }, at) => collectionId === entry.block.collectionIds[at]),
      `the collections of height ${height} are not the guaranteed ones`,
    );
    known.set(height, { height, id, parentId });
  }
  const headAt = (height: number): BlockHead | undefined =>
    height === latest ? state.latestBlock : known.get(height);
  const meta = (batch.sporks ?? []).reduce((known, spork) => withSpork(known, spork, latest), state.meta);
  for (const { block } of batch.blocks) {
    checkLink(headAt(block.height - 1), block, meta);
    checkLink(block, headAt(block.height + 1), meta);
  }
  let latestBlock = state.latestBlock;
  for (let height = latest + 1; height <= next; height += 1) {
    latestBlock = known.get(height);
    assert(latestBlock !== undefined, `the watermark would pass height ${height}, which is missing`);
    known.delete(height);
  }
  assert(
    known.size <= MAX_BLOCKS_ABOVE_WATERMARK,
    `more than ${MAX_BLOCKS_ABOVE_WATERMARK} blocks would be above the watermark`,
  );
  return { ...state, meta, latestIndexedHeight: next, latestBlock, above: known };
}

/** Two neighbours, as far as they are known. Expected errors: `ParentLinkError`. */
export function checkLink(
  lower: BlockHead | undefined,
  upper: BlockHead | undefined,
  meta: Pick<StoreMeta, 'sporks'>,
): void {
  if (lower === undefined || upper === undefined) return;
  if (!links(lower, upper, meta)) throw new ParentLinkError(upper, lower);
}

/** False: neither is the lower block the parent of the one above it, nor does the spork table name another. */
export function links(lower: BlockHead, upper: BlockHead, meta: Pick<StoreMeta, 'sporks'>): boolean {
  const { height, parentId } = upper;
  const isConfirmed = ({ rootHeight, rootParentId }: SporkRecord): boolean =>
    rootHeight === height && rootParentId === parentId;
  return parentId === lower.id || meta.sporks.some(isConfirmed);
}

/**
 * Adds a spork in ascending order. A recorded spork changes only to add its id and its root's parent. A later
 * spork may have been recorded first: its root may be above the gap that this one's root is in.
 */
function withSpork(meta: StoreMeta, spork: SporkRecord, latestIndexedHeight: number): StoreMeta {
  const known = meta.sporks.find(({ rootHeight }) => rootHeight === spork.rootHeight);
  if (known !== undefined && (known.sporkId === '' || known.sporkId === spork.sporkId)) {
    const both = { ...spork, ...known, sporkId: spork.sporkId };
    if (both.sporkId === known.sporkId && both.rootParentId === known.rootParentId) return meta;
    return { ...meta, sporks: meta.sporks.map((each) => (each === known ? both : each)) };
  }
  const passed = meta.sporks.findLast(({ rootHeight }) => rootHeight <= latestIndexedHeight);
  assert(
    known === undefined && spork.rootHeight > (passed?.rootHeight ?? -1),
    `the spork of root height ${spork.rootHeight} is not above the one that the watermark is in`,
  );
  const sporks = [...meta.sporks, spork].sort((a, b) => a.rootHeight - b.rootHeight);
  return { ...meta, sporks };
}
