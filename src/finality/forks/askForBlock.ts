import { answerOf, UpstreamError, type AccessNode, type AccessNodes, type Way } from '../../access/index.js';
import type { FinalizedBlock } from '../../flow/index.js';
import { BLOCK_CALL } from '../ports.js';

/** Deadline of one call: the verdict of a round, or even of two rounds, must come within ten seconds. */
const ASK_TIMEOUT_MS = 3_000;
/** Most nodes asked for one height. */
const MAX_NODES_ASKED = 8;

/** A block, and the call that returned it. */
export interface Answer extends Way {
  readonly block: FinalizedBlock;
}

/** The nodes to ask for a height, best first. */
export function nodesToAsk(nodes: AccessNodes, height: number): readonly AccessNode[] {
  return nodes.forHeight(height, BLOCK_CALL).slice(0, MAX_NODES_ASKED);
}

/** One node's finalized block of a height; `undefined` where it has none. Expected errors: the signal's abort reason. */
export async function askNode(
  nodes: AccessNodes,
  node: AccessNode,
  height: number,
  signal: AbortSignal,
  timeoutMs = ASK_TIMEOUT_MS,
): Promise<Answer | UpstreamError | undefined> {
  const answer = await answerOf(nodes, node, node.getBlockByHeight(height, { signal, timeoutMs }));
  if (answer instanceof UpstreamError) return answer;
  const { block, status } = answer;
  return status === 'unknown' || block.height !== height ? undefined : { node, method: BLOCK_CALL, block };
}

/**
 * Every node's finalized block of a height, best node first, by one unary call each. `known`: answers that need no call.
 * `complete`: all of them answered. `onFailure`: a node did not. Expected errors: the signal's abort reason.
 */
export async function askForBlock(
  nodes: AccessNodes,
  height: number,
  signal: AbortSignal,
  {
    known = [],
    onFailure,
  }: { readonly known?: readonly Answer[]; readonly onFailure?: (error: UpstreamError) => void } = {},
): Promise<{ readonly answers: readonly Answer[]; readonly complete: boolean }> {
  const asked = nodesToAsk(nodes, height);
  const ask = async (node: AccessNode): Promise<Answer | undefined> => {
    const answer =
      known.find((each) => each.node.name === node.name) ?? (await askNode(nodes, node, height, signal));
    if (!(answer instanceof UpstreamError)) return answer;
    onFailure?.(answer);
    return undefined;
  };
  const answers = (await Promise.all(asked.map(ask))).filter((answer) => answer !== undefined);
  return { answers, complete: answers.length === asked.length };
}
