import { SILENT_AFTER_MS, worse, type NodeTrouble } from '../access/index.js';
import type { Identifier } from '../flow/index.js';
import type { Clock } from '../runtime/index.js';
import type { HeightRecord } from './heights/HeightRecord.js';
import type { Window } from './heights/Window.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
import type { RequestTrail } from './heights/WantedCollection.js';
import type { CollectionRequester } from './requester/CollectionRequester.js';

/**
 * `indexed`: durable. `committing`: complete, its batch is not on disk yet. `collecting`: lacks collections.
 * `queued`: within the window, its block is not known yet. `outside`: above the window.
 */
type HeightStage = 'indexed' | 'committing' | 'collecting' | 'queued' | 'outside';

interface Parts {
  readonly mcq: MissingCollectionQueue;
  readonly window: Window;
  /** Absent with `ediOnly`. */
  readonly requests?: Pick<CollectionRequester, 'trail' | 'heldBack'> | undefined;
  /** Why no execution data arrives, in one sentence; `undefined` while all is well. */
  readonly executionDataReason: () => string | undefined;
  /** Why no peer delivers anything; `undefined` while all is well. */
  readonly peerReason: () => string | undefined;
  readonly clock: Clock;
}

/** Reports the state of each height of the window and what holds it up. Read-only. */
export function heightExplainer(parts: Parts) {
  const { clock, executionDataReason, mcq, peerReason, requests, window } = parts;
  const lackOf = ({ height, queuedAtMs }: HeightRecord) => {
    return { height, ids: mcq.missingIds(height), ageMs: clock.monotonic() - queuedAtMs };
  };
  return {
    oldestMissing: () => {
      const lowest = window.lowestCollecting();
      return lowest && lackOf(lowest);
    },
    /** Heights that have lacked a collection for longer than this, lowest first. Their requests are still retried. */
    unresolvable: (olderThanMs: number) => {
      const beforeMs = clock.monotonic() - olderThanMs;
      return [...window.all()]
        .filter(({ status, queuedAtMs }) => status === 'collecting' && queuedAtMs < beforeMs)
        .sort((a, b) => a.height - b.height)
        .map(lackOf);
    },
    /** Answers "why is it (not) here": the state of a height, and what was tried for what it lacks. */
    explain: (height: number) => {
      const queued = mcq.get(height);
      if (queued === undefined) {
        const waiting = height <= window.upperBound() ? 'queued' : 'outside';
        const stage: HeightStage = window.isIndexed(height) ? 'indexed' : waiting;
        return { stage };
      }
      const { block, blockSource, missingCount, queuedAtMs, received } = queued;
      const cameAtMs = [...received.values()].map(({ receivedAtMs }) => receivedAtMs);
      const missing = mcq.missingIds(height);
      const stage: HeightStage = missingCount === 0 ? 'committing' : 'collecting';
      return {
        stage,
        blockId: block.id,
        /** Time in this stage: since its block arrived, or the last of its collections. */
        waitedMs: clock.monotonic() - Math.max(queuedAtMs, ...cameAtMs),
        /** As in the API's document of a height. */
        work: {
          ageSeconds: (clock.monotonic() - queuedAtMs) / 1000,
          collections: block.collectionIds.length,
          missing: missing.length,
          missingCollections: missing.map((id) => attemptsAt(id, requests?.trail(id))),
          executionData: executionDataReason() ?? null,
          peer: peerReason() ?? null,
          // The node that alone vouches for the block's guarantees: nothing proves them.
          reportedBy: (block.proof === undefined ? blockSource?.name : undefined) ?? null,
        },
      };
    },
    /** What holds a height up; `undefined` if it was not handed out, or lacks nothing. */
    heldUpBy: (height: number) => {
      const queued = mcq.get(height);
      if (queued === undefined || queued.missingCount === 0) return undefined;
      const trails = mcq.missingIds(height).flatMap((id) => requests?.trail(id) ?? []);
      return {
        /** Distinct collections still missing, and how many the block guarantees. */
        missing: queued.missingCount,
        of: new Set(queued.block.collectionIds).size,
        /** Per node, oldest trouble first: the most failures for any one collection, and the worst error of each call's latest. */
        troubles: troublesOf(trails, clock.monotonic()),
        /** Nodes that are not asked now because of their rate limit. */
        heldBack: requests?.heldBack(height) ?? [],
      };
    },
  };
}

function attemptsAt(collectionId: Identifier, trail: RequestTrail | undefined) {
  const { isUnderWay = false, attempts = 0, notFound = 0, lastNode = null, lastError = null } = trail ?? {};
  return {
    collectionId,
    isUnderWay,
    attempts,
    notFound,
    lastNode,
    lastError,
    lastAskedAt: trail?.lastAskedAt === undefined ? null : new Date(trail.lastAskedAt).toISOString(),
    failures: [...(trail?.failures ?? [])].map(([node, { failed, lastAt, lastError }]) => {
      return { node, count: failed.count, lastError, lastAt: new Date(lastAt).toISOString() };
    }),
  };
}

function troublesOf(trails: readonly RequestTrail[], nowMs: number): readonly NodeTrouble[] {
  const troubles = new Map<string, NodeTrouble & { readonly atMs: number }>();
  for (const { failures } of trails) {
    for (const [node, { failed }] of failures ?? []) {
      const { count, sinceMs } = failed;
      const next = { node, count, sinceMs, ...failed.worst() };
      const before = troubles.get(node) ?? next;
      troubles.set(node, {
        ...worse(before, next),
        count: Math.max(count, before.count),
        sinceMs: Math.min(sinceMs, before.sinceMs),
      });
    }
  }
  for (const { askedAtMs, lastNode: node, lastWay: method } of trails) {
    if (askedAtMs === undefined || node === undefined || method === undefined) continue;
    if (troubles.has(node) || nowMs - askedAtMs < SILENT_AFTER_MS) continue;
    const said = `${method} at ${node}: no answer yet`;
    troubles.set(node, { node, method, kind: 'unreachable', said, count: 0, sinceMs: askedAtMs, atMs: 0 });
  }
  return [...troubles.values()]
    .sort((a, b) => a.sinceMs - b.sinceMs)
    .map(({ atMs: _, ...trouble }): NodeTrouble => trouble);
}
