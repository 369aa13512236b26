import type { NodeFault } from '../types.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';

/** What counts against the node for a failed call; `undefined` when nothing does (not yet there, busy, too old). */
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
