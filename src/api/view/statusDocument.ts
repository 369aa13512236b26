import { allReadinessCodes, endpointStates } from '../../observability/index.js';
import * as T from '../Schema.js';
import type { IndexedRange } from './indexedRange.js';

const heightRange = { from: T.count, to: T.count };
const heightRanges = T.arrayOf(T.object(heightRange));

/** The range as callers see it: `latestIndexed` is `null` while nothing is indexed. */
export const edges = {
  firstIndexed: T.count.orNull.note('The first height of the live range, which has no holes.'),
  latestIndexed: T.count.orNull,
  head: T.count.orNull,
  coverage: heightRanges.note(
    'Every range of heights that can be read, ascending; in a refusal, if there are very many, those around the requested height.',
  ),
};

/** The stream of execution data, or of a peer. */
export const executionDataStatus = T.object({
  state: T.words('off', 'connecting', 'following', 'paused', 'unavailable').note(
    'paused: ahead of the window. unavailable: no node serves the stream now.',
  ),
  endpoint: T.text.orNull,
  height: T.count.orNull.note('The last height the stream delivered.'),
  ageSeconds: T.amount.orNull.note('Since the stream delivered.'),
  reason: T.text.orNull.note('Why it does not deliver.'),
});

const windowStatus = T.object({
  heights: T.count,
  upperBound: T.count.orNull.note('The highest height that may be worked on now.'),
  inFlight: T.count.note('Heights in progress and not yet durable.'),
  bytesInFlight: T.count,
  bytesLimit: T.count,
});

const race = T.object({
  first: T.count.note('Collections that this source delivered first.'),
  late: T.count.note('Collections that were here already when it delivered them.'),
});

const endsInSeconds = T.amount.note('Until it is healthy again, unless it fails meanwhile.');

/** The status of an access node or a peer. */
const endpointStatus = T.object({
  name: T.text.note('host:port'),
  state: T.words(...endpointStates),
  reason: T.text.orNull.note("Why it is not healthy, in the node's own words if it gave any."),
  sinceSeconds: T.amount.orNull.note('Since the first of the faults that made it unhealthy.'),
  endsInSeconds: endsInSeconds.orNull,
  origin: T.words('configured', 'historic', 'peer').note(
    'historic: from the table of sporks; peer: an indexer that feeds this one.',
  ),
  version: T.text.orNull.note('Of its software; null if it does not say.'),
  lowestHeight: T.count.orNull.note('The first height that it serves.'),
  latencySeconds: T.amount.orNull.note('Average of its answers; null until there was one.'),
  inFlight: T.count.note('Calls in progress.'),
  callsPerSecond: T.amount.note('Over the last half minute.'),
  lastHour: T.object({
    calls: T.count,
    errors: T.count,
    kinds: T.arrayOf(T.object({ kind: T.text, count: T.count })),
  }).note('Calls sent to it, and those that failed, also by kind of error.'),
  limits: T.arrayOf(
    T.object({
      method: T.text,
      ratePerSecond: T.amount.orNull.note('null: no limit.'),
      isLearned: T.flag.note('Its answers hold the rate down.'),
      pauseSeconds: T.amount.note('For which it must not be called at all.'),
      waiting: T.count.note('Calls that wait.'),
    }),
  ).note('Its calls that are limited now, by access.ratePerSecond or by what it answered.'),
  calls: T.arrayOf(
    T.object({
      method: T.text,
      state: T.words('failing', 'set_aside'),
      reason: T.text,
      count: T.count.note('Faults in a row.'),
      sinceSeconds: T.amount,
      endsInSeconds,
    }),
  ).note('Its unhealthy calls: asked last, or not at all while there is another way.'),
});
export type EndpointStatus = T.Described<typeof endpointStatus>;

export const waitingFor = T.object({
  height: T.count,
  message: T.text,
  ageSeconds: T.amount.note('Since the watermark moved.'),
}).orNull;

const backfill = T.object({
  missingHeights: T.count.note('Planned heights that are not durable yet.'),
  rate: T.amount.note('Heights of history that became durable per second, over the last half minute.'),
  eta: T.amount.orNull.note('Until everything planned is filled in; null while nothing moves.'),
  heldBack: T.object({
    share: T.amount.note('Of its slots and windows, up to 1.'),
    message: T.text,
  }).orNull.note('Why it is slower than it could be: it yields to the live range. Not a fault.'),
  plans: T.arrayOf(
    T.object({
      ...heightRange,
      id: T.count,
      order: T.words('newest', 'oldest'),
      state: T.words('active', 'paused'),
      missingHeights: T.count,
      untakenVersion: T.count.orNull.note(
        'The version of work that it was cut for, if no live process does that.',
      ),
    }),
  ),
  ranges: T.arrayOf(
    T.object({
      ...heightRange,
      state: T.words('waiting', 'running', 'failed', 'disputed'),
      next: T.count.note('The lowest height that is missing.'),
      rate: T.amount,
      eta: T.amount.orNull,
      failures: T.count.note('Runs that failed in a row.'),
      reason: T.text.orNull.note('Why the last run failed.'),
      waitingFor: T.object({ height: T.count, message: T.text, ageSeconds: T.amount }).orNull.note(
        'What its lowest missing height waits for, when it has not come for a while.',
      ),
    }),
  ).note('Ranges that were begun and cannot be read yet.'),
  unserved: heightRanges.note('Planned heights that no access node is known to serve.'),
});
export type BackfillStatus = T.Described<typeof backfill>;
export type BackfillRangeStatus = BackfillStatus['ranges'][number];

const cluster = T.object({
  roles: T.arrayOf(T.words('live', 'backfill', 'api')).note('Of this process.'),
  leads: T.flag.note('This process follows the chain.'),
  leader: T.object({
    worker: T.text,
    host: T.text,
    ageSeconds: T.amount.note('Since its last heartbeat.'),
  }).orNull.note('The process that follows the chain; null while none is known.'),
  alive: T.count.note('Processes with a heartbeat in the last seconds, this one included.'),
});

/** Why the daemon is not ready. */
export const reasons = T.arrayOf(
  T.object(
    { code: T.words(...allReadinessCodes), message: T.text, sinceSeconds: T.amount },
    { height: T.count },
  ),
);

/** The body of `/status`. */
export const statusSchema = T.object({
  network: T.text,
  chainId: T.text,
  version: T.text,
  instance: T.text.note('Distinguishes this process from any other at its address.'),
  ...edges,
  healing: heightRanges.note(
    'Stored heights that were damaged: they cannot be read until they are fetched again.',
  ),
  lowestServed: T.count.orNull.note(
    'The lowest height that an access node is known to serve; null while unknown.',
  ),
  sealed: T.count.orNull,
  lag: T.count.orNull.note('Heights behind the head; null while no node confirms the head.'),
  headAgeSeconds: T.amount.orNull.note('Since the head moved.'),
  headConfirmedSeconds: T.amount.orNull.note('Since any node reported the head, moved or not.'),
  rate: T.amount.note('Heights that became durable per second, over the last half minute.'),
  collectionsPerSecond: T.amount.orNull.note(
    'The same of collections, also of history; null right after the start.',
  ),
  eta: T.amount.orNull.note('Until the head is reached; null while the gap does not close.'),
  window: windowStatus,
  lastHour: T.object({ requester: race, edi: race, peer: race }).note(
    'By source, since the start or the last hour.',
  ),
  sources: T.object({
    requester: T.object({
      state: T.words('off', 'idle', 'waiting', 'asking').note(
        'off with ediOnly. waiting: collections are missing and no call may be sent now (see waitingFor).',
      ),
      inFlight: T.count.note('Collection calls in progress.'),
      missing: T.count.note('Collections wanted and not received.'),
    }),
    edi: executionDataStatus,
    peer: executionDataStatus.note('Another indexer that feeds this one; off without peers.'),
  }),
  endpoints: T.arrayOf(endpointStatus),
  waitingFor: waitingFor.note('What the lowest unindexed height waits for, and why.'),
  oldestMissing: T.object({
    height: T.count,
    missing: T.count,
    collectionId: T.identifier.note('The first one that it lacks.'),
    ageSeconds: T.amount,
    reason: T.text.note('What it waits for, and why.'),
  }).orNull.note('The lowest height that lacks collections.'),
  cluster: cluster.orNull.note('The processes that share the database; null without one.'),
  accountIndex: T.object({
    state: T.words('off', 'building', 'stopped', 'complete').note(
      'building: heights from before it was switched on are missing. stopped: one of those is damaged.',
    ),
    coveredFrom: T.count.orNull.note('It covers all heights from here to latestIndexed.'),
    missingHeights: T.count.orNull.note('Heights below that it has yet to index.'),
  }),
  proof: T.object({
    mode: T.words('auto', 'required', 'off'),
    finality: T.words('reported', 'proven').note('proven: nothing above provenHeight can be read.'),
    form: T.text.orNull.note('How ids of the last proven block are made: header and payload form.'),
    unprovenHeights: T.count.note('Heights that can be read and are not proven, or not known to be.'),
    anchor: T.object({
      kind: T.words('checkpoint', 'spork_root', 'spork_table', 'first_use'),
      height: T.count,
      id: T.identifier,
    }).orNull.note(
      'The block that finality rests on: proof.checkpoint, one that the spork table names (the root of a spork, or the last block before the next), or one for which the nodes were believed.',
    ),
    provenHeight: T.count.orNull.note(
      'The chain is proven final up to here, by a certificate of the consensus nodes.',
    ),
    sealedHeight: T.count.orNull.note(
      'The highest block whose seal is in a block that is proven final; null while none is known, and the nodes say what is sealed.',
    ),
    committee: T.object({ epoch: T.count, members: T.count, weight: T.count }).orNull.note(
      'The consensus nodes that signed the latest certificate; before the first one, those of the anchor.',
    ),
    latestCertificate: T.object({
      height: T.count,
      view: T.count,
      signers: T.count,
      weight: T.count.note('Of the signers.'),
      threshold: T.count.note('The weight that is needed.'),
    }).orNull.note('Of the child of the block at provenHeight.'),
    reason: T.text.orNull.note(
      'Why blocks are taken unproven, or nothing more is proven final; null while neither is so.',
    ),
  }).note('Whether ids and guarantees of the blocks are proven, and that they are final (SECURITY.md).'),
  backfill: backfill.note('History that is filled in below the live range.'),
  log: T.arrayOf(
    T.object({
      output: T.text,
      reason: T.text.note('Why, and what to do.'),
      lostLines: T.count.note('0: they still wait, in memory.'),
      ageSeconds: T.amount,
    }),
  ).note('Standard output or standard error, while it does not take the lines of the log; empty otherwise.'),
  ready: T.flag,
  reasons,
  uptimeSeconds: T.amount,
})
  .note('Rates are per second, ages are in seconds; null means not known yet.')
  .named('Status');
export type StatusDocument = T.Described<typeof statusSchema>;

/** The status of the daemon, for its servers. */
export interface StatusSource {
  /** Expected errors: ApiError (`indexer_silent`) when the indexing thread does not answer in time. */
  status(): StatusDocument | Promise<StatusDocument>;
  /** The part of the status that each lookup needs, from memory. */
  range(): IndexedRange;
}
