import type { BlockHead } from './stored.js';

/**
 * Two neighbouring blocks do not link; nothing was written. Links are checked before blocks are handed out, so a node lied, which
 * showed only after the block was complete or durable above a gap, or when the range beside it was complete.
 */
export class ParentLinkError extends Error {
  override readonly name = 'ParentLinkError';
  /** The upper of the two blocks. */
  readonly height: number;

  constructor({ height, parentId }: BlockHead, lower: BlockHead) {
    super(
      `block ${height} names the parent ${parentId}, but the block below it is ${lower.id}; one of them is not on the finalized chain`,
    );
    this.height = height;
  }
}

/** The range cannot be filled in now: part of it is covered already, an open range overlaps it, or it is not below the live one. */
export class RangeTakenError extends Error {
  override readonly name = 'RangeTakenError';
}
