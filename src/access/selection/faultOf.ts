import type { NodeFault } from '../types.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';

/** The fault of the node in a failed call; `undefined` when it has none (data not there yet, busy node, old node). */
export function faultOf(kind: UpstreamErrorKind): NodeFault | undefined {
  switch (kind) {
    case 'deadline':
      return 'stale';
    case 'unavailable':
    case 'internal':
    case 'unauthenticated':
    case 'too_large':
    case 'malformed':
      return 'failing';
    case 'forged':
      return 'lied';
    case 'not_yet':
    case 'not_found':
    case 'below_root':
    case 'rate_limited':
    case 'unimplemented':
    case 'invalid_argument':
    case 'failed_precondition':
    case 'unproven':
      return undefined;
  }
}
