import type { NodeFault, UpstreamErrorKind } from '../../access/index.js';

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

/** Deadlines of the small calls that everything waits for, so that another node or another call is asked soon. */
const PATIENCE_MS = 4_000;
/** Where nobody answered in that time: they may be slow. */
const LONG_PATIENCE_MS = 8_000;
/** Silences in a row before nodes are given more time. */
const SILENCES_BEFORE_PATIENCE = 2;

/** How long to wait for an answer after so many silences in a row. */
export function patienceMs(silences: number, shortMs = PATIENCE_MS): number {
  return silences < SILENCES_BEFORE_PATIENCE ? shortMs : Math.max(shortMs, LONG_PATIENCE_MS);
}
