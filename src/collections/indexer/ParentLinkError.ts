/**
 * Two neighbouring blocks do not link: one of them is not on the chain. Blocks are checked for links before they are
 * handed out, so a node lied, and was found out only after the block was complete or durable above a gap. When this is
 * thrown, everything above the watermark has been deleted, so that a restart begins with a clean chain.
 */
export class ParentLinkError extends Error {
  override readonly name = 'ParentLinkError';
  /** The upper of the two. */
  readonly height: number;

  constructor(upper: { height: number; parentId: string }, lowerId: string) {
    super(
      `block ${upper.height} names the parent ${upper.parentId}, but the block below it is ${lowerId}; ` +
        'one of them is not on the finalized chain',
    );
    this.height = upper.height;
  }
}
