import type { BlockHead } from '../../storage/index.js';

/**
 * The current block of a height, or the one stored above the watermark, is not on the chain: it came from a node that
 * lied, or that belonged to another chain.
 */
export class OffChainBlockError extends Error {
  override readonly name = 'OffChainBlockError';
  readonly height: number;

  constructor({ height, id }: Pick<BlockHead, 'height' | 'id'>, heldId: string) {
    const other = id === heldId ? 'that block with other guarantees' : `block ${id}`;
    super(`block ${heldId} is held at height ${height}, where the chain has ${other}`);
    this.height = height;
  }
}
