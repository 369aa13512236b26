import { changeFeed } from '../../src/api/index.js';
import { createReaderMetrics } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';

type Dependencies = Parameters<typeof changeFeed>[0];

/** A change feed on the machine's own clock whose metrics nobody reads, unless the test gives others. */
export function feedOver(
  dependencies: Pick<Dependencies, 'reader' | 'status'> & Partial<Dependencies>,
): ReturnType<typeof changeFeed> {
  return changeFeed({ clock: systemClock, metrics: createReaderMetrics(), ...dependencies });
}
