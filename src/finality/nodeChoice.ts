import type { AccessNode, NodeFault, StreamMethod, UpstreamErrorKind } from '../access/index.js';

/**
 * The node to follow next: the best healthy one that streams; else the best healthy one, which is then polled; else the
 * best there is. `avoid` holds those that have just failed; when they are all that remains, they are asked again.
 */
export function chooseNode(
  bestFirst: readonly AccessNode[],
  stream: StreamMethod,
  avoid: Set<string>,
): AccessNode | undefined {
  let candidates = bestFirst.filter((node) => !avoid.has(node.name));
  if (candidates.length === 0) {
    avoid.clear();
    candidates = [...bestFirst];
  }
  const healthy = candidates.filter((node) => node.healthOf(stream) === 'healthy');
  return healthy.find((node) => node.supports(stream)) ?? healthy[0] ?? candidates[0];
}

/** What a failed call says of the node; `undefined` when it says nothing against it (not yet there, busy, too old). */
export function faultOf(kind: UpstreamErrorKind): NodeFault | undefined {
  switch (kind) {
    case 'deadline':
      return 'stale';
    case 'unavailable':
    case 'internal':
    case 'too_large':
    case 'malformed':
      return 'failing';
    case 'not_yet':
    case 'not_found':
    case 'below_root':
    case 'rate_limited':
    case 'unimplemented':
    case 'invalid_argument':
    case 'failed_precondition':
      return undefined;
  }
}
