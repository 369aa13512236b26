import { isExpectedEnd } from '../../access/index.js';
import type { AccessNode, ReceivedBlock } from '../../access/index.js';

export const BLOCK_STREAM = 'SubscribeBlocksFromStartHeight';
export const BLOCK_CALL = 'GetBlockByHeight';

/**
 * The blocks of a node without streams, in ascending order, several requested at once but none above `upperBound()`.
 * Ends when the node may have a stream for us again. Expected errors: those of the node's calls.
 */
export async function* pollBlocks(
  node: AccessNode,
  startHeight: number,
  options: {
    readonly parallelReads: number;
    /** Deadline of one call. */
    readonly timeoutMs: number;
    readonly upperBound: () => number;
    /** True once the node may be asked for a stream. */
    readonly mayStream: () => boolean;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<ReceivedBlock, void> {
  const asked: Promise<ReceivedBlock>[] = [];
  let nextToAsk = startHeight;
  try {
    for (let height = startHeight; ; height += 1) {
      if (options.mayStream()) return;
      const highest = Math.max(height, options.upperBound());
      while (asked.length < options.parallelReads && nextToAsk <= highest) {
        const answer = node.getBlockByHeight(nextToAsk, {
          signal: options.signal,
          timeoutMs: options.timeoutMs,
        });
        // Its failure is handled when it is awaited, or below.
        answer.catch(() => undefined);
        asked.push(answer);
        nextToAsk += 1;
      }
      const next = asked.shift();
      if (next === undefined) return;
      yield await next;
    }
  } finally {
    for (const left of asked)
      left.catch((error: unknown) => {
        if (!isExpectedEnd(error)) throw error;
      });
  }
}
