import { SILENT_AFTER_MS } from '../access/index.js';
import type { NodeTrouble } from '../access/index.js';
import type { HeldBackNode, RequestTrail } from './ports.js';

/** Why a height is not complete. */
export interface HeldUpHeight {
  /** Distinct collections still missing, and how many the block guarantees. */
  readonly missing: number;
  readonly of: number;
  /** Per node, oldest trouble first: the most failures for any one collection, and the latest error text. */
  readonly troubles: readonly NodeTrouble[];
  /** Nodes that are not asked now because of their rate limit. */
  readonly heldBack: readonly HeldBackNode[];
}

/** How the nodes failed to deliver these collections. */
export function troublesOf(trails: readonly RequestTrail[], nowMs: number): readonly NodeTrouble[] {
  const troubles = new Map<string, NodeTrouble & { readonly lastAt: number }>();
  for (const { failures } of trails) {
    for (const [node, { count, kind, method, lastError: said, lastAt, sinceMs }] of failures) {
      const before = troubles.get(node);
      const latest = before !== undefined && before.lastAt > lastAt ? before : { kind, method, said, lastAt };
      troubles.set(node, {
        ...latest,
        node,
        count: Math.max(count, before?.count ?? 0),
        sinceMs: Math.min(sinceMs, before?.sinceMs ?? sinceMs),
      });
    }
  }
  for (const { askedAtMs, lastNode: node, lastMethod: method } of trails) {
    if (askedAtMs === undefined || node === undefined || method === undefined) continue;
    if (troubles.has(node) || nowMs - askedAtMs < SILENT_AFTER_MS) continue;
    const said = `${method} at ${node}: no answer yet`;
    troubles.set(node, { node, method, kind: 'unreachable', said, count: 0, sinceMs: askedAtMs, lastAt: 0 });
  }
  return [...troubles.values()]
    .sort((a, b) => a.sinceMs - b.sinceMs)
    .map(({ lastAt: _, ...trouble }): NodeTrouble => trouble);
}
