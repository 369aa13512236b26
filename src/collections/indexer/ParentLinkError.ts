/**
 * Two neighbouring blocks do not link: one of them is not on the chain. Blocks are linked before they are handed out,
 * so a block that was complete, or durable above a gap, before its node was found out came from a lie. When this is
 * thrown, everything durable above the watermark has been deleted, so that a restart begins with a clean chain.
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
