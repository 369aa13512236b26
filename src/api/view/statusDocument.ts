import { allReadinessCodes, endpointStates } from '../../observability/index.js';
import { amount, arrayOf, count, flag, named, note, object, orNull, text, words } from '../schema.js';
import type { Described } from '../schema.js';

/** The readable heights, and the heads beyond them. `null`: not known yet. */
export interface IndexedRange {
  readonly firstIndexed: number | null;
  /** The watermark; `firstIndexed - 1` while nothing is indexed. */
  readonly latestIndexed: number | null;
  readonly head: number | null;
  readonly sealed: number | null;
}

/** The range as callers see it: `latestIndexed` is `null` while nothing is indexed. */
export const edges = { firstIndexed: orNull(count), latestIndexed: orNull(count), head: orNull(count) };

/**
 * The last readable height, as shown to callers: `null` while nothing is indexed, whatever represents that internally.
 * An empty store that begins at height 0 ends at -1, which is no height.
 */
export function lastReadable({
  firstIndexed,
  latestIndexed,
}: Pick<IndexedRange, 'firstIndexed' | 'latestIndexed'>): number | null {
  return firstIndexed !== null && latestIndexed !== null && latestIndexed >= firstIndexed
    ? latestIndexed
    : null;
}

export const executionDataStatus = object({
  state: note(
    'paused: ahead of the window. unavailable: no node serves the stream now.',
    words('off', 'connecting', 'following', 'paused', 'unavailable'),
  ),
  endpoint: orNull(text),
  height: note('The last height the stream delivered.', orNull(count)),
  ageSeconds: note('Since the stream delivered.', orNull(amount)),
  reason: note('Why it does not deliver.', orNull(text)),
});

export const waitingFor = orNull(
  object({ height: count, message: text, ageSeconds: note('Since the watermark moved.', amount) }),
);

/** Why the daemon is not ready. */
export const reasons = arrayOf(
  object({ code: words(...allReadinessCodes), message: text, sinceSeconds: amount }, { height: count }),
);

const endpoint = object({
  name: note('host:port', text),
  state: words(...endpointStates),
  reason: note("Why it is not healthy, in the node's own words if it gave any.", orNull(text)),
  sinceSeconds: note('Since the first of the faults that made it unhealthy.', orNull(amount)),
  calls: note(
    'Its unhealthy calls: asked last, or not at all while there is another way.',
    arrayOf(
      object({
        method: text,
        state: words('failing', 'set_aside'),
        reason: text,
        count: note('Faults in a row.', count),
        sinceSeconds: amount,
      }),
    ),
  ),
});

/** The body of `/status`. */
export const statusSchema = named(
  'Status',
  note(
    'Rates are per second, ages are in seconds; null means not known yet.',
    object({
      network: text,
      chainId: text,
      version: text,
      instance: note('Distinguishes this process from any other at its address.', text),
      ...edges,
      sealed: orNull(count),
      lag: note('Heights behind the head; null while no node confirms the head.', orNull(count)),
      headAgeSeconds: note('Since the head moved.', orNull(amount)),
      headConfirmedSeconds: note('Since any node reported the head, moved or not.', orNull(amount)),
      rate: note('Heights that became durable per second, over the last half minute.', amount),
      eta: note('Until the head is reached; null while the gap does not close.', orNull(amount)),
      window: object({
        heights: count,
        upperBound: note('The highest height that may be worked on now.', orNull(count)),
        inFlight: note('Heights in progress and not yet durable.', count),
        bytesInFlight: count,
        bytesLimit: count,
      }),
      sources: object({
        requester: object({
          state: note(
            'off with ediOnly. waiting: collections are missing and no call may be sent now (see waitingFor).',
            words('off', 'idle', 'waiting', 'asking'),
          ),
          inFlight: note('Collection calls in progress.', count),
          missing: note('Collections wanted and not received.', count),
        }),
        edi: executionDataStatus,
      }),
      endpoints: arrayOf(endpoint),
      waitingFor: note('What the lowest unindexed height waits for, and why.', waitingFor),
      oldestMissing: note(
        'The lowest height that lacks collections.',
        orNull(object({ height: count, missing: count, ageSeconds: amount })),
      ),
      accountIndex: object({
        state: note(
          'building: heights from before it was switched on are missing. stopped: one of those is damaged.',
          words('off', 'building', 'stopped', 'complete'),
        ),
        coveredFrom: note('It covers all heights from here to latestIndexed.', orNull(count)),
        missingHeights: note('Heights below that it has yet to index.', orNull(count)),
      }),
      ready: flag,
      reasons,
      uptimeSeconds: amount,
    }),
  ),
);
export type StatusDocument = Described<typeof statusSchema>;
export type EndpointStatus = StatusDocument['endpoints'][number];

/** What the servers ask the daemon. */
export interface StatusSource {
  /** Expected errors: ApiError (`indexer_silent`) when the indexing thread does not answer in time. */
  status(): StatusDocument | Promise<StatusDocument>;
  /** The part of the status that each lookup needs, from memory. */
  range(): IndexedRange;
}
