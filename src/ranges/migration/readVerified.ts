import { OperatorError } from '../../runtime/index.js';
import { StorageError, verifiedBlock } from '../../storage/index.js';
import type { BlockEntry, BlockHead, IndexReader, SporkRecord } from '../../storage/index.js';

/**
 * A stored block, with every collection hashed again. Expected errors: `StorageError`; OperatorError `damage`, with
 * the height.
 */
export async function readVerified(reader: IndexReader, height: number): Promise<BlockEntry> {
  try {
    const whole = await reader.wholeBlock(height);
    if (whole === undefined) throw damaged(height, 'it is in the coverage, but missing');
    const { block, collections } = whole;
    if (block.height !== height) throw damaged(height, `its block has height ${block.height}`);
    return verifiedBlock(
      block,
      collections.map(({ encoded }) => encoded),
    );
  } catch (error) {
    if (error instanceof StorageError && error.kind === 'corrupt')
      throw damaged(height, error.damage ?? error.message, error);
    throw error;
  }
}

/** Expected errors: OperatorError `damage`. */
export function checkLinked(
  below: BlockHead | undefined,
  block: BlockHead,
  sporks: readonly SporkRecord[],
): void {
  if (below === undefined || below.height !== block.height - 1 || below.id === block.parentId) return;
  const isVouched = sporks.some(
    ({ rootHeight, rootParentId }) => rootHeight === block.height && rootParentId === block.parentId,
  );
  if (!isVouched) throw damaged(block.height, `its parent is not the block of height ${below.height}`);
}

function damaged(height: number, what: string, cause?: Error): OperatorError {
  return new OperatorError(
    'damage',
    `Height ${height} of the source is damaged: ${what}. Everything before it is copied. Run "verify" to find all damage; ` +
      'once the daemon has fetched those heights again, the same command continues.',
    { cause },
  );
}
