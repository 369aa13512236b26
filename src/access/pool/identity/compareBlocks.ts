import { UpstreamError } from '../../UpstreamError.js';
import type { AccessNode, CallOptions, ReceivedBlock } from '../../types.js';
import type { BlockComparison, BlockName, Expectation } from './nodeIdentity.js';

/**
 * Compares our last block with the node's block of that height; for a node that is behind, its latest block with ours. A
 * block that is not finalized says nothing about the chain.
 */
export async function compareBlocks(
  node: AccessNode,
  asked: {
    readonly expectation: Expectation;
    readonly known: BlockName;
    readonly atWatermark: ReceivedBlock | UpstreamError | undefined;
    readonly headHeight: number | undefined;
    /** See `Inquiry`. */
    readonly isForeign: boolean;
  },
  options: CallOptions,
): Promise<BlockComparison | undefined> {
  const { expectation, known, atWatermark, headHeight, isForeign } = asked;
  let found: BlockComparison | undefined;
  if (isFinalized(atWatermark)) {
    const { height, id: ours } = known;
    found = { height, isWatermark: true, ours, theirs: atWatermark.block.id };
  } else if (headHeight !== undefined && headHeight < known.height) {
    // `undefined` for a height in a hole of the index.
    const stored = await expectation.storedBlock?.(headHeight);
    const received = stored && (await outcomeOf(node.getBlockByHeight(headHeight, options)));
    if (stored !== undefined && isFinalized(received))
      found = { height: headHeight, isWatermark: false, ours: stored.id, theirs: received.block.id };
  }
  if (found === undefined || found.ours === found.theirs || isForeign) return found;
  return { ...found, sharedHeight: await sharedHeight(node, expectation, found.height, options) };
}

function isFinalized(received: ReceivedBlock | UpstreamError | undefined): received is ReceivedBlock {
  return received !== undefined && !(received instanceof UpstreamError) && received.status !== 'unknown';
}

/**
 * The highest block below `differing` that both have, by bisection; `undefined` when there is none, or it cannot be found.
 */
async function sharedHeight(
  node: AccessNode,
  { firstHeight, storedBlock }: Expectation,
  differing: number,
  options: CallOptions,
): Promise<number | undefined> {
  if (firstHeight === undefined) return undefined;
  let shared = firstHeight - 1;
  for (let other = differing; other - shared > 1;) {
    const height = Math.floor((shared + other) / 2);
    const stored = await storedBlock?.(height);
    const received = stored && (await outcomeOf(node.getBlockByHeight(height, options)));
    if (stored === undefined || !isFinalized(received)) return undefined;
    if (stored.id === received.block.id) shared = height;
    else other = height;
  }
  return shared < firstHeight ? undefined : shared;
}

/** The result of a call that may fail. Expected errors: the signal's abort reason. */
export async function outcomeOf<T>(call: Promise<T>): Promise<T | UpstreamError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof UpstreamError) return error;
    throw error;
  }
}
