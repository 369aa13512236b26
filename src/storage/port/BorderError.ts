import type { BlockHead } from './stored.js';

/**
 * A complete range does not link to the covered block next to it: one of the two is not on the chain. Nothing was
 * written.
 */
export class BorderError extends Error {
  override readonly name = 'BorderError';
  /** The upper of the two blocks. */
  readonly height: number;

  constructor(upper: Pick<BlockHead, 'height' | 'parentId'>, lower: Pick<BlockHead, 'id'>) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lower.id}: ` +
        'the range does not link to its neighbour',
    );
    this.height = upper.height;
  }
}
