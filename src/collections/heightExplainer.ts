import { SILENT_AFTER_MS, worse, type NodeTrouble } from '../access/index.js';
import type { Clock } from '../runtime/index.js';
import type { HeightRecord } from './heights/HeightRecord.js';
import type { Window } from './heights/Window.js';
import type { MissingCollectionQueue } from './heights/MissingCollectionQueue.js';
import type { WantedCollection } from './heights/WantedCollection.js';
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
  readonly requests?: Pick<CollectionRequester, 'heldBack'> | undefined;
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
    const ids = mcq.missing(height).map(({ id }) => id);
    return { height, ids, ageMs: clock.monotonic() - queuedAtMs };
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
      const missing = mcq.missing(height);
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
          missingCollections: missing.map(attemptsAt),
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
      return {
        /** Distinct collections still missing, and how many the block guarantees. */
        missing: queued.missingCount,
        of: new Set(queued.block.collectionIds).size,
        /** Per node, oldest trouble first: the most failures for any one collection, and the worst error of each call's latest. */
        troubles: troublesOf(mcq.missing(height), clock.monotonic()),
        /** Nodes that are not asked now because of their rate limit. */
        heldBack: requests?.heldBack(height) ?? [],
      };
    },
  };
}

function attemptsAt(wanted: WantedCollection) {
  const { attempts, failures, isUnderWay, lastAskedAt, lastError = null, lastNode = null, notFound } = wanted;
  return {
    collectionId: wanted.id,
    isUnderWay,
    attempts,
    notFound,
    lastNode,
    lastError,
    lastAskedAt: lastAskedAt === undefined ? null : new Date(lastAskedAt).toISOString(),
    failures: [...(failures ?? [])].map(([node, { failed, lastAt, lastError }]) => {
      return { node, count: failed.count, lastError, lastAt: new Date(lastAt).toISOString() };
    }),
  };
}

function troublesOf(missing: readonly WantedCollection[], nowMs: number): readonly NodeTrouble[] {
  const troubles = new Map<string, NodeTrouble & { readonly atMs: number }>();
  for (const { failures } of missing) {
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
  for (const { askedAtMs, lastNode: node, lastWay: method } of missing) {
    if (askedAtMs === undefined || node === undefined || method === undefined) continue;
    if (troubles.has(node) || nowMs - askedAtMs < SILENT_AFTER_MS) continue;
    const said = `${method} at ${node}: no answer yet`;
    troubles.set(node, { node, method, kind: 'unreachable', said, count: 0, sinceMs: askedAtMs, atMs: 0 });
  }
  return [...troubles.values()]
    .sort((a, b) => a.sinceMs - b.sinceMs)
    .map(({ atMs: _, ...trouble }): NodeTrouble => trouble);
}
