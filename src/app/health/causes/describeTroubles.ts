import type { NodeTrouble } from '../../../access/index.js';
import type { ReadinessCode } from '../../../observability/index.js';
import type { Clock } from '../../../runtime/index.js';

/** Most nodes named in one message. */
const NODES_NAMED = 3;
/** Ids are for the debug log. */
const IDS = /\b[0-9a-f]{64}\b/gi;

/**
 * Which code the troubles of one question make: wrong data weighs more than a refusal, that more than silence, and
 * that more than a denial, as whoever denies may simply be early.
 */
export function codeOf(troubles: readonly NodeTrouble[]): ReadinessCode {
  const kinds = new Set(troubles.map(({ kind }) => kind));
  if (kinds.has('invalid')) return 'upstream_invalid';
  if (kinds.has('refused') || kinds.has('rate_limited')) return 'upstream_refusing';
  return kinds.has('denied') && !kinds.has('unreachable') ? 'upstream_refusing' : 'upstream_unreachable';
}

/** Node, words, count and since when, of the nodes that one message has room for; empty when there is no trouble. */
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

/** A message as the log may have it. */
export function withoutIds(message: string): string {
  return message.replace(IDS, '…');
}
