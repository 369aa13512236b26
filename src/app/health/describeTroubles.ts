import type { NodeTrouble } from '../../access/index.js';
import type { ReadinessCode } from '../../observability/index.js';
import type { Clock } from '../../runtime/index.js';

/** Nodes named at most in one message. */
const NODES_NAMED = 3;
/** Ids are for the debug log. */
const IDS = /\b[0-9a-f]{64}\b/gi;

/**
 * The code for the troubles of one request, by severity: wrong data, no proof, a refusal, no answer, a denial. A node that denies may
 * just be early.
 */
export function codeOf(troubles: readonly NodeTrouble[]): ReadinessCode {
  const kinds = new Set(troubles.map(({ kind }) => kind));
  if (kinds.has('invalid')) return 'upstream_invalid';
  if (kinds.has('unproven')) return 'unproven';
  if (kinds.has('refused') || kinds.has('rate_limited')) return 'upstream_refusing';
  return kinds.has('denied') && !kinds.has('unreachable') ? 'upstream_refusing' : 'upstream_unreachable';
}

/** Node, message, count and start, for the first nodes; empty when there is no trouble. */
export function describeTroubles(troubles: readonly NodeTrouble[], clock: Clock): string {
  const named = troubles.slice(0, NODES_NAMED).map((trouble) => describe(trouble, clock));
  const more = troubles.length - NODES_NAMED;
  return named.join('; ') + (more > 0 ? `; and ${more} more nodes` : '');
}

function describe({ node, said, count, sinceMs }: NodeTrouble, clock: Clock): string {
  const words = said.includes(node) ? said : `${node} ${said}`;
  const times = count === 0 ? '' : count === 1 ? 'once, ' : `${count} times `;
  return `${words} (${times}since ${timeOf(sinceMs, clock)})`;
}

/** A monotonic time as the hour of the day, UTC. */
export function timeOf(monotonicMs: number, clock: Clock): string {
  const wallMs = clock.now() - (clock.monotonic() - monotonicMs);
  return `${new Date(wallMs).toISOString().slice(11, 19)} UTC`;
}

/** A message fit for the log. */
export function withoutIds(message: string): string {
  return message.replace(IDS, '…');
}
