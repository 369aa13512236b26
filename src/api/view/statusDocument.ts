import { allReadinessCodes, endpointStates, MAX_MINUTES } from '../../observability/index.js';
import * as t from '../schema.js';
import type { IndexedRange } from './indexedRange.js';

const heightRange = { from: t.count, to: t.count };
const heightRanges = t.arrayOf(t.object(heightRange));

/** The range as callers see it: `latestIndexed` is `null` while nothing is indexed. */
export const edges = {
  firstIndexed: t.note('The first height of the live range, which has no holes.', t.orNull(t.count)),
  latestIndexed: t.orNull(t.count),
  head: t.orNull(t.count),
  coverage: t.note(
    'Every range of heights that can be read, ascending; in a refusal, of very many those next to the requested height.',
    heightRanges,
  ),
};

/** The stream of execution data, or of a peer. */
export const executionDataStatus = t.object({
  state: t.note(
    'paused: ahead of the window. unavailable: no node serves the stream now.',
    t.words('off', 'connecting', 'following', 'paused', 'unavailable'),
  ),
  endpoint: t.orNull(t.text),
  height: t.note('The last height the stream delivered.', t.orNull(t.count)),
  ageSeconds: t.note('Since the stream delivered.', t.orNull(t.amount)),
  reason: t.note('Why it does not deliver.', t.orNull(t.text)),
});

/** Cells of the window in one status: of a larger window, a cell covers several heights. */
export const MAX_WINDOW_CELLS = 512;

/** The states of a height in the window, in order. */
export const windowStates = ['waiting', 'linked', 'collecting', 'complete', 'committing', 'durable'] as const;
export type WindowState = (typeof windowStates)[number];

const windowCell = t.object({
  from: t.count,
  to: t.count,
  state: t.note(
    'waiting: its block is not here yet. linked: it is, and work on it has not begun. collecting: it lacks collections. complete: it waits for a batch. committing: it is being written. durable: it waits for the heights below. Of several heights, that of the one that has come least far.',
    t.words(...windowStates),
  ),
  missing: t.note('Collections that it lacks.', t.count),
  ageSeconds: t.note('Since work on it began; null before.', t.orNull(t.amount)),
  reason: t.note(
    'What it waits for and why, where that is the lowest height or one that has lacked collections for a while.',
    t.orNull(t.text),
  ),
});
export type WindowCell = t.Described<typeof windowCell>;

const windowStatus = t.object({
  heights: t.count,
  upperBound: t.note('The highest height that may be worked on now.', t.orNull(t.count)),
  inFlight: t.note('Heights in progress and not yet durable.', t.count),
  bytesInFlight: t.count,
  bytesLimit: t.count,
  cells: t.note(
    'The heights from the one above latestIndexed to upperBound, ascending. Neighbouring heights in the same state share one cell.',
    t.arrayOf(windowCell, MAX_WINDOW_CELLS),
  ),
});

const race = t.object({
  first: t.note('Collections that this source delivered first.', t.count),
  late: t.note('Collections that were here already when it delivered them.', t.count),
});

/** Current throughput. */
const throughput = t.note(
  'Over the last half minute, of the live range and of history; null right after the start.',
  t.orNull(
    t.object({
      heightsPerSecond: t.amount,
      collectionsPerSecond: t.amount,
      bytesPerSecond: t.note('Of collections that became durable.', t.amount),
      commits: t.object({
        perSecond: t.amount,
        heights: t.note('Average of a commit; null without one.', t.orNull(t.amount)),
        bytes: t.orNull(t.amount),
        seconds: t.orNull(t.amount),
        usualSeconds: t.note(
          '95 of 100 took at most this long: a bound of the histogram commit_duration_seconds.',
          t.orNull(t.amount),
        ),
      }),
    }),
  ),
);

/** The last hour by minute. */
const lastHour = t.note(
  'Minute by minute since the start, at most the last hour, oldest first; the last one is not over.',
  t.arrayOf(
    t.object({
      ageSeconds: t.note('Since it began.', t.amount),
      requester: race,
      edi: race,
      peer: race,
      heights: t.note('Heights that became durable.', t.count),
      bytes: t.note('Their collections.', t.count),
      commits: t.count,
      commitSeconds: t.note('Spent in them.', t.amount),
    }),
    MAX_MINUTES + 1,
  ),
);

const endsInSeconds = t.note('Until it is healthy again, unless it fails meanwhile.', t.amount);

/** The status of an access node or a peer. */
const endpointStatus = t.object({
  name: t.note('host:port', t.text),
  state: t.words(...endpointStates),
  reason: t.note("Why it is not healthy, in the node's own words if it gave any.", t.orNull(t.text)),
  sinceSeconds: t.note('Since the first of the faults that made it unhealthy.', t.orNull(t.amount)),
  endsInSeconds: t.orNull(endsInSeconds),
  origin: t.note(
    'historic: from the table of sporks; peer: an indexer that feeds this one.',
    t.words('configured', 'historic', 'peer'),
  ),
  version: t.note('Of its software; null if it does not say.', t.orNull(t.text)),
  lowestHeight: t.note('The first height that it serves.', t.orNull(t.count)),
  latencySeconds: t.note('Average of its answers; null until there was one.', t.orNull(t.amount)),
  inFlight: t.note('Calls in progress.', t.count),
  callsPerSecond: t.note('Over the last half minute.', t.amount),
  lastHour: t.note(
    'Calls sent to it, and those that failed, also by kind of error.',
    t.object({
      calls: t.count,
      errors: t.count,
      kinds: t.arrayOf(t.object({ kind: t.text, count: t.count })),
    }),
  ),
  limits: t.note(
    'Its calls that are limited now, by access.ratePerSecond or by what it answered.',
    t.arrayOf(
      t.object({
        method: t.text,
        ratePerSecond: t.note('null: no limit.', t.orNull(t.amount)),
        isLearned: t.note('Its answers hold the rate down.', t.flag),
        pauseSeconds: t.note('For which it must not be called at all.', t.amount),
        waiting: t.note('Calls that wait.', t.count),
      }),
    ),
  ),
  calls: t.note(
    'Its unhealthy calls: asked last, or not at all while there is another way.',
    t.arrayOf(
      t.object({
        method: t.text,
        state: t.words('failing', 'set_aside'),
        reason: t.text,
        count: t.note('Faults in a row.', t.count),
        sinceSeconds: t.amount,
        endsInSeconds,
      }),
    ),
  ),
});
export type EndpointStatus = t.Described<typeof endpointStatus>;

export const waitingFor = t.orNull(
  t.object({ height: t.count, message: t.text, ageSeconds: t.note('Since the watermark moved.', t.amount) }),
);

const backfill = t.object({
  missingHeights: t.note('Planned heights that are not durable yet.', t.count),
  rate: t.note('Heights of history that became durable per second, over the last half minute.', t.amount),
  eta: t.note('Until everything planned is filled in; null while nothing moves.', t.orNull(t.amount)),
  heldBack: t.note(
    'Why it is slower than it could be: it yields to the live range. Not a fault.',
    t.orNull(t.object({ share: t.note('Of its slots and windows, up to 1.', t.amount), message: t.text })),
  ),
  plans: t.arrayOf(
    t.object({
      ...heightRange,
      id: t.count,
      order: t.words('newest', 'oldest'),
      state: t.words('active', 'paused'),
      missingHeights: t.count,
      untakenVersion: t.note(
        'The version of work that it was cut for, if no live process does that.',
        t.orNull(t.count),
      ),
    }),
  ),
  ranges: t.note(
    'Ranges that were begun and cannot be read yet.',
    t.arrayOf(
      t.object({
        ...heightRange,
        state: t.words('waiting', 'running', 'failed', 'disputed'),
        next: t.note('The lowest height that is missing.', t.count),
        rate: t.amount,
        eta: t.orNull(t.amount),
        failures: t.note('Runs that failed in a row.', t.count),
        reason: t.note('Why the last run failed.', t.orNull(t.text)),
        waitingFor: t.note(
          'What its lowest missing height waits for, when it has not come for a while.',
          t.orNull(t.object({ height: t.count, message: t.text, ageSeconds: t.amount })),
        ),
      }),
    ),
  ),
  unserved: t.note('Planned heights that no access node is known to serve.', heightRanges),
});
export type BackfillStatus = t.Described<typeof backfill>;
export type BackfillRangeStatus = BackfillStatus['ranges'][number];

const cluster = t.object({
  roles: t.note('Of this process.', t.arrayOf(t.words('live', 'backfill', 'api'))),
  leads: t.note('This process follows the chain.', t.flag),
  leader: t.note(
    'The process that follows the chain; null while none is known.',
    t.orNull(
      t.object({
        worker: t.text,
        host: t.text,
        ageSeconds: t.note('Since it was last heard of.', t.amount),
      }),
    ),
  ),
  workers: t.note(
    'All processes, as of their last beats.',
    t.arrayOf(
      t.object({
        id: t.text,
        host: t.text,
        pid: t.count,
        version: t.text,
        roles: t.arrayOf(t.text),
        state: t.words('ready', 'running', 'stopping', 'stopped'),
        alive: t.flag,
        leads: t.flag,
        busyWith: t.note('Ranges of history that it fills in.', heightRanges),
        ageSeconds: t.note('Since it was last heard of.', t.amount),
      }),
    ),
  ),
});

/** Why the daemon is not ready. */
export const reasons = t.arrayOf(
  t.object(
    { code: t.words(...allReadinessCodes), message: t.text, sinceSeconds: t.amount },
    { height: t.count },
  ),
);

/** The body of `/status`. */
export const statusSchema = t.named(
  'Status',
  t.note(
    'Rates are per second, ages are in seconds; null means not known yet.',
    t.object({
      network: t.text,
      chainId: t.text,
      version: t.text,
      instance: t.note('Distinguishes this process from any other at its address.', t.text),
      ...edges,
      healing: t.note(
        'Stored heights that were damaged: they cannot be read until they are fetched again.',
        heightRanges,
      ),
      lowestServed: t.note(
        'The lowest height that an access node is known to serve; null while unknown.',
        t.orNull(t.count),
      ),
      sealed: t.orNull(t.count),
      lag: t.note('Heights behind the head; null while no node confirms the head.', t.orNull(t.count)),
      headAgeSeconds: t.note('Since the head moved.', t.orNull(t.amount)),
      headConfirmedSeconds: t.note('Since any node reported the head, moved or not.', t.orNull(t.amount)),
      rate: t.note('Heights that became durable per second, over the last half minute.', t.amount),
      eta: t.note('Until the head is reached; null while the gap does not close.', t.orNull(t.amount)),
      window: windowStatus,
      throughput,
      lastHour,
      sources: t.object({
        requester: t.object({
          state: t.note(
            'off with ediOnly. waiting: collections are missing and no call may be sent now (see waitingFor).',
            t.words('off', 'idle', 'waiting', 'asking'),
          ),
          inFlight: t.note('Collection calls in progress.', t.count),
          missing: t.note('Collections wanted and not received.', t.count),
        }),
        edi: executionDataStatus,
        peer: t.note('Another indexer that feeds this one; off without peers.', executionDataStatus),
      }),
      endpoints: t.arrayOf(endpointStatus),
      waitingFor: t.note('What the lowest unindexed height waits for, and why.', waitingFor),
      oldestMissing: t.note(
        'The lowest height that lacks collections.',
        t.orNull(
          t.object({
            height: t.count,
            missing: t.count,
            collectionId: t.note('The first one that it lacks.', t.identifier),
            ageSeconds: t.amount,
            reason: t.note('What it waits for, and why.', t.text),
          }),
        ),
      ),
      cluster: t.note('The processes that share the database; null without one.', t.orNull(cluster)),
      accountIndex: t.object({
        state: t.note(
          'building: heights from before it was switched on are missing. stopped: one of those is damaged.',
          t.words('off', 'building', 'stopped', 'complete'),
        ),
        coveredFrom: t.note('It covers all heights from here to latestIndexed.', t.orNull(t.count)),
        missingHeights: t.note('Heights below that it has yet to index.', t.orNull(t.count)),
      }),
      proof: t.note(
        'Whether ids and guarantees of the blocks are proven, and that they are final (SECURITY.md).',
        t.object({
          mode: t.words('auto', 'required', 'off'),
          finality: t.note('proven: nothing above provenHeight can be read.', t.words('reported', 'proven')),
          form: t.note(
            'How ids of the last proven block are made: header and payload form.',
            t.orNull(t.text),
          ),
          unprovenHeights: t.note(
            'Heights that can be read and are not proven, or not known to be.',
            t.orNull(t.count),
          ),
          anchor: t.note(
            'The block that finality rests on: proof.checkpoint, one that the spork table names (the root of a spork, or the last block before the next), or one for which the nodes were believed.',
            t.orNull(
              t.object({
                kind: t.words('checkpoint', 'spork_root', 'spork_table', 'first_use'),
                height: t.count,
                id: t.identifier,
              }),
            ),
          ),
          provenHeight: t.note(
            'The chain is proven final up to here, by a certificate of the consensus nodes.',
            t.orNull(t.count),
          ),
          sealedHeight: t.note(
            'The highest block whose seal is in a block that is proven final; null while none is known, and the nodes say what is sealed.',
            t.orNull(t.count),
          ),
          committee: t.note(
            'The consensus nodes that signed the latest certificate; before the first one, those of the anchor.',
            t.orNull(t.object({ epoch: t.count, members: t.count, weight: t.count })),
          ),
          latestCertificate: t.note(
            'Of the child of the block at provenHeight.',
            t.orNull(
              t.object({
                height: t.count,
                view: t.count,
                signers: t.count,
                weight: t.note('Of those who signed.', t.count),
                threshold: t.note('The weight that is needed.', t.count),
              }),
            ),
          ),
          reason: t.note(
            'Why blocks are taken unproven, or nothing more is proven final; null while neither is so.',
            t.orNull(t.text),
          ),
        }),
      ),
      backfill: t.note('History that is filled in below the live range.', backfill),
      log: t.note(
        'Standard output or standard error, while it does not take the lines of the log; empty otherwise.',
        t.arrayOf(
          t.object({
            output: t.text,
            reason: t.note('Why, and what to do.', t.text),
            lostLines: t.note('0: they still wait, in memory.', t.count),
            ageSeconds: t.amount,
          }),
        ),
      ),
      descriptors: t.note(
        'File descriptors: files and connections that are open.',
        t.object({
          limit: t.note('How many the process may have; null: any number.', t.orNull(t.count)),
          open: t.note('Counted every second; null until then.', t.orNull(t.count)),
          connections: t.note(
            'Of callers, by port.',
            t.arrayOf(t.object({ port: t.text, open: t.count, limit: t.count })),
          ),
        }),
      ),
      ready: t.flag,
      reasons,
      uptimeSeconds: t.amount,
    }),
  ),
);
export type StatusDocument = t.Described<typeof statusSchema>;

/** The status of the daemon, for its servers. */
export interface StatusSource {
  /** Expected errors: ApiError (`indexer_silent`) when the indexing thread does not answer in time. */
  status(): StatusDocument | Promise<StatusDocument>;
  /** The part of the status that each lookup needs, from memory. */
  range(): IndexedRange;
}
