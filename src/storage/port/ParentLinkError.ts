import type { BlockHead } from './stored.js';

/** One of two neighbouring blocks is not on the chain. Nothing was written. */
abstract class LinkError extends Error {
  /** The upper of the two blocks. */
  readonly height: number;

  constructor(
    upper: Pick<BlockHead, 'height' | 'parentId'>,
    lower: Pick<BlockHead, 'id'>,
    conclusion: string,
  ) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lower.id}${conclusion}`,
    );
    this.height = upper.height;
  }
}

/** A complete range does not link to the covered block next to it. */
export class BorderError extends LinkError {
  override readonly name = 'BorderError';

  constructor(upper: Pick<BlockHead, 'height' | 'parentId'>, lower: Pick<BlockHead, 'id'>) {
    super(upper, lower, ': the range does not link to its neighbour');
  }
}

/**
 * Two neighbouring blocks of a run do not link. Blocks are checked for links before they are handed out, so a node lied,
 * and was found out only after the block was complete or durable above a gap.
 */
export class ParentLinkError extends LinkError {
  override readonly name = 'ParentLinkError';

  constructor(upper: BlockHead, lower: BlockHead) {
    super(upper, lower, '; one of them is not on the finalized chain');
  }
}

/** The range cannot be filled in now: part of it is covered already, an open range overlaps it, or it is not below the live one. */
export class RangeTakenError extends Error {
  override readonly name = 'RangeTakenError';
}
