import type { AccessMethod, AccessNode } from '../../access/index.js';

/** The call that is used while it is known and works, and its fallback. */
export const CURRENT = 'SubscribeExecutionDataFromStartBlockHeight';
export const DEPRECATED = 'SubscribeExecutionData';

/** The call to use with a node: the deprecated one while the current one is resting or unknown to it. */
export function methodOf(node: AccessNode): typeof CURRENT | typeof DEPRECATED {
  return !node.supports(CURRENT) && node.supports(DEPRECATED) ? DEPRECATED : CURRENT;
}

/** A node that does not know the current call was asked by the deprecated one at once. */
export function usedMethod(node: AccessNode, opened: AccessMethod): AccessMethod {
  return opened === CURRENT ? methodOf(node) : opened;
}
