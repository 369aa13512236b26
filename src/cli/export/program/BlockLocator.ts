/** A block that the program was given. */
export interface BlockRef {
  readonly height: number;
  readonly block_id: string;
}

/** The newest blocks, all of which are kept. */
const NEWEST = 16;
/** Below them, a gap may be this share of the distance to the newest. */
const WIDEST_GAP = 1 / 4;

/**
 * Some of the blocks that the program was given, newest first, with growing gaps: about sixty for a whole chain. The oldest is
 * always kept. They show how far to go back after the index was rewound.
 */
export class BlockLocator {
  #blocks: readonly BlockRef[];

  constructor(blocks: readonly BlockRef[] = []) {
    this.#blocks = blocks;
  }

  get blocks(): readonly BlockRef[] {
    return this.#blocks;
  }

  get newest(): BlockRef | undefined {
    return this.#blocks[0];
  }

  add(block: BlockRef): void {
    const all = [block, ...this.#blocks];
    const kept: BlockRef[] = [];
    for (const [index, each] of all.entries()) {
      const above = kept.at(-1);
      const below = all[index + 1];
      const isSpare =
        index >= NEWEST &&
        above !== undefined &&
        below !== undefined &&
        above.height - below.height <= WIDEST_GAP * (block.height - below.height);
      if (!isSpare) kept.push(each);
    }
    this.#blocks = kept;
  }

  /** Forgets what is above a height. */
  cut(height: number): void {
    this.#blocks = this.#blocks.filter((each) => each.height <= height);
  }
}
