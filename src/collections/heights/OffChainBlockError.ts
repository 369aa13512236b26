/**
 * The current block of a height, or the one stored above the watermark, is not on the chain: it came from a node that
 * lied, or that belonged to another chain.
 */
export class OffChainBlockError extends Error {
  override readonly name = 'OffChainBlockError';
  readonly height: number;

  constructor(height: number) {
    super(`the block in hand at height ${height} is not what the chain has there`);
    this.height = height;
  }
}
