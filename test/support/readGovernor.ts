import { ReadGovernor } from '../../src/api/index.js';
import { createMetrics } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';

type Dependencies = ConstructorParameters<typeof ReadGovernor>[1];

/** An index that has all of the chain: readers have no limit. */
const complete = { range: () => ({ firstIndexed: 1, latestIndexed: 1, head: 1, sealed: 1 }) };

/**
 * A governor on the machine's own clock whose metrics nobody reads, of an index with nothing to catch up with, unless the test
 * gives others.
 */
export function governorOver(dependencies: Partial<Dependencies> = {}, catchUpShare = 1 / 3): ReadGovernor {
  return new ReadGovernor(
    { catchUpShare },
    {
      ...{ status: complete, clock: systemClock, metrics: createMetrics({ version: '', node: '' }) },
      ...dependencies,
    },
  );
}
