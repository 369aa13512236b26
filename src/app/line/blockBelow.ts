import { UpstreamError } from '../../access/index.js';
import type { AccessNodes } from '../../access/index.js';
import type { BlockHead, HeightRange } from '../../storage/index.js';

/** Nodes that are asked, one after another, and how long each has to answer. */
const NODES_ASKED = 3;
const PATIENCE_MS = 3_000;

export interface BlockBelowDependencies {
  readonly nodes: AccessNodes;
  readonly signal: AbortSignal;
}

/**
 * The block below a range, as a node gives it, where the index does not have it: without it, nothing would show that the
 * first block of the range names a wrong parent. `undefined` when no node has it, or the signal aborts.
 */
export async function blockBelow(
  { from }: HeightRange,
  { nodes, signal }: BlockBelowDependencies,
): Promise<BlockHead | undefined> {
  const height = from - 1;
  for (const node of nodes.forHeight(height, 'GetBlockByHeight').slice(0, NODES_ASKED)) {
    try {
      const { block, status } = await node.getBlockByHeight(height, { signal, timeoutMs: PATIENCE_MS });
      if (status !== 'unknown') return { height, id: block.id, parentId: block.parentId };
    } catch (error) {
      if (signal.aborted) return undefined;
      // Another one may have it.
      if (!(error instanceof UpstreamError)) throw error;
    }
  }
  return undefined;
}
