import { endpointStates } from '../../observability/index.js';
import * as t from '../schema.js';

const endsInSeconds = t.note('Until it is healthy again, unless it fails meanwhile.', t.amount);

/** The status of an access node or a peer. */
export const endpointStatus = t.object({
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
