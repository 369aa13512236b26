import { MAX_MINUTES } from '../../observability/index.js';
import * as t from '../schema.js';

const race = t.object({
  first: t.note('Collections that this source delivered first.', t.count),
  late: t.note('Collections that were here already when it delivered them.', t.count),
});

/** Current throughput. */
export const throughput = t.note(
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
export const lastHour = t.note(
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
