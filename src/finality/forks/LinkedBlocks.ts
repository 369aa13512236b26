import type { BlockSource } from '../../access/index.js';
import { isSameBlock, type FinalizedBlock, type Identifier } from '../../flow/index.js';
import type { ChainDependencies, LinkedHeight } from '../ports.js';
import type { BlockHead } from '../../storage/index.js';

/** A spork whose root block names a parent of its own. */
export interface RootParent {
  readonly rootHeight: number;
  readonly rootParentId: Identifier;
  /** False when the parent is known not to be the block that nodes have below the root. Default true. */
  readonly rootParentIsBelow?: boolean;
}

type Parts = Pick<ChainDependencies, 'window' | 'latestBlock'>;

/**
 * The blocks above the watermark that link to it, parent by parent, without a gap. Holds two heights; the blocks
 * themselves are in the records of the heights.
 */
export class LinkedBlocks {
  readonly #rootParents: ReadonlyMap<number, Identifier>;
  /** By height: the only block that is accepted there. */
  readonly #confirmed: ReadonlyMap<number, Identifier>;
  readonly #parts: Parts;
  #base: number;
  #next: number;

  constructor(sporkRoots: readonly RootParent[], parts: Parts) {
    this.#parts = parts;
    this.#rootParents = new Map(sporkRoots.map((root) => [root.rootHeight, root.rootParentId]));
    this.#confirmed = new Map(
      sporkRoots
        .filter(({ rootParentIsBelow = true }) => rootParentIsBelow)
        .map(({ rootHeight, rootParentId }) => [rootHeight - 1, rootParentId]),
    );
    this.#base = this.#parts.window.latestIndexedHeight();
    this.#next = this.#base + 1;
  }

  /** The lowest height that is not linked yet. */
  get next(): number {
    return this.#next;
  }

  at(height: number): LinkedHeight | undefined {
    return height > this.#base && height < this.#next ? this.#parts.window.at(height) : undefined;
  }

  /** The id of the last block of a spork, if the root of the next spork names it. */
  confirmedAt(height: number): Identifier | undefined {
    return this.#confirmed.get(height);
  }

  /** False when the spork table confirms another block at this height. */
  isAcceptable({ height, id }: BlockHead): boolean {
    return (this.#confirmed.get(height) ?? id) === id;
  }

  /** True when the block links at `next`. */
  links(block: FinalizedBlock): boolean {
    this.prune();
    const tip: BlockHead | undefined = this.at(this.#next - 1)?.block ?? this.#parts.latestBlock();
    return block.height === this.#next && this.isAcceptable(block) && this.#follows(block, tip);
  }

  #follows(block: FinalizedBlock, tip: BlockHead | undefined): boolean {
    return (
      tip === undefined || block.parentId === tip.id || block.parentId === this.#rootParents.get(block.height)
    );
  }

  /** Appends a block that links. False when another block was handed out at its height: this one must replace it. */
  append(block: FinalizedBlock, blockSource: BlockSource): boolean {
    if (!this.links(block)) throw new Error(`block ${block.height} does not link`);
    this.#next = block.height + 1;
    return isSameBlock(this.#parts.window.link(block, blockSource).block, block);
  }

  /** Removes every block from `height` on. */
  takeBack(height: number): void {
    for (let above = height; above < this.#next; above += 1) this.#parts.window.unlink(above);
    this.#next = Math.min(this.#next, height);
  }

  /**
   * Drops the blocks that the watermark has passed. If those above do not follow it (it passed blocks that an earlier run
   * had made durable), removes all of them.
   */
  prune(): void {
    const watermark = this.#parts.window.latestIndexedHeight();
    if (watermark <= this.#base) return;
    this.#base = watermark;
    this.#next = Math.max(this.#next, watermark + 1);
    const above = this.at(watermark + 1)?.block;
    if (above !== undefined && !this.#follows(above, this.#parts.latestBlock())) this.takeBack(watermark + 1);
  }
}
