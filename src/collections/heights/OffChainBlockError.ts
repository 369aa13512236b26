import type { BlockHead } from '../../storage/index.js';

/**
 * The block in hand, or durable above the watermark, is another one than the chain has: it came from a node that lied, or was
 * of another chain.
 */
export class OffChainBlockError extends Error {
  override readonly name = 'OffChainBlockError';
  readonly height: number;

  constructor({ height, id }: Pick<BlockHead, 'height' | 'id'>, heldId: string) {
    super(`block ${heldId} is held at height ${height}, where the chain has block ${id}`);
    this.height = height;
  }
}
