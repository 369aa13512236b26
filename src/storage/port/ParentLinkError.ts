import type { BlockHead } from './stored.js';

/**
 * Two neighbouring blocks of a run do not link: one of them is not on the chain. Blocks are checked for links before they
 * are handed out, so a node lied, and was found out only after the block was complete or durable above a gap. Nothing was
 * written.
 */
export class ParentLinkError extends Error {
  override readonly name = 'ParentLinkError';
  /** The upper of the two. */
  readonly height: number;

  constructor(upper: BlockHead, lower: BlockHead) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lower.id}; ` +
        'one of them is not on the finalized chain',
    );
    this.height = upper.height;
  }
}
