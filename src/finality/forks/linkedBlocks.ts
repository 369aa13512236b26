import type { BlockSource, SporkTable } from '../../access/index.js';
import { isSameBlock, type FinalizedBlock, type Identifier } from '../../flow/index.js';
import type { ChainDependencies, LinkedHeight } from '../ports.js';
import type { BlockHead } from '../../storage/index.js';

/** Where a spork begins, and the parent of its root block. */
export type RootParent = Pick<SporkTable[number], 'rootHeight' | 'rootParentId' | 'rootParentIsBelow'>;

export type LinkedBlocks = ReturnType<typeof linkedBlocks>;

/**
 * The blocks above the watermark that link to it, parent by parent, without a gap. Holds one height; the blocks
 * themselves are in the records of the heights.
 */
export function linkedBlocks(
  sporkRoots: readonly RootParent[],
  { latestBlock, window }: Pick<ChainDependencies, 'window' | 'latestBlock'>,
) {
  const rootParents = new Map<number, Identifier>();
  /** By height: the only block that is accepted there. */
  const confirmed = new Map<number, Identifier>();
  for (const { rootHeight, rootParentId, rootParentIsBelow = true } of sporkRoots) {
    if (rootParentId === undefined) continue;
    rootParents.set(rootHeight, rootParentId);
    if (rootParentIsBelow) confirmed.set(rootHeight - 1, rootParentId);
  }
  let next = window.latestIndexedHeight() + 1;

  const at = (height: number): LinkedHeight | undefined =>
    height > window.latestIndexedHeight() && height < next ? window.at(height) : undefined;
  /** False when the spork table confirms another block at this height. */
  const isAcceptable = ({ height, id }: BlockHead): boolean => (confirmed.get(height) ?? id) === id;
  const follows = ({ height, parentId }: FinalizedBlock, tip: BlockHead | undefined): boolean =>
    tip === undefined || parentId === tip.id || parentId === rootParents.get(height);
  /** True when the block links at `next`. */
  const links = (block: FinalizedBlock): boolean => {
    prune();
    const tip = at(next - 1)?.block ?? latestBlock();
    return block.height === next && isAcceptable(block) && follows(block, tip);
  };
  /** Removes every block from `height` on. */
  const takeBack = (height: number): void => {
    for (let above = height; above < next; above += 1) window.unlink(above);
    next = Math.min(next, height);
  };
  /**
   * Drops the blocks that the watermark has passed. If those above do not follow it (it passed blocks that an earlier run
   * had made durable), removes all of them.
   */
  const prune = (): void => {
    const watermark = window.latestIndexedHeight();
    next = Math.max(next, watermark + 1);
    const above = at(watermark + 1)?.block;
    if (above !== undefined && !follows(above, latestBlock())) takeBack(watermark + 1);
  };
  return {
    /** The lowest height that is not linked yet. */
    get next(): number {
      return next;
    },
    at,
    /** The id of the last block of a spork, if the root of the next spork names it. */
    confirmedAt: (height: number): Identifier | undefined => confirmed.get(height),
    isAcceptable,
    links,
    /** Appends a block that links. False when another block was handed out at its height: this one must replace it. */
    append: (block: FinalizedBlock, blockSource: BlockSource): boolean => {
      if (!links(block)) throw new Error(`block ${block.height} does not link`);
      next = block.height + 1;
      return isSameBlock(window.link(block, blockSource).block, block);
    },
    takeBack,
    prune,
  };
}
